#include "generate/sort_benchmark.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "items/keys/codec.h"

// Binary records. Bytes 10j to 10j + 9 of record r are the upper 80 bits of state r + 1 + j, XORed
// with mask j. So neighbours share nine of their ten states: from one record to the next takes one
// step of the sequence, not ten, and a ring keeps the last ten states.

namespace penstock::generate {

using namespace items;
namespace {

constexpr __uint128_t wide(uint64_t high, uint64_t low) {
  return (__uint128_t{high} << 64) | low;
}

// X -> multiplier * X + increment, modulo 2^128.
struct Step {
  __uint128_t multiplier;
  __uint128_t increment;

  constexpr __uint128_t operator()(__uint128_t state) const {
    return multiplier * state + increment;
  }
  // Applies `earlier`, then this.
  constexpr Step after(Step earlier) const {
    return {multiplier * earlier.multiplier, (*this)(earlier.increment)};
  }
};

constexpr Step one_step = {wide(0x2360ed051fc65da4, 0x4385df649fccf645),
                           wide(0x4a696d4772617952, 0x4950202020202001)};

// The state after `steps` steps from X = 0.
__uint128_t state_after(__uint128_t steps) {
  Step skip = {1, 0};
  for (Step power = one_step; steps != 0; steps >>= 1, power = power.after(power)) {
    if ((steps & 1) != 0) skip = power.after(skip);
  }
  return skip(0);
}

// The upper 80 bits of a state, in the order in which they are written.
struct Piece {
  uint64_t first;   // 8 bytes
  uint16_t second;  // 2 bytes
};

constexpr size_t pieces = 10;

constexpr Piece piece_of(uint64_t high, uint16_t low) {
  return {__builtin_bswap64(high), __builtin_bswap16(low)};
}

constexpr Piece piece_of(__uint128_t state) {
  return piece_of(static_cast<uint64_t>(state >> 64), static_cast<uint16_t>(state >> 48));
}

constexpr std::array<Piece, pieces> masks = {
    {piece_of(0x0000000000000000, 0x0000), piece_of(0xF0E8E4E2E1D8D4D2, 0xD1CC),
     piece_of(0xCAC9C6C5C3B8B4B2, 0xB1AC), piece_of(0xAAA9A6A5A39C9A99, 0x9695),
     piece_of(0x938E8D8B87787472, 0x716C), piece_of(0x6A696665635C5A59, 0x5655),
     piece_of(0x534E4D4B473C3A39, 0x3635), piece_of(0x332E2D2B271E1D1B, 0x170F),
     piece_of(0xC8C4C2C198949291, 0x8CE0), piece_of(0x170F332E2D2B271E, 0x1D1B)}};

// Writes a record from the ring of its ten states, the first of which is at `oldest`.
template <size_t oldest>
void write_binary(const std::array<Piece, pieces>& ring, std::byte* out) {
  for (size_t j = 0; j < pieces; ++j, out += 10) {
    const Piece& piece = ring[(oldest + j) % pieces];
    store<uint64_t>(out, piece.first ^ masks[j].first);
    store<uint16_t>(out + 8, static_cast<uint16_t>(piece.second ^ masks[j].second));
  }
}

// Writes `count` records, at most ten, unrolled so that the ring stays in registers.
template <size_t... oldest>
void write_round(std::array<Piece, pieces>& ring, __uint128_t& state, uint64_t count,
                 std::byte* out, std::index_sequence<oldest...>) {
  auto write_one = [&]<size_t slot>(std::integral_constant<size_t, slot>) {
    if (slot >= count) return;
    write_binary<slot>(ring, out + slot * benchmark_record_bytes);
    state = one_step(state);
    ring[slot] = piece_of(state);
  };
  (write_one(std::integral_constant<size_t, oldest>{}), ...);
}

void fill_binary(uint64_t first, uint64_t count, std::byte* out) {
  __uint128_t state = state_after(__uint128_t{first} + 1);
  std::array<Piece, pieces> ring;
  ring[0] = piece_of(state);
  for (size_t j = 1; j < pieces; ++j) {
    state = one_step(state);
    ring[j] = piece_of(state);
  }
  for (; count >= pieces; count -= pieces, out += pieces * benchmark_record_bytes) {
    write_round(ring, state, pieces, out, std::make_index_sequence<pieces>{});
  }
  write_round(ring, state, count, out, std::make_index_sequence<pieces>{});
}

constexpr std::byte hex_digit(unsigned value) {
  return static_cast<std::byte>("0123456789ABCDEF"[value & 15]);
}

void write_ascii(uint64_t index, __uint128_t state, std::byte* out) {
  const auto high = static_cast<uint64_t>(state >> 64);
  const auto low = static_cast<uint64_t>(state);
  constexpr std::byte blank{' '};
  write_base95(high, 8, out);
  write_base95(low, 2, out + 8);
  out[10] = out[11] = blank;
  std::fill_n(out + 12, 16, std::byte{'0'});  // the upper half of a 128-bit record number
  for (unsigned i = 0; i < 16; ++i)
    out[28 + i] = hex_digit(static_cast<unsigned>(index >> (60 - 4 * i)));
  out[44] = out[45] = blank;
  for (unsigned i = 0; i < 13; ++i) {
    const std::byte digit = hex_digit(static_cast<unsigned>(low >> (48 - 4 * i)));
    std::memset(out + 46 + 4 * i, static_cast<int>(digit), 4);
  }
  out[98] = std::byte{'\r'};
  out[99] = std::byte{'\n'};
}

void fill_ascii(uint64_t first, uint64_t count, std::byte* out) {
  __uint128_t state = state_after(__uint128_t{first} + 1);
  for (uint64_t i = 0; i < count; ++i, out += benchmark_record_bytes, state = one_step(state)) {
    write_ascii(first + i, state, out);
  }
}

}  // namespace

void write_base95(uint64_t value, size_t digits, std::byte* out) {
  for (size_t i = 0; i < digits; ++i, value /= 95) {
    out[i] = static_cast<std::byte>(0x20 + value % 95);
  }
}

void fill_benchmark_records(BenchmarkKind kind, uint64_t first, uint64_t count, std::byte* out) {
  if (kind == BenchmarkKind::binary) {
    fill_binary(first, count, out);
  } else {
    fill_ascii(first, count, out);
  }
}

}  // namespace penstock::generate
