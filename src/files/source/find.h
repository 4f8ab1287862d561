#pragma once

// All places where a pattern occurs in a stream, in one pass over its pointer: see find.cc.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "penstock/base.h"
#include "penstock/source.h"

namespace penstock::source {

struct Match {
  uint64_t offset;
  uint64_t bytes;
};

// What is looked for, and how far the search of it has come. Thread safety: one thread at a time.
class Pattern {
 public:
  // These bytes. REQUIRES: there is one.
  static Result<std::unique_ptr<Pattern>> fixed(std::string bytes);
  // A regular expression of PCRE2, over bytes; ^ and $ match at lines. `ignore_case`: of letters of
  // ASCII.
  static Result<std::unique_ptr<Pattern>> regex(const std::string& expression,
                                                bool ignore_case = false);
  virtual ~Pattern() = default;

  struct Step {
    bool matched;    // [begin, end) is the next match; the search goes on at `end`
    uint64_t begin;  // not matched: where a match that needs more data may begin; nothing before it
    uint64_t end;
  };
  virtual void restart() = 0;
  // The first match that begins in [from, to]. The data are readable from `from` -
  // lookbehind_bytes() to `to`, and more follow unless `last`. REQUIRES: `from` is where the last
  // step said, or 0 after restart().
  virtual Result<Step> next(const char* data, uint64_t from, uint64_t to, bool last) = 0;
  // How far in front of a match it looks.
  virtual uint64_t lookbehind_bytes() const = 0;
  // The length of its longest candidate; 0: there is no limit.
  virtual uint64_t candidate_bytes_max() const = 0;
};

// The comeback that lets a stream of unknown length be searched for candidates of up to
// `candidate_bytes` (of a fixed pattern: at least its length).
uint32_t comeback_blocks_for(const Pattern& pattern, size_t block_bytes, uint64_t candidate_bytes);

// Calls `on_match` for all matches, leftmost first, none overlapping another, empty ones included;
// until it says false. It may read the match's bytes at the stream's pointer. Returns how many.
// REQUIRES: the stream is fresh; its policy is `recover`. Errors: the stream's, after all matches
// in front; a candidate that is too long for the comeback blocks (out_of_memory), never a match
// that is missed.
Result<uint64_t> find_all(SourceStream& stream, Pattern& pattern,
                          const std::function<bool(const Match&)>& on_match);

}  // namespace penstock::source
