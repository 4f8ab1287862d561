#pragma once

// Where lines end: 64 bytes at a time, because a call for each of many short lines takes longer than
// they do.

#include <cstddef>

namespace penstock::items {

// Stores where each line in [begin, end) ends, behind its newline and counted from `begin`, in order, of
// at most `ends_max` lines. Returns how many.
size_t find_line_ends(const std::byte* begin, const std::byte* end, char line_end, size_t* ends,
                      size_t ends_max);

}  // namespace penstock::items
