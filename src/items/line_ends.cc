#include "items/line_ends.h"

#include <algorithm>
#include <bit>
#include <cstdint>

#include "items/byte_set.h"

namespace penstock::items {
namespace {

// Returns a mask of the bits with an odd number of set bits up to them.
uint64_t odd_so_far(uint64_t bits) {
  for (unsigned shift = 1; shift < 64; shift *= 2) bits ^= bits << shift;
  return bits;
}

}  // namespace

size_t find_line_ends(const std::byte* begin, const std::byte* end, char line_end,
                      std::optional<char> quote, size_t* ends, size_t ends_max,
                      bool begins_quoted) {
  const ByteSet<1> ends_set({line_end}), quotes({quote.value_or(line_end)});
  size_t found = 0;
  uint64_t quoted =
      -uint64_t{begins_quoted};  // all bits are set if the block begins between quotes
  for (const std::byte* at = begin; at < end && found < ends_max;) {
    const size_t bytes = std::min<size_t>(end - at, ByteSet<1>::block_bytes);
    uint64_t mask = ends_set.find_in(at, bytes);
    if (quote) {
      const uint64_t marks = quotes.find_in(at, bytes);
      const uint64_t is_quoted = marks == 0 ? quoted : odd_so_far(marks) ^ quoted;
      mask &= ~is_quoted;
      quoted = -(is_quoted >> 63);
    }
    const auto offset = static_cast<size_t>(at - begin);
    for (; mask != 0 && found < ends_max; mask &= mask - 1)
      ends[found++] = offset + static_cast<size_t>(std::countr_zero(mask)) + 1;
    at += bytes;
  }
  return found;
}

}  // namespace penstock::items
