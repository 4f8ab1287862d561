#pragma once

// The lines of a text in which a pattern occurs, as grep(1) finds them, in constant memory.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "files/source/find.h"
#include "penstock/base.h"
#include "penstock/source.h"

namespace penstock::source {

struct FoundLine {
  uint64_t number = 0;    // counted from 1
  std::string_view text;  // without its newline; valid during the call
};

// Calls `on_line` for each line in which `pattern` matches, until it returns false; returns the
// number of such lines. Each line is a text by itself: no match spans two. `name` is for messages.
// Errors: the source's, after all lines in front; out_of_memory for a line of more than
// `line_bytes_max`: no line is ever missed. It is fast if the pattern finds lines_at_once().
Result<uint64_t> find_lines(Source& source, const std::string& name, Pattern& pattern,
                            size_t line_bytes_max,
                            const std::function<Result<bool>(const FoundLine&)>& on_line);

// Calls `on_match` for all matches in a text, leftmost first, without overlaps.
Status find_in_text(Pattern& pattern, std::string_view text,
                    const std::function<void(std::string_view)>& on_match);

}  // namespace penstock::source
