// How a pattern is found in a stream without losing a match at a block's boundary.
//
// A search buffer by buffer, with the end of one copied in front of the next, must know how long a
// match can be; lookbehind sees a border that does not exist, and a regular expression has no
// longest match. Here the subject is the stream's pointer itself, from its first byte on: offsets
// are absolute, \b and ^ see the real byte in front, and the stream frees the memory behind.
//
// A plain file has a length, so the library is called once for all of it; if it goes back, the file
// is read again. Other inputs have a length only at their end. The search is then given the bytes
// that have arrived, and a candidate that reaches their end is undecided:
//
//         given away |  lookbehind  | from ... candidate .... to |  not there yet
//        ------------+--------------+----------------------------+---------------
//                    ^ comeback_blocks behind `to`
//
// PCRE2's partial matching (PCRE2_PARTIAL_HARD) detects this: it stops at a start position that met
// the end of the subject, in an assertion too, and nothing in front of it can match any more. So
// the search goes on at that position when more data have arrived, as far as the comeback blocks
// reach back. A candidate that needs more is an error. Invariant: all matches that begin before
// `from` have been reported.
//
// An error of the stream leaves next() and the library in the middle by a jump to a recovery point:
// the library's memory (match data, JIT stack) is owned here, and is used again only from the start.

#include "files/source/find.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <fmt/format.h>
#include <pcre2.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>

#include "base/bits.h"
#include "files/source/find_expression.h"
#include "penstock/stream.h"

namespace penstock::source {

namespace {

class FixedPattern final : public Pattern {
 public:
  explicit FixedPattern(std::string bytes) : bytes_(std::move(bytes)) {}
  void restart() override {}
  uint64_t lookbehind_bytes() const override { return 0; }
  uint64_t candidate_bytes_max() const override { return bytes_.size(); }
  bool lines_at_once() const override { return !bytes_.contains('\n'); }

  Result<Step> next(const char* data, uint64_t from, uint64_t to, bool) override {
    const void* found = ::memmem(data + from, to - from, bytes_.data(), bytes_.size());
    if (found != nullptr) {
      const auto begin = static_cast<uint64_t>(static_cast<const char*>(found) - data);
      return Step{true, begin, begin + bytes_.size()};
    }
    const uint64_t undecided = std::min<uint64_t>(bytes_.size() - 1, to - from);
    return Step{false, to - undecided, to};
  }

