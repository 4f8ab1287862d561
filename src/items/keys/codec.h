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
#include "items/format.h"

namespace penstock::items {

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

// A numeric type: the C++ type of its key, the codec, and the bytes of an item in a file.
template <class V, class C, uint32_t bytes = sizeof(V)>
struct NumberType {
  using Value = V;
  using Codec = C;
  static constexpr uint32_t item_bytes = bytes;
};

// Calls `use` with the NumberType of a numeric type.
template <class Use>
constexpr decltype(auto) with_number(Type type, Use&& use) {
  switch (type) {
    case Type::u32:
      return use(NumberType<uint32_t, UnsignedCodec<uint32_t>>{});
    case Type::i32:
      return use(NumberType<int32_t, SignedCodec<uint32_t>>{});
    case Type::f32:
      return use(NumberType<float, F32Codec>{});
    case Type::i64:
      return use(NumberType<int64_t, SignedCodec<uint64_t>>{});
    case Type::f64:
      return use(NumberType<double, F64Codec>{});
    case Type::kv64:
      return use(NumberType<uint64_t, UnsignedCodec<uint64_t>, 16>{});
    default:
      PENSTOCK_CHECK(type == Type::u64, "only numbers have key codecs");
      return use(NumberType<uint64_t, UnsignedCodec<uint64_t>>{});
  }
}

// Calls `use` with the codec of a numeric type.
template <class Use>
constexpr decltype(auto) with_codec(Type type, Use&& use) {
  return with_number(
      type, [&]<class Number>(Number) -> decltype(auto) { return use(typename Number::Codec{}); });
}

// Whether keys are the numbers themselves, so that nothing needs encoding.
constexpr bool keys_are_plain(Type type, bool descending) {
  return !descending && with_codec(type, []<class Codec>(Codec) {
    return std::same_as<Codec, UnsignedCodec<typename Codec::Bits>>;
  });
}

// The bytes that an item of a numeric type takes in a file. REQUIRES: it is one.
constexpr uint32_t item_bytes_of(Type type) {
  return with_number(type, []<class Number>(Number) { return Number::item_bytes; });
}

// The type of unsigned numbers as wide, which encoded items are.
constexpr Type encoded_type(Type type) {
  switch (item_bytes_of(type)) {
    case sizeof(uint32_t):
      return Type::u32;
    case 2 * sizeof(uint64_t):
      return Type::kv64;
    default:
      return Type::u64;
  }
}

// Whole arrays of items in place, at any alignment; at -O3 the compiler vectorizes these loops.
// Values of key-value pairs stay as they are. REQUIRES: `type` is numeric.
template <bool decoding>
void recode_keys(Type type, std::byte* items, size_t count, bool descending) {
  with_number(type, [&]<class Number>(Number) {
    using Codec = typename Number::Codec;
    using Bits = typename Codec::Bits;
    const Bits flip = descending ? ~Bits{0} : Bits{0};
    // A constant stride, so that the loop over numbers alone becomes vector instructions.
    for (size_t i = 0; i < count; ++i) {
      std::byte* const item = items + i * Number::item_bytes;
      const Bits bits = load<Bits>(item);
      store<Bits>(item, decoding ? Codec::decode(bits ^ flip) : Bits(Codec::encode(bits) ^ flip));
    }
  });
}

inline void encode_keys(Type type, std::byte* items, size_t count, bool descending = false) {
  recode_keys<false>(type, items, count, descending);
}
inline void decode_keys(Type type, std::byte* items, size_t count, bool descending = false) {
  recode_keys<true>(type, items, count, descending);
}

}  // namespace penstock::items
