#pragma once

// CRC-32C (Castagnoli: polynomial 0x1EDC6F41, bits reflected), without the complements that are
// usual at its start and end. So it is linear over XOR: the check of a long range is the XOR of its
// pieces' checks, each moved by what lies behind the piece, and bytes of zero count nothing.

#include <cstddef>
#include <cstdint>

namespace penstock::io {

uint32_t crc32c(const std::byte* data, size_t bytes);
// What it becomes when so many zeros follow.
uint32_t crc32c_moved(uint32_t check, uint64_t bytes);

// The same without the processor's instruction.
uint32_t crc32c_portable(const std::byte* data, size_t bytes);

}  // namespace penstock::io
