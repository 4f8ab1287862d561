#pragma once

// Rewrites a regular expression so that many lines can be searched at once.

#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace penstock::source {

// Returns an expression that finds in a text of many lines what `expression` finds in each line
// alone: no match holds an end of line, and none depends on a byte of another line. nullopt: the
// expression has syntax for which that is not known. Both are for PCRE2_MULTILINE and newlines that
// are '\n'. `matches_newline` compiles a class in brackets and returns whether it matches '\n'.
// REQUIRES: `expression` compiles.
std::optional<std::string> expression_within_lines(
    std::string_view expression, const std::function<bool(const std::string&)>& matches_newline);

}  // namespace penstock::source
