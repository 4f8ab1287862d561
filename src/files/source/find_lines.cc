#include "files/source/find_lines.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <span>
#include <vector>

#include "files/source/checked_read.h"
#include "penstock/base.h"

namespace penstock::source {
namespace {

constexpr size_t buffer_bytes = 1 * MiB;

const char* end_of_line(const char* at, const char* end) {
  const void* found = std::memchr(at, '\n', static_cast<size_t>(end - at));
  return found == nullptr ? end : static_cast<const char*>(found);
}

// Counts ends of lines, 16 bytes at a time. std::count would widen each byte to 8.
uint64_t count_newlines(const char* at, const char* end) {
  using Bytes [[gnu::vector_size(16)]] = uint8_t;
  uint64_t count = 0;
  while (static_cast<size_t>(end - at) >= sizeof(Bytes)) {
    const size_t steps = std::min<size_t>(static_cast<size_t>(end - at) / sizeof(Bytes), 255);
    Bytes counts{};
    for (size_t i = 0; i < steps; ++i, at += sizeof(Bytes)) {
      Bytes bytes;
      std::memcpy(&bytes, at, sizeof(bytes));
      counts -= std::bit_cast<Bytes>(bytes == '\n');  // a hit is -1
    }
    for (size_t i = 0; i < sizeof(Bytes); ++i) count += counts[i];
  }
  return count + static_cast<uint64_t>(std::count(at, end, '\n'));
}

class LineSearch {
 public:
  LineSearch(Pattern& pattern, const std::function<Result<bool>(const FoundLine&)>& on_line)
      : pattern_(pattern), on_line_(on_line), at_once_(pattern.lines_at_once()) {
    pattern_.limit_steps(at_once_);
  }

  // Searches whole lines; the last one may lack its newline. False: the search is over.
  Result<bool> look_at(std::string_view lines) {
    const char* at = lines.data();
    const char* const end = at + lines.size();
    while (at < end) {
      const char* line = at;
      const char* const stop = at_once_ ? end : end_of_line(at, end);
      const auto bytes = static_cast<uint64_t>(stop - at);
      pattern_.restart();
      const auto step = pattern_.next(at, 0, bytes, true);
      // A line of the block has an error, or the expression goes back too often. (PCRE2 passes over a
      // line that lacks a byte of the expression, but a block has that byte in another line.)
      if (!step && at_once_) {
        at_once_ = false;
        pattern_.limit_steps(false);
        continue;
      }
      if (!step) return std::unexpected(step.error());
      if (at_once_) {
        // An empty match behind the last end of a line is in no line.
        if (!step->matched || (step->begin == bytes && end[-1] == '\n')) {
          number_ += count_newlines(at, end);
          return true;
        }
        const void* before = ::memrchr(at, '\n', step->begin);
        if (before != nullptr) line = static_cast<const char*>(before) + 1;
        number_ += count_newlines(at, line);
      }
      const char* const line_end = end_of_line(line, end);
      ++number_;
      at = std::min(end, line_end + 1);
      if (!step->matched) continue;
      ++found_;
      auto goes_on =
          on_line_({number_, std::string_view(line, static_cast<size_t>(line_end - line))});
      if (!goes_on || !*goes_on) return goes_on;
    }
    return true;
  }
  uint64_t found() const { return found_; }

 private:
  Pattern& pattern_;
  const std::function<Result<bool>(const FoundLine&)>& on_line_;
  bool at_once_;         // lines are searched together
  uint64_t number_ = 0;  // number of lines passed
  uint64_t found_ = 0;
};

}  // namespace

Result<uint64_t> find_lines(Source& source, const std::string& name, Pattern& pattern,
                            size_t line_bytes_max,
                            const std::function<Result<bool>(const FoundLine&)>& on_line) {
  LineSearch search(pattern, on_line);
  std::vector<char> buffer(std::min(buffer_bytes, std::max<size_t>(1, line_bytes_max)));
  size_t have = 0;
  for (;;) {
    if (have == buffer.size()) {
      if (have >= line_bytes_max) {
        return failure(ErrorCode::out_of_memory,
                       "hold a line of more than " + std::to_string(line_bytes_max) + " bytes",
                       name, "a larger --window");
      }
      buffer.resize(std::min(line_bytes_max, 2 * have));
    }
    const auto more =
        source::checked_read(source, std::as_writable_bytes(std::span(buffer).subspan(have)));
    if (!more) return std::unexpected(more.error());
    // The bytes before contain no end of a line.
    const void* last = ::memrchr(buffer.data() + have, '\n', *more);
    have += *more;
    size_t whole = *more == 0 ? have : 0;
    if (last != nullptr)
      whole = static_cast<size_t>(static_cast<const char*>(last) - buffer.data()) + 1;
    if (whole > 0) {
      const auto goes_on = search.look_at({buffer.data(), whole});
      if (!goes_on) return std::unexpected(goes_on.error());
      if (!*goes_on) return search.found();
      std::memmove(buffer.data(), buffer.data() + whole, have - whole);
      have -= whole;
    }
    if (*more == 0) return search.found();
  }
}

Status find_in_text(Pattern& pattern, std::string_view text,
                    const std::function<void(std::string_view)>& on_match) {
  pattern.restart();
  for (uint64_t from = 0;;) {
    const auto step = pattern.next(text.data(), from, text.size(), true);
    if (!step) return std::unexpected(step.error());
    if (!step->matched) return {};
    on_match(text.substr(step->begin, step->end - step->begin));
    from = step->end;
  }
}

}  // namespace penstock::source
