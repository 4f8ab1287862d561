#pragma once

// CRC-32C (Castagnoli: polynomial 0x1EDC6F41, bits reflected), without the usual complements at its
// start and end. So it is linear over XOR: the check of a long range is the XOR of its pieces'
// checks, each moved by the bytes behind the piece, and bytes of zero do not change it.

#include <cstddef>
#include <cstdint>

namespace penstock::io {

uint32_t crc32c(const std::byte* data, size_t bytes);
// Returns the check after `bytes` more zeros.
uint32_t crc32c_moved(uint32_t check, uint64_t bytes);

// Computes crc32c() without the processor's instruction.
uint32_t crc32c_portable(const std::byte* data, size_t bytes);

}  // namespace penstock::io
