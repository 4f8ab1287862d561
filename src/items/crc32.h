#pragma once

// CRC-32 as in zlib and Ethernet (polynomial 0x04C11DB7, bits reflected, start and end
// complemented).

#include <cstddef>
#include <cstdint>

namespace penstock::items {

uint32_t crc32(const std::byte* data, size_t bytes);

}  // namespace penstock::items
