#pragma once

// Blocks of numbers in temporaries, without the bits that all numbers of a block share.

#include <cstddef>

namespace penstock::external {

// Packs `bytes` of numbers in place. Returns what they take then, as drawn in packed_numbers.cc; 0: they
// would not take a sector less, and stay as they are. What follows them is overwritten up to a
// multiple of packed_group_bytes. REQUIRES: `item_bytes` is 4, 8, or 16 for a key and a value of 8.
size_t pack_numbers(size_t item_bytes, std::byte* block, size_t bytes);
// The numbers as they were, in place, and what follows them as above. False: this was not packed so.
[[nodiscard]] bool unpack_numbers(size_t item_bytes, std::byte* block, size_t packed_bytes,
                                  size_t bytes);

inline constexpr size_t packed_group_bytes = 128;

}  // namespace penstock::external
