#pragma once

// A search for many line ends (byte_set.h): a call of memchr() takes longer than a short line.

#include <cstddef>
#include <optional>

namespace penstock::items {

// Stores the ends of at most `ends_max` lines of [begin, end), each counted from `begin` to behind
// its line end. Returns how many there are. With a `quote`, a line end between two quotes ends no
// line. `begins_quoted`: `begin` itself lies between two quotes.
size_t find_line_ends(const std::byte* begin, const std::byte* end, char line_end,
                      std::optional<char> quote, size_t* ends, size_t ends_max,
                      bool begins_quoted = false);

}  // namespace penstock::items
