#pragma once

// Names of files, and other text from strangers, in a form that can be shown to people.

#include <cstddef>
#include <string>
#include <string_view>

namespace penstock {

// Returns a name that is safe on a terminal or a page: valid UTF-8 without control effects. Bytes
// that are no UTF-8, control characters, and those that turn the direction of writing become \x1b
// and \u{202e}; a backslash stays. A long name loses its middle: at most `characters_max`
// characters stay (an escape counts by its length), and an ellipsis.
std::string printable(std::string_view name, size_t characters_max = 200);

}  // namespace penstock
