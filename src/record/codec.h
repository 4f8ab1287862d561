#pragma once

// Key codecs for loops: see format.h for the orders they make.
//
// How a float becomes an integer. As sign and magnitude, positive floats already compare like their
// bits, and negative ones the other way round. So flip all bits of negatives and the sign bit of
// the others: now all compare like unsigned integers, but the NaNs with sign bit come first, as the
// keys 0 to N - 1 (N of them: every non-zero mantissa). Subtracting N turns the circle of integers
// by that much: those NaNs wrap around to the top, -inf becomes 0, and nothing else changes places.
// Two operations and no branch, in both directions.

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

#include "base/check.h"
#include "record/format.h"

namespace penstock::record {

static_assert(std::endian::native == std::endian::little, "files hold little-endian numbers");

template <class Bits>
inline Bits load(const void* from) {
  Bits bits;
  std::memcpy(&bits, from, sizeof bits);
  return bits;
}

template <class Bits>
inline void store(std::byte* to, Bits bits) {
  std::memcpy(to, &bits, sizeof bits);
}

// The first 8 bytes as a big-endian number. REQUIRES: 8 bytes are readable.
inline uint64_t load_big_endian(const std::byte* from) {
  return __builtin_bswap64(load<uint64_t>(from));
}

template <std::unsigned_integral B>
struct UnsignedCodec {
  using Bits = B;
  static constexpr Bits encode(Bits bits) { return bits; }
  static constexpr Bits decode(Bits key) { return key; }
};

template <std::unsigned_integral B>
struct SignedCodec {
  using Bits = B;
  static constexpr Bits sign = Bits{1} << (std::numeric_limits<Bits>::digits - 1);
  static constexpr Bits encode(Bits bits) { return bits ^ sign; }
  static constexpr Bits decode(Bits key) { return key ^ sign; }
};

template <std::unsigned_integral B, int mantissa_bits>
struct FloatCodec {
  using Bits = B;
  static constexpr int sign_shift = std::numeric_limits<Bits>::digits - 1;
  static constexpr Bits sign = Bits{1} << sign_shift;
  static constexpr Bits exponent_one = Bits{1} << mantissa_bits;
  static constexpr Bits negative_nans = exponent_one - 1;
  static constexpr Bits infinity = sign - exponent_one;  // the bits of +inf: all exponent bits set

  static constexpr Bits encode(Bits bits) {
    const Bits all_if_negative = Bits{0} - (bits >> sign_shift);
    return (bits ^ (all_if_negative | sign)) - negative_nans;
  }
  static constexpr Bits decode(Bits key) {
    const Bits turned = key + negative_nans;
    const Bits all_if_negative = (turned >> sign_shift) - 1;
    return turned ^ (all_if_negative | sign);
  }
};

using F32Codec = FloatCodec<uint32_t, 23>;
using F64Codec = FloatCodec<uint64_t, 52>;

// Calls `use` with the codec of a numeric type.
template <class Use>
decltype(auto) with_codec(Type type, Use&& use) {
  switch (type) {
    case Type::u32:
      return use(UnsignedCodec<uint32_t>{});
    case Type::i32:
      return use(SignedCodec<uint32_t>{});
    case Type::f32:
      return use(F32Codec{});
    case Type::i64:
      return use(SignedCodec<uint64_t>{});
    case Type::f64:
      return use(F64Codec{});
    default:
      PENSTOCK_CHECK(type == Type::u64 || type == Type::kv64, "only numbers have key codecs");
      return use(UnsignedCodec<uint64_t>{});
  }
}

// Whether keys are the numbers themselves, so that nothing needs encoding.
constexpr bool keys_are_plain(Type type, bool descending) {
  return !descending && (type == Type::u32 || type == Type::u64 || type == Type::kv64);
}

// What an item of a numeric type takes in a file.
constexpr uint32_t item_bytes_of(Type type) {
  switch (type) {
    case Type::u32:
    case Type::i32:
    case Type::f32:
      return 4;
    case Type::kv64:
      return 16;
    default:
      return 8;
  }
}

// Whole arrays of items in place, at any alignment; at -O3 the compiler vectorizes these loops.
// Values of key-value pairs stay as they are. REQUIRES: `type` is numeric.
template <bool decoding>
void recode_keys(Type type, std::byte* items, size_t count, bool descending) {
  with_codec(type, [&]<class Codec>(Codec) {
    using Bits = typename Codec::Bits;
    const Bits flip = descending ? ~Bits{0} : Bits{0};
    auto run = [&](size_t stride) {
      for (size_t i = 0; i < count; ++i) {
        const Bits bits = load<Bits>(items + i * stride);
        store<Bits>(items + i * stride,
                    decoding ? Codec::decode(bits ^ flip) : Bits(Codec::encode(bits) ^ flip));
      }
    };
    if (type == Type::kv64) {
      run(16);
    } else {
      run(sizeof(Bits));  // a constant stride, so that this loop becomes vector instructions
    }
  });
}

inline void encode_keys(Type type, std::byte* items, size_t count, bool descending = false) {
  recode_keys<false>(type, items, count, descending);
}
inline void decode_keys(Type type, std::byte* items, size_t count, bool descending = false) {
  recode_keys<true>(type, items, count, descending);
}

}  // namespace penstock::record
