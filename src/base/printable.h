#pragma once

// Names of files, and what else strangers choose, as they can be shown to people.

#include <cstddef>
#include <string>
#include <string_view>

namespace penstock {

// A name as it can be shown on a terminal or a page: valid UTF-8 in which nothing acts. Bytes that
// are no UTF-8, control characters, and those that turn the direction of writing come as \x1b and
// \u{202e}; a backslash as it is. Longer ones lose their middle: at most `characters_max`
// characters stay (an escape is as many as it is long), and an ellipsis.
std::string printable(std::string_view name, size_t characters_max = 200);

}  // namespace penstock
