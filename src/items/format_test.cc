#include "items/format.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "base/random.h"
#include "items/keys/codec.h"

namespace penstock::items {
namespace {

// The order of floats in format.h, told without the codec.
template <class Float, class Bits>
bool float_before(Bits a, Bits b) {
  const auto x = std::bit_cast<Float>(a), y = std::bit_cast<Float>(b);
  if (std::isnan(x) || std::isnan(y)) {
    if (std::isnan(x) != std::isnan(y)) return std::isnan(y);
    if (std::signbit(x) != std::signbit(y)) return std::signbit(y);
    return std::signbit(x) ? a > b : a < b;
  }
  if (x != y) return x < y;
  return std::signbit(x) && !std::signbit(y);
}

template <class Bits>
std::vector<Bits> sample_bits(uint64_t seed) {
  constexpr int width = sizeof(Bits) * 8;
  std::vector<Bits> sample = {0, 1, static_cast<Bits>(~Bits{0})};
  for (int shift = 0; shift < width; ++shift) {
    const Bits power = Bits{1} << shift;
    for (const Bits near : {power - 1, power, power + 1}) {
      for (const Bits bits : {near, Bits(~near), Bits(Bits{0} - near)}) sample.push_back(bits);
    }
  }
  constexpr int mantissa = sizeof(Bits) == 4 ? 23 : 52;
  const Bits infinity = (~Bits{0} >> 1) & ~((Bits{1} << mantissa) - 1);
  for (const Bits near : {infinity - 1, infinity, infinity + 1, infinity + 5}) {
    sample.push_back(near);
    sample.push_back(near | (Bits{1} << (width - 1)));
  }
  Random random(seed);
  for (int i = 0; i < 20000; ++i) sample.push_back(static_cast<Bits>(random.next()));
  return sample;
}

template <class Bits>
Bits encode(Type type, Bits bits) {
  if constexpr (sizeof(Bits) == 4)
    return encode_key32(type, bits);
  else
    return encode_key64(type, bits);
}
template <class Bits>
Bits decode(Type type, Bits key) {
  if constexpr (sizeof(Bits) == 4)
    return decode_key32(type, key);
  else
    return decode_key64(type, key);
}

// Sorting by key is sorting by `before`, and every bit pattern comes back.
template <class Bits, class Before>
void expect_order(Type type, Before before) {
  std::vector<Bits> by_value = sample_bits<Bits>(7), by_key = by_value;
  std::ranges::sort(by_value, before);
  for (Bits& bits : by_key) {
    const Bits key = encode<Bits>(type, bits);
    ASSERT_EQ(decode<Bits>(type, key), bits);
    ASSERT_EQ(encode<Bits>(type, decode<Bits>(type, bits)), bits);
    bits = key;
  }
  std::ranges::sort(by_key);
  for (size_t i = 0; i < by_key.size(); ++i) {
    ASSERT_EQ(decode<Bits>(type, by_key[i]), by_value[i]) << name_of(type) << " at " << i;
  }
}

template <class Number, class Bits>
bool number_before(Bits a, Bits b) {
  return std::bit_cast<Number>(a) < std::bit_cast<Number>(b);
}

TEST(Codec, KeysOrderLikeNumbers) {
  expect_order<uint32_t>(Type::u32, std::less<>());
  expect_order<uint64_t>(Type::u64, std::less<>());
  expect_order<uint64_t>(Type::kv64, std::less<>());
  expect_order<uint32_t>(Type::i32, number_before<int32_t, uint32_t>);
  expect_order<uint64_t>(Type::i64, number_before<int64_t, uint64_t>);
  expect_order<uint32_t>(Type::f32, float_before<float, uint32_t>);
  expect_order<uint64_t>(Type::f64, float_before<double, uint64_t>);
}

TEST(Codec, SpecialFloatsStandInTheDocumentedOrder) {
  const double infinity = std::numeric_limits<double>::infinity();
  const std::vector<uint64_t> rising = {std::bit_cast<uint64_t>(-infinity),
                                        std::bit_cast<uint64_t>(-1e300),
                                        std::bit_cast<uint64_t>(-5e-324),
                                        std::bit_cast<uint64_t>(-0.0),
                                        std::bit_cast<uint64_t>(0.0),
                                        std::bit_cast<uint64_t>(5e-324),
                                        std::bit_cast<uint64_t>(1e300),
                                        std::bit_cast<uint64_t>(infinity),
                                        0x7ff0000000000001,
                                        0x7fffffffffffffff,
                                        0xffffffffffffffff,
                                        0xfff0000000000001};
  for (size_t i = 1; i < rising.size(); ++i) {
    EXPECT_LT(encode_key64(Type::f64, rising[i - 1]), encode_key64(Type::f64, rising[i])) << i;
  }
  EXPECT_EQ(encode_key64(Type::f64, rising.front()), 0u);
  EXPECT_EQ(encode_key64(Type::f64, rising.back()), ~uint64_t{0});
  EXPECT_EQ(encode_key32(Type::f32, 0xff800000u), 0u);
  EXPECT_EQ(encode_key32(Type::f32, 0xff800001u), ~0u);
}

// All 2^32 floats (some 20 seconds): --gtest_also_run_disabled_tests --gtest_filter=*EveryFloat*
TEST(Codec, DISABLED_EveryFloatInOrder) {
  uint32_t previous = decode_key32(Type::f32, 0);
  for (uint32_t key = 1; key != 0; ++key) {
    const uint32_t bits = F32Codec::decode(key);
    ASSERT_EQ(F32Codec::encode(bits), key);
    ASSERT_TRUE((float_before<float, uint32_t>(previous, bits))) << key;
    previous = bits;
  }
}

TEST(Codec, ArraysAreRecodedAtAnyAlignmentAndBack) {
  for (const Type type :
       {Type::u32, Type::i32, Type::f32, Type::u64, Type::i64, Type::f64, Type::kv64}) {
    for (const bool descending : {false, true}) {
      const size_t item_bytes = item_bytes_of(type), count = 1001;
      std::vector<std::byte> data(1 + item_bytes * count);
      Random random(5);
      for (auto& byte : data) byte = static_cast<std::byte>(random.next());
      const auto original = data;
      std::byte* items = data.data() + 1;
      encode_keys(type, items, count, descending);
      for (size_t i = 0; i < count; ++i) {
        const std::byte* before = original.data() + 1 + i * item_bytes;
        const std::byte* after = items + i * item_bytes;
        if (item_bytes == 4) {
          const uint32_t key = encode_key32(type, load<uint32_t>(before));
          ASSERT_EQ(load<uint32_t>(after), descending ? ~key : key);
        } else {
          const uint64_t key = encode_key64(type, load<uint64_t>(before));
          ASSERT_EQ(load<uint64_t>(after), descending ? ~key : key);
        }
        if (type == Type::kv64) {
          ASSERT_EQ(load<uint64_t>(after + 8), load<uint64_t>(before + 8));
        }
      }
      decode_keys(type, items, count, descending);
      ASSERT_EQ(data, original);
    }
  }
}

TEST(Codec, PrefixesOrderLikeStrings) {
  Random random(3);
  for (int i = 0; i < 5000; ++i) {
    std::string a, b;
    for (std::string* text : {&a, &b}) {
      const uint64_t length = random.below(11);
      for (uint64_t k = 0; k < length; ++k) text->push_back("\x01xy\xff"[random.below(4)]);
    }
    const auto prefix = [](const std::string& text) {
      return prefix_of(reinterpret_cast<const std::byte*>(text.data()), text.size());
    };
    if (prefix(a) != prefix(b)) {
      ASSERT_EQ(prefix(a) < prefix(b), a < b) << a << " " << b;
    } else {
      ASSERT_EQ(a.substr(0, 8), b.substr(0, 8));
    }
  }
}

TEST(Format, NamesAreUnderstood) {
  for (const char* name : {"u32", "u64", "i32", "i64", "f32", "f64", "kv64", "record", "lines"}) {
    auto format = parse_format(name);
    ASSERT_TRUE(format) << name;
    EXPECT_EQ(name_of(format->type), name);
  }
  EXPECT_EQ(parse_format("kv64")->record_bytes, 16u);
  EXPECT_EQ(parse_format("kv64")->key_bytes, 8u);
  EXPECT_EQ(parse_format("i32")->record_bytes, 4u);
  EXPECT_EQ(parse_format("lines")->record_bytes, 1u);
  EXPECT_FALSE(parse_format("u16"));
}

TEST(Format, RecordsAndKeysAreChecked) {
  EXPECT_EQ(*parse_format("record"), *parse_format("record", 100, "0:10"));
  EXPECT_EQ(parse_format("record", 4)->key_bytes, 4u);
  const auto inner = parse_format("record", 64, "16:20");
  ASSERT_TRUE(inner);
  EXPECT_EQ(inner->key_offset, 16u);
  EXPECT_EQ(inner->key_bytes, 20u);
  EXPECT_TRUE(parse_format("record", 64, "63:1"));
  for (const char* key :
       {"64:1", "60:5", "0:0", "0", "0:", ":4", "a:4", "0:4x", "-1:4", "4294967295:2"}) {
    EXPECT_FALSE(parse_format("record", 64, key)) << key;
  }
}

}  // namespace
}  // namespace penstock::items
