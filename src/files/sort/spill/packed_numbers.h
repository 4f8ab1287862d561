#pragma once

// Blocks of numbers in temporaries, packed without the bits that all numbers of a block share.

#include <cstddef>

namespace penstock::external {

// Packs `bytes` of numbers in place. Returns the packed size (layout in packed_numbers.cc), or 0 if
// packing would not save a sector; the block is then unchanged. Overwrites up to a multiple of
// packed_group_bytes. REQUIRES: `item_bytes` is 4, 8, or 16 (key and value).
size_t pack_numbers(size_t item_bytes, std::byte* block, size_t bytes);
// Restores the numbers in place, and overwrites the bytes behind them as above. Returns false if
// the block was not packed so.
[[nodiscard]] bool unpack_numbers(size_t item_bytes, std::byte* block, size_t packed_bytes,
                                  size_t bytes);

inline constexpr size_t packed_group_bytes = 128;

}  // namespace penstock::external