 private:
  const std::string bytes_;
};

template <auto free_it>
struct Free {
  void operator()(auto* object) const { free_it(object); }
};
using Code = std::unique_ptr<pcre2_code, Free<pcre2_code_free>>;
using MatchData = std::unique_ptr<pcre2_match_data, Free<pcre2_match_data_free>>;
using MatchContext = std::unique_ptr<pcre2_match_context, Free<pcre2_match_context_free>>;
using JitStack = std::unique_ptr<pcre2_jit_stack, Free<pcre2_jit_stack_free>>;

std::string message_of(int pcre2_error) {
  std::array<PCRE2_UCHAR, 256> text{};
  ::pcre2_get_error_message(pcre2_error, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

// Memory limit of backtracking. Time has no limit, as a line has none.
constexpr size_t backtrack_bytes_max = 64 * MiB;

// Steps of a limited search: some hundredths of a second.
constexpr uint32_t steps_max = 10'000'000;

Result<Code> compiled(const std::string& expression, bool ignore_case) {
  int error = 0;
  size_t where = 0;
  Code code(::pcre2_compile(reinterpret_cast<PCRE2_SPTR>(expression.data()), expression.size(),
                            PCRE2_MULTILINE | PCRE2_NEVER_UTF | (ignore_case ? PCRE2_CASELESS : 0),
                            &error, &where, nullptr));
  if (code == nullptr) {
    return failure(
        ErrorCode::invalid_argument,
        fmt::format("understand the expression at character {}: {}", where, message_of(error)),
        expression);
  }
  return code;
}

// Compiles an expression that finds in many lines what `code` finds in each; null if none is known.
Code compiled_within_lines(const std::string& expression, const pcre2_code* code,
                           bool ignore_case) {
  uint32_t newline = 0;
  ::pcre2_pattern_info(code, PCRE2_INFO_NEWLINE, &newline);
  if (newline != PCRE2_NEWLINE_LF) return nullptr;
  const auto within = expression_within_lines(expression, [](const std::string& bytes) {
    const Result<Code> byte = compiled(bytes, false);
    const MatchData matched(::pcre2_match_data_create(1, nullptr));
    return !byte || matched == nullptr ||
           ::pcre2_match(byte->get(), reinterpret_cast<PCRE2_SPTR>("\n"), 1, 0, 0, matched.get(),
                         nullptr) != PCRE2_ERROR_NOMATCH;
  });
  if (!within) return nullptr;
  Result<Code> again = compiled(*within, ignore_case);
  return again ? std::move(*again) : nullptr;
}

class RegexPattern final : public Pattern {
 public:
  static Result<std::unique_ptr<Pattern>> compile(const std::string& expression,
                                                  const RegexOptions& options) {
    Result<Code> code = compiled(expression, options.ignore_case);
    if (!code) return std::unexpected(code.error());
    Code within;
    if (options.lines) within = compiled_within_lines(expression, code->get(), options.ignore_case);
    const bool lines_at_once = within != nullptr;
    if (lines_at_once) *code = std::move(within);
    // An expression that cannot be compiled to machine code is interpreted.
    (void)::pcre2_jit_compile(code->get(),
                              PCRE2_JIT_COMPLETE | (options.lines ? 0 : PCRE2_JIT_PARTIAL_HARD));
    auto pattern = std::make_unique<RegexPattern>(std::move(*code), expression, lines_at_once);
    if (!pattern->allocate()) {
      return failure(ErrorCode::out_of_memory, "prepare to match", expression);
    }
    return pattern;
  }
  RegexPattern(Code code, std::string expression, bool lines_at_once)
      : expression_(std::move(expression)), code_(std::move(code)), lines_at_once_(lines_at_once) {
    uint32_t characters = 0;
    ::pcre2_pattern_info(code_.get(), PCRE2_INFO_MAXLOOKBEHIND, &characters);
    lookbehind_bytes_ = characters;
  }

  void restart() override { after_empty_ = false; }
  uint64_t lookbehind_bytes() const override { return lookbehind_bytes_; }
  uint64_t candidate_bytes_max() const override { return 0; }
  bool lines_at_once() const override { return lines_at_once_; }

  void limit_steps(bool limited) override {
    ::pcre2_set_match_limit(context_.get(),
                            limited ? steps_max : std::numeric_limits<uint32_t>::max());
  }
  Result<Step> next(const char* data, uint64_t from, uint64_t to, bool last) override {
    if (after_empty_) {
      // Behind an empty match the next one may begin at the same place, unless it is empty as well.
      Result<Step> here = match(data, from, to, last, PCRE2_NOTEMPTY_ATSTART | PCRE2_ANCHORED);
      if (!here || here->matched || here->begin == from) return here;
      after_empty_ = false;
      if (++from > to) return Step{false, to, to};
    }
    return match(data, from, to, last, 0);
  }

 private:
  bool allocate() {
    matched_.reset(::pcre2_match_data_create(1, nullptr));
    context_.reset(::pcre2_match_context_create(nullptr));
    jit_stack_.reset(::pcre2_jit_stack_create(32 * KiB, backtrack_bytes_max, nullptr));
    if (matched_ == nullptr || context_ == nullptr || jit_stack_ == nullptr) return false;
    ::pcre2_jit_stack_assign(context_.get(), nullptr, jit_stack_.get());
    ::pcre2_set_heap_limit(context_.get(), backtrack_bytes_max / KiB);
    limit_steps(false);
    ::pcre2_set_depth_limit(context_.get(), std::numeric_limits<uint32_t>::max());
    return true;
  }

  Result<Step> match(const char* data, uint64_t from, uint64_t to, bool last, uint32_t options) {
    const int run =
        ::pcre2_match(code_.get(), reinterpret_cast<PCRE2_SPTR>(data), to, from,
                      options | (last ? 0 : PCRE2_PARTIAL_HARD), matched_.get(), context_.get());
    const bool anchored = (options & PCRE2_ANCHORED) != 0;
    const size_t* bounds = ::pcre2_get_ovector_pointer(matched_.get());
    if (run == PCRE2_ERROR_NOMATCH) return Step{false, anchored ? from + 1 : to, to};
    if (run == PCRE2_ERROR_PARTIAL) {
      return Step{false, anchored ? from : bounds[0], to};
    }
    if (run < 0) return std::unexpected(failed(run, from));
    if (!last && bounds[1] == to) {  // later data may change the match
      return Step{false, anchored ? from : ::pcre2_get_startchar(matched_.get()), to};
    }
    after_empty_ = bounds[0] == bounds[1];
    return Step{true, bounds[0], bounds[1]};
  }

  Error failed(int pcre2_error, uint64_t from) const {
    const bool memory = pcre2_error == PCRE2_ERROR_JIT_STACKLIMIT ||
                        pcre2_error == PCRE2_ERROR_HEAPLIMIT || pcre2_error == PCRE2_ERROR_NOMEMORY;
    return {memory ? ErrorCode::out_of_memory : ErrorCode::invalid_argument,
            fmt::format("match after offset {}: {}", from, message_of(pcre2_error)), expression_, 0,
            memory ? "an expression that goes back less (a possessive quantifier)" : ""};
  }

  const std::string expression_;
  Code code_;
  JitStack jit_stack_;
  MatchContext context_;
  MatchData matched_;
  const bool lines_at_once_;
  uint64_t lookbehind_bytes_ = 0;
  bool after_empty_ = false;  // the last match was empty, where the next search begins
};

// The searchable part of a stream. Invariants: to_ bytes have arrived, and the comeback blocks
// reach from to_ back to what the search still needs.
class Window {
 public:
  Window(SourceStream& stream, const Pattern& pattern) : stream_(stream), pattern_(pattern) {}

  uint64_t to() const { return to_; }
  bool last() const { return last_; }

  // Waits for more data behind to(), for a search that goes on at `from`.
  Status extend(uint64_t from) {
    const Result<uint64_t> ready = stream_.wait_ready(to_);
    if (!ready) return std::unexpected(ready.error());
    const uint64_t more = std::min(*ready, reach(from));
    if (more <= to_ && *ready > to_) return too_long(from);
    last_ = *ready <= to_ || stream_.bytes() == more;
    to_ = std::max(to_, more);
    return {};
  }

 private:
  // The farthest end of the window: one block less than the comeback, because waiting behind its
  // last byte counts as touching the next block.
  uint64_t reach(uint64_t from) const {
    if (stream_.rereads()) return std::numeric_limits<uint64_t>::max();
    const uint64_t needed = from - std::min(from, pattern_.lookbehind_bytes());
    return round_down(needed, stream_.block_bytes()) +
           stream_.comeback_blocks() * uint64_t{stream_.block_bytes()};
  }
  Status too_long(uint64_t from) const {
    return failure(ErrorCode::out_of_memory,
                   fmt::format("decide whether a match begins at offset {}: of a pipe or of "
                               "compressed data only {} bytes are kept",
                               from, to_ - from),
                   "find", "a larger --window, or an uncompressed file");
  }

  SourceStream& stream_;
  const Pattern& pattern_;
  uint64_t to_ = 0;
  bool last_ = false;
};

}  // namespace

Result<std::unique_ptr<Pattern>> Pattern::fixed(std::string bytes) {
  if (bytes.empty()) {
    return failure(ErrorCode::invalid_argument, "look for nothing", "an empty pattern");
  }
  return std::make_unique<FixedPattern>(std::move(bytes));
}

Result<std::unique_ptr<Pattern>> Pattern::regex(const std::string& expression,
                                                const RegexOptions& options) {
  return RegexPattern::compile(expression, options);
}

uint32_t comeback_blocks_for(const Pattern& pattern, size_t block_bytes, uint64_t candidate_bytes) {
  const uint64_t fixed_bytes = pattern.candidate_bytes_max();
  const uint64_t bytes =
      (fixed_bytes != 0 ? fixed_bytes : candidate_bytes) + pattern.lookbehind_bytes();
  return static_cast<uint32_t>(ceil_div(bytes, block_bytes) + 2);
}

Result<uint64_t> find_all(SourceStream& stream, Pattern& pattern,
                          const std::function<bool(const Match&)>& on_match) {
  pattern.restart();
  Window window(stream, pattern);
  const char* data = stream.begin<char>();
  uint64_t found = 0;
  for (uint64_t from = 0; !window.last();) {
    if (Status extended = window.extend(from); !extended) return std::unexpected(extended.error());
    for (;;) {
      const Result<Pattern::Step> step =
          RecoveryPoint::run([&] { return pattern.next(data, from, window.to(), window.last()); });
      if (!step) return std::unexpected(step.error());
      from = step->matched ? step->end : step->begin;
      if (!step->matched) break;
      ++found;
      if (!on_match({step->begin, step->end - step->begin})) return found;
    }
  }
  return found;
}

}  // namespace penstock::source
