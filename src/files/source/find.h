#pragma once

// All places at which a pattern occurs in a stream, in one pass over its pointer: see find.cc.

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

struct RegexOptions {
  bool ignore_case = false;  // ASCII letters match in either case
  bool lines = false;        // each text is one line or, if lines_at_once(), several
};

// A pattern, and the state of a search for it. Thread safety: one thread at a time.
class Pattern {
 public:
  // Searches these bytes. REQUIRES: at least one.
  static Result<std::unique_ptr<Pattern>> fixed(std::string bytes);
  // Searches a regular expression of PCRE2, over bytes; ^ and $ match at lines.
  static Result<std::unique_ptr<Pattern>> regex(const std::string& expression,
                                                const RegexOptions& options = {});
  virtual ~Pattern() = default;

  struct Step {
    bool matched;    // [begin, end) is the next match; the search goes on at `end`
    uint64_t begin;  // not matched: no match begins before it; one may begin here
    uint64_t end;
  };
  virtual void restart() = 0;
  // Whether a search in many lines finds what it finds in each line alone.
  virtual bool lines_at_once() const = 0;
  // Limits the steps of next(), which then fails where the expression goes back often. Without the
  // limit it fails only for lack of memory.
  virtual void limit_steps(bool /*limited*/) {}
  // Finds the first match that begins in [from, to]. The data are readable from `from` -
  // lookbehind_bytes() to `to`, and more follow unless `last`. REQUIRES: `from` is the last step's
  // end or begin, or 0 after restart(). If a load may fail, the call needs a RecoveryPoint.
  virtual Result<Step> next(const char* data, uint64_t from, uint64_t to, bool last) = 0;
  // How far in front of a match the pattern looks.
  virtual uint64_t lookbehind_bytes() const = 0;
  // Length of the longest candidate; 0: no limit.
  virtual uint64_t candidate_bytes_max() const = 0;
};

// Comeback with which a stream of unknown length can be searched for candidates of up to
// `candidate_bytes` (for a fixed pattern: at least its length).
uint32_t comeback_blocks_for(const Pattern& pattern, size_t block_bytes, uint64_t candidate_bytes);

// Calls `on_match` for all matches, leftmost first, without overlaps, empty ones included, until it
// returns false. It may read the match's bytes at the stream's pointer. Returns the number of
// matches. REQUIRES: the stream is fresh; its policy is `recover`. Errors: the stream's, after all
// matches in front; out_of_memory if a candidate is too long for the comeback blocks: no match is
// ever missed.
Result<uint64_t> find_all(SourceStream& stream, Pattern& pattern,
                          const std::function<bool(const Match&)>& on_match);

}  // namespace penstock::source
