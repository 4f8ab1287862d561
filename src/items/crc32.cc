#include "items/crc32.h"

#include <array>

#include "items/keys/codec.h"

// A CRC computed bit by bit, or with one table byte by byte, makes each step wait for the one
// before. But a CRC is linear over XOR: the effect of a byte that k more bytes will follow stands
// in a table of its own. With sixteen tables sixteen bytes are looked up side by side, and only
// their XOR waits for the previous sixteen.

namespace penstock::items {
namespace {

constexpr size_t slice_bytes = 16;
using Table = std::array<uint32_t, 256>;

// tables[k][b] is the contribution of byte b that k more bytes follow.
constexpr std::array<Table, slice_bytes> make_tables() {
  std::array<Table, slice_bytes> tables{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0xedb88320u : 0u);
    tables[0][byte] = crc;
  }
  for (size_t k = 1; k < slice_bytes; ++k) {
    for (size_t byte = 0; byte < 256; ++byte) {
      const uint32_t before = tables[k - 1][byte];
      tables[k][byte] = (before >> 8) ^ tables[0][before & 0xff];
    }
  }
  return tables;
}

constexpr std::array<Table, slice_bytes> tables = make_tables();

// Returns the contribution of the four bytes of `word` that `following` more bytes follow.
inline uint32_t advance(uint32_t word, size_t following) {
  return tables[following + 3][word & 0xff] ^ tables[following + 2][(word >> 8) & 0xff] ^
         tables[following + 1][(word >> 16) & 0xff] ^ tables[following][word >> 24];
}

}  // namespace

uint32_t crc32(const std::byte* data, size_t bytes) {
  uint32_t crc = ~uint32_t{0};
  for (; bytes >= slice_bytes; data += slice_bytes, bytes -= slice_bytes) {
    crc = advance(crc ^ load<uint32_t>(data), 12) ^ advance(load<uint32_t>(data + 4), 8) ^
          advance(load<uint32_t>(data + 8), 4) ^ advance(load<uint32_t>(data + 12), 0);
  }
  for (; bytes >= 4; data += 4, bytes -= 4) crc = advance(crc ^ load<uint32_t>(data), 0);
  for (; bytes > 0; ++data, --bytes) {
    crc = (crc >> 8) ^ tables[0][(crc ^ static_cast<uint32_t>(*data)) & 0xff];
  }
  return ~crc;
}

}  // namespace penstock::items
