#include "sorting/scatter/key_order.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "base/random.h"

namespace penstock::scatter {
namespace {

constexpr uint64_t sign = uint64_t{1} << 63;
const KeyOrder orders[] = {
    {},
    {.flip = sign},
    {.flip = ~uint64_t{0}},
    {.flip_if_negative = ~sign, .flip = sign},
    {.flip_if_negative = ~sign, .flip = sign, .subtract = 12345},
    {.flip_if_negative = ~sign, .flip = ~sign},
    {.turn_bits = 32},
    {.flip = ~uint64_t{0}, .turn_bits = 32},
};

TEST(KeyOrder, DecodingUndoesEncoding) {
  Random random(1);
  for (const KeyOrder& order : orders) {
    for (int i = 0; i < 1000; ++i) {
      const uint64_t word = i < 4 ? 0 - static_cast<uint64_t>(i % 2) : random.next();
      ASSERT_EQ(decode(encode(word, order), order), word);
      const KeyValue64 pair = {word, random.next()};
      ASSERT_EQ(decode(encode(pair, order), order), pair);
      ASSERT_EQ(encode(pair, order).value, pair.value);
      const Key128 key = {word, random.next()};
      ASSERT_EQ(decode(encode(key, order), order), key);
    }
  }
}

TEST(KeyOrder, DecodingUndoesEncodingOf32Bits) {
  Random random(2);
  for (const KeyOrder& order :
       {KeyOrder{}, KeyOrder{.flip = 0x80000000}, KeyOrder{.flip = 0xffffffff},
        KeyOrder{.flip_if_negative = 0x7fffffff, .flip = 0x80000000},
        KeyOrder{.flip_if_negative = 0x7fffffff, .flip = 0x7fffffff, .subtract = 0x7fffff}}) {
    for (int i = 0; i < 1000; ++i) {
      const auto word = static_cast<uint32_t>(i < 4 ? 0 - i % 2 : random.next());
      ASSERT_EQ(decode(encode(word, order), order), word);
    }
  }
}

template <class Float, class Word>
void expect_total_order() {
  using Limits = std::numeric_limits<Float>;
  constexpr Word sign_bit = Word{1} << (8 * sizeof(Word) - 1);
  // The order that key_order.h documents.
  const std::vector<Float> rising = {-Limits::infinity(),
                                     Limits::lowest(),
                                     -1,
                                     -Limits::min(),
                                     -Limits::denorm_min(),
                                     Float{-0.0},
                                     Float{0.0},
                                     Limits::denorm_min(),
                                     Limits::min(),
                                     1,
                                     Limits::max(),
                                     Limits::infinity(),
                                     Limits::quiet_NaN(),
                                     std::copysign(Limits::quiet_NaN(), Float{-1})};
  const KeyOrder up = {.flip_if_negative = static_cast<Word>(~sign_bit),
                       .flip = sign_bit,
                       .subtract = (uint64_t{1} << (Limits::digits - 1)) - 1};
  const KeyOrder down = up.reversed();
  for (size_t i = 1; i < rising.size(); ++i) {
    const Word before = std::bit_cast<Word>(rising[i - 1]);
    const Word after = std::bit_cast<Word>(rising[i]);
    EXPECT_LT(encode(before, up), encode(after, up)) << i;
    EXPECT_GT(encode(before, down), encode(after, down)) << i;
  }
}

TEST(KeyOrder, OrdersFloatsTotally) {
  expect_total_order<float, uint32_t>();
  expect_total_order<double, uint64_t>();
}

TEST(KeyOrder, OrdersSignedNumbers) {
  const KeyOrder order = {.flip = sign};
  const int64_t rising[] = {std::numeric_limits<int64_t>::min(), -2, -1, 0, 1,
                            std::numeric_limits<int64_t>::max()};
  for (size_t i = 1; i < std::size(rising); ++i) {
    EXPECT_LT(encode(static_cast<uint64_t>(rising[i - 1]), order),
              encode(static_cast<uint64_t>(rising[i]), order));
  }
}

TEST(KeyOrder, DescendingTurnsBothWordsOf128Bits) {
  const KeyOrder order = {.flip = ~uint64_t{0}};
  const auto encoded = [&](const Key128& key) {
    const Key128 words = encode(key, order);
    return std::pair(words.high, words.low);
  };
  EXPECT_LT(encoded({.low = 2, .high = 7}), encoded({.low = 1, .high = 7}));
  EXPECT_LT(encoded({.low = 1, .high = 8}), encoded({.low = 2, .high = 7}));
}

TEST(KeyOrder, OnlyTheEmptyOrderIsPlain) {
  EXPECT_TRUE(KeyOrder{}.plain());
  for (size_t i = 1; i < std::size(orders); ++i) EXPECT_FALSE(orders[i].plain());
}

}  // namespace
}  // namespace penstock::scatter
