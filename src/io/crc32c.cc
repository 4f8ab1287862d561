#include "io/crc32c.h"

#include <array>
#include <cstring>

#include "base/bits.h"
#include "os/cpu.h"
#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

// The processor's instruction takes eight bytes and needs three cycles, but a new one could begin
// in every cycle. A CRC is linear, so three lanes side by side are three CRCs that do not wait for
// each other. They are combined at the end: each is multiplied by x^(8 k), modulo the polynomial,
// for the k bytes behind it.
//
// Polynomials are written like CRCs: the coefficient of x^0 is the highest bit.

namespace penstock::io {
namespace {

constexpr uint32_t polynomial = 0x82f63b78;

constexpr uint32_t times(uint32_t a, uint32_t b) {
  uint32_t product = 0;
  for (; a != 0; a <<= 1) {
    if ((a >> 31) != 0) product ^= b;
    b = (b >> 1) ^ ((b & 1) != 0 ? polynomial : 0);
  }
  return product;
}

// x^(8 * 2^i)
constexpr auto powers = [] {
  std::array<uint32_t, 64> made{};
  made[0] = 1u << (31 - 8);
  for (size_t i = 1; i < made.size(); ++i) made[i] = times(made[i - 1], made[i - 1]);
  return made;
}();

// slices[k][b]: contribution of byte b after k more bytes.
constexpr size_t slice_bytes = 8;
constexpr auto slices = [] {
  std::array<std::array<uint32_t, 256>, slice_bytes> made{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    for (size_t k = 0; k < slice_bytes; ++k) {
      uint32_t check = k == 0 ? byte : made[k - 1][byte];
      for (int bit = 0; bit < 8; ++bit) check = (check >> 1) ^ ((check & 1) ? polynomial : 0);
      made[k][byte] = check;
    }
  }
  return made;
}();

uint64_t word_at(const std::byte* data) {
  uint64_t word;
  std::memcpy(&word, data, sizeof word);
  return word;
}

#if defined(__x86_64__)
constexpr size_t lanes = 3;
// Unit of a lane's length, so that combining takes few multiplications.
constexpr size_t lane_unit_bytes = 1024;

__attribute__((target("sse4.2"))) uint32_t by_instruction(const std::byte* data, size_t bytes) {
  uint64_t check = 0;
  const size_t lane_bytes = round_down(bytes / lanes, lane_unit_bytes);
  if (lane_bytes > 0) {
    uint64_t second = 0;
    uint64_t third = 0;
    for (size_t at = 0; at < lane_bytes; at += sizeof(uint64_t)) {
      check = _mm_crc32_u64(check, word_at(data + at));
      second = _mm_crc32_u64(second, word_at(data + lane_bytes + at));
      third = _mm_crc32_u64(third, word_at(data + 2 * lane_bytes + at));
    }
    const auto both =
        static_cast<uint32_t>(second) ^ crc32c_moved(static_cast<uint32_t>(check), lane_bytes);
    check = static_cast<uint32_t>(third) ^ crc32c_moved(both, lane_bytes);
    data += lanes * lane_bytes;
    bytes -= lanes * lane_bytes;
  }
  for (; bytes >= sizeof(uint64_t); data += sizeof(uint64_t), bytes -= sizeof(uint64_t))
    check = _mm_crc32_u64(check, word_at(data));
  for (; bytes > 0; ++data, --bytes)
    check = _mm_crc32_u8(static_cast<uint32_t>(check), static_cast<uint8_t>(*data));
  return static_cast<uint32_t>(check);
}
#endif

}  // namespace

uint32_t crc32c_moved(uint32_t check, uint64_t bytes) {
  for (size_t i = 0; bytes != 0; ++i, bytes >>= 1) {
    if ((bytes & 1) != 0) check = times(powers[i], check);
  }
  return check;
}

uint32_t crc32c_portable(const std::byte* data, size_t bytes) {
  uint32_t check = 0;
  for (; bytes >= slice_bytes; data += slice_bytes, bytes -= slice_bytes) {
    uint32_t next = 0;
    for (size_t i = 0; i < slice_bytes; ++i) {
      const auto seen = i < 4 ? static_cast<uint8_t>(check >> (8 * i)) : uint8_t{0};
      next ^= slices[slice_bytes - 1 - i][static_cast<uint8_t>(data[i]) ^ seen];
    }
    check = next;
  }
  for (; bytes > 0; ++data, --bytes)
    check = (check >> 8) ^ slices[0][static_cast<uint8_t>(check) ^ static_cast<uint8_t>(*data)];
  return check;
}

uint32_t crc32c(const std::byte* data, size_t bytes) {
#if defined(__x86_64__)
  // Every processor with AVX2 has this instruction.
  if (os::cpu_tier() != os::CpuTier::portable) return by_instruction(data, bytes);
#endif
  return crc32c_portable(data, bytes);
}

}  // namespace penstock::io
