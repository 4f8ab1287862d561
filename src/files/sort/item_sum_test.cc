// Test labels: loops

#include "files/sort/item_sum.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "base/random.h"

namespace penstock::external {
namespace {

using sorting::KeyValue;

template <class T>
T item_of(uint64_t bits, uint64_t more) {
  if constexpr (std::is_same_v<T, KeyValue>) {
    return {bits, more};
  } else {
    return static_cast<T>(bits);
  }
}

template <class T>
std::vector<T> random_items(size_t count, uint64_t seed) {
  Random random(seed);
  std::vector<T> items;
  for (size_t i = 0; i < count; ++i) items.push_back(item_of<T>(random.next(), random.next()));
  return items;
}

// Sums up item by item.
template <class T>
ItemSum model(const std::vector<T>& items) {
  ItemSum sum;
  for (const T& item : items) sum += sorting::sum_of_one(item);
  return sum;
}
template <class T>
ItemSum sum_of_all(const std::vector<T>& items) {
  return sum_of(std::span<const T>(items));
}

template <class T>
class ItemSumTest : public testing::Test {};
using Types = testing::Types<uint32_t, uint64_t, KeyValue>;
TYPED_TEST_SUITE(ItemSumTest, Types);

TYPED_TEST(ItemSumTest, IsTheSumOfAllItems) {
  for (size_t count = 0; count < 300; ++count) {
    const auto items = random_items<TypeParam>(count, count);
    ASSERT_EQ(sum_of_all(items), model(items)) << count;
  }
}

TYPED_TEST(ItemSumTest, DependsNeitherOnTheOrderNorOnTheParts) {
  auto items = random_items<TypeParam>(10'000, 1);
  const ItemSum whole = sum_of_all(items);
  std::shuffle(items.begin(), items.end(), std::mt19937_64(2));
  EXPECT_EQ(sum_of_all(items), whole);
  Random random(3);
  ItemSum parts;
  for (size_t from = 0; from < items.size();) {
    const size_t count = std::min<size_t>(items.size() - from, random.below(1000));
    parts += sum_of(std::span<const TypeParam>(items.data() + from, count));
    from += count;
  }
  EXPECT_EQ(parts, whole);
}

TYPED_TEST(ItemSumTest, SumOfEqualItemsIsAProduct) {
  const std::vector<TypeParam> items(777, item_of<TypeParam>(41, 42));
  EXPECT_EQ(sorting::sum_of_one(items.front()) * items.size(), sum_of_all(items));
}

TYPED_TEST(ItemSumTest, ABitThatFlipsShows) {
  auto items = random_items<TypeParam>(40, 4);
  for (size_t i = 0; i < 8; ++i) items[i] = item_of<TypeParam>(i < 4 ? i : i << 40, i % 2);
  const ItemSum before = sum_of_all(items);
  auto* bytes = reinterpret_cast<unsigned char*>(items.data());
  for (size_t bit = 0; bit < items.size() * sizeof(TypeParam) * 8; ++bit) {
    bytes[bit / 8] ^= static_cast<unsigned char>(1u << (bit % 8));
    ASSERT_NE(sum_of_all(items), before) << bit;
    bytes[bit / 8] ^= static_cast<unsigned char>(1u << (bit % 8));
  }
}

// Bytes that change places, which the plain sum of the items does not detect.
TYPED_TEST(ItemSumTest, BytesThatMoveBetweenItemsShow) {
  for (const bool small : {false, true}) {
    auto items = random_items<TypeParam>(2, 5);
    if (small) items = {item_of<TypeParam>(0x1234, 0), item_of<TypeParam>(0x5678, 0x77)};
    auto* a = reinterpret_cast<unsigned char*>(items.data());
    auto* b = a + sizeof(TypeParam);
    const ItemSum before = sum_of_all(items);
    for (size_t first = 0; first < sizeof(TypeParam); ++first) {
      for (size_t last = first + 1; last <= sizeof(TypeParam); ++last) {
        // Exchanging equal bytes, or all bytes that differ, is no change.
        std::vector<TypeParam> moved = items;
        auto* to = reinterpret_cast<unsigned char*>(moved.data());
        std::swap_ranges(to + first, to + last, to + sizeof(TypeParam) + first);
        const bool same = std::equal(a, b, to) || (std::equal(a, b, to + sizeof(TypeParam)) &&
                                                   std::equal(b, b + sizeof(TypeParam), to));
        EXPECT_EQ(sum_of_all(moved) == before, same) << first << " " << last;
      }
    }
  }
}

TYPED_TEST(ItemSumTest, AnItemThatIsLostOrDoubledShows) {
  auto items = random_items<TypeParam>(1000, 6);
  const ItemSum before = sum_of_all(items);
  auto doubled = items;
  doubled[3] = doubled[4];
  EXPECT_EQ(sum_of_all(doubled).items, before.items);
  EXPECT_NE(sum_of_all(doubled), before);
  items.pop_back();
  EXPECT_NE(sum_of_all(items), before);
}

uint64_t mix_of_bytes(const std::string& text) {
  return sorting::mix_of_bytes(text.data(), text.size());
}

TEST(MixOfBytes, EveryBitAndTheLengthCount) {
  Random random(7);
  std::set<uint64_t> seen;
  size_t texts = 0;
  for (size_t bytes = 0; bytes <= 200; bytes += 1 + bytes / 20) {
    std::string text(bytes, '\0');
    seen.insert(mix_of_bytes(text));
    ++texts;
    for (char& c : text) c = static_cast<char>(random.next());
    if (bytes == 0) continue;
    for (size_t bit = 0; bit <= bytes * 8; ++bit) {
      std::string changed = text;
      if (bit < bytes * 8) changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ (1 << bit % 8));
      seen.insert(mix_of_bytes(changed));
      ++texts;
    }
  }
  // A text of one byte has eight changes, one of which may give the byte 0.
  EXPECT_GE(seen.size() + 1, texts);
}

TEST(MixOfBytes, ALineCountsWithoutItsNewline) {
  const items::Format lines = {items::Type::lines, 1};
  const items::Format records = {items::Type::record, 4, 0, 2};
  EXPECT_EQ(sum_of_item(lines, "abc\n"), sum_of_item(lines, "abc"));
  EXPECT_NE(sum_of_item(lines, "abc\n"), sum_of_item(lines, "abc?"));
  EXPECT_NE(sum_of_item(lines, "\n"), sum_of_item(lines, "abc"));
  EXPECT_NE(sum_of_item(records, "abc\n"), sum_of_item(records, "abc\0"));
}

}  // namespace
}  // namespace penstock::external
