#include "sorting/sort/in_place/in_place_sort.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <vector>

#include "base/random.h"
#include "base/trials.h"
#include "penstock/base.h"
#include "sorting/sort/in_place/in_place_plan.h"

// Cases that are difficult because of the sort's parts; test/sort_property_test.cc runs every type,
// distribution and size.

namespace penstock::sorting {
namespace {

// Expects a stable sort of pairs; other equal items cannot be told apart.
template <class T>
void expect_sorts(std::vector<T> items, const InPlaceOptions& options) {
  std::vector<T> expected = items;
  std::stable_sort(expected.begin(), expected.end(), [&](const T& a, const T& b) {
    return less(encode(a, options.order), encode(b, options.order));
  });
  auto status = sort_in_place(items.data(), items.size(), options);
  ASSERT_TRUE(status) << status.error().message();
  for (size_t i = 0; i < items.size(); ++i) ASSERT_EQ(items[i], expected[i]) << "item " << i;
}

std::vector<KeyValue> pairs(size_t count, auto key) {
  std::vector<KeyValue> items(count);
  for (size_t i = 0; i < count; ++i) items[i] = {key(i), i};
  return items;
}

constexpr size_t count = 700'001;

// Large buckets of one key, whose chunks lie where their output goes: reading and clearing must not
// wait for each other.
TEST(InPlaceSort, SortsLargeBucketsOfOneKeyThatObstructTheirOutput) {
  for (unsigned threads : {1, 2, 3}) {
    for (uint64_t distinct : {2, 3, 5}) {
      if (!tried()) continue;
      SCOPED_TRACE(testing::Message() << threads << " threads, " << distinct << " keys");
      const auto items = pairs(count, [&](uint64_t i) { return mix64(mix64(i) % distinct); });
      expect_sorts(items, {.stable = true, .threads = threads});
    }
  }
}

// Numbers of one key are stored again, and not moved: their chunks are free for others at once.
TEST(InPlaceSort, SortsNumbersOfWhichATenthAreOneKey) {
  for (const unsigned threads : {1u, 2u}) {
    std::vector<uint64_t> numbers(2 * count);
    for (size_t i = 0; i < numbers.size(); ++i)
      numbers[i] = i % 10 == 0 ? uint64_t{77} << 40 : mix64(i);
    expect_sorts(numbers, {.threads = threads});
  }
}

// While one thread divides a bucket again, another one makes room for its output at the chunks that
// the first is writing.
TEST(InPlaceSort, DividesBucketsAgainWhileOthersMoveChunks) {
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    if (!tried()) continue;
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random(seed);
    const auto items = pairs(count, [&](uint64_t) { return random.next() >> random.below(64); });
    expect_sorts(items, {.stable = true, .threads = 2 + static_cast<unsigned>(seed % 2)});
  }
}

TEST(InPlaceSort, SortsBlocksThatLieInTheWrongPlace) {
  for (unsigned threads : {1, 2, 3}) {
    for (uint64_t step : {1, 7, 31}) {
      if (!tried()) continue;
      SCOPED_TRACE(testing::Message() << threads << " threads, step " << step);
      const auto items = pairs(count, [&](uint64_t i) {
        const uint64_t block = 63 - i * 64 / count * step % 64;
        return block << 58 | mix64(i) >> 6;
      });
      expect_sorts(items, {.stable = true, .threads = threads});
    }
  }
}

// Keys that agree in their first word by the million.
TEST(InPlaceSort, SortsLongKeysByTheirSecondWord) {
  for (uint64_t distinct : {1, 2, 300}) {
    SCOPED_TRACE(testing::Message() << distinct << " high words");
    std::vector<Key128> items(count);
    for (uint64_t i = 0; i < count; ++i)
      items[i] = {.low = mix64(i) >> i % 64, .high = mix64(mix64(i + count) % distinct)};
    expect_sorts(items, {.threads = 2});
    expect_sorts(items, {.order = {.flip = ~uint64_t{0}}});
  }
}

// Three distributions do not separate these keys: the sort must end all the same.
TEST(InPlaceSort, SortsKeysThatNoDistributionDivides) {
  Random random(4);
  std::vector<uint64_t> items(3 * count);
  for (uint64_t& item : items) item = uint64_t{1} << random.below(64) | random.below(3);
  for (size_t i = 0; i < items.size(); i += 2) items[i] = (uint64_t{1} << 50) + random.below(2);
  expect_sorts(items, {.threads = 2});
}

TEST(InPlaceSort, RecognizesOrderAndReverseOrder) {
  for (bool stable : {false, true}) {
    for (int duplicates : {1, 3}) {
      const auto rising = pairs(count, [&](uint64_t i) { return i / duplicates; });
      expect_sorts(rising, {.stable = stable});
      if (!stable && duplicates != 1) continue;
      const auto falling = pairs(count, [&](uint64_t i) { return (count - i) / duplicates; });
      expect_sorts(falling, {.stable = stable});
    }
  }
}

TEST(InPlaceSort, MergesAppendedItems) {
  Random random(3);
  for (const size_t appended : {size_t{1}, size_t{7}, size_t{count / 64}, size_t{count / 64 + 1}}) {
    for (const uint64_t keys : {uint64_t{3}, uint64_t{count / 5}, ~uint64_t{0}}) {
      if (!tried()) continue;
      SCOPED_TRACE(testing::Message() << appended << " appended, of " << keys << " keys");
      auto items = pairs(count, [&](uint64_t) { return random.below(keys); });
      const auto tail = items.end() - static_cast<ptrdiff_t>(appended);
      std::stable_sort(items.begin(), tail,
                       [](const KeyValue& a, const KeyValue& b) { return a.key < b.key; });
      expect_sorts(items, {.stable = true});
    }
    std::vector<uint64_t> numbers(count);
    for (size_t i = 0; i < count; ++i) numbers[i] = i < count - appended ? 2 * count - i : mix64(i);
    std::vector<uint64_t> expected = numbers;
    std::ranges::sort(expected, std::greater<>());
    std::vector<uint64_t> out(count);
    ASSERT_TRUE(sort_to<uint64_t>(numbers.data(), count, out.data(),
                                  {.order = {.flip = ~uint64_t{0}}, .threads = 2}));
    ASSERT_EQ(out, expected);
  }
}

// Items out of place, alone and in rows, too small and too great; few enough to be set aside, or so
// many that this is given up.
TEST(InPlaceSort, SetsAsideItemsOutOfPlace) {
  constexpr size_t all = 40'000;
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    if (!tried()) continue;
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random(seed);
    const uint64_t keys = uint64_t{1} << (2 + random.below(60));
    std::vector<uint64_t> items(all);
    for (uint64_t& item : items) item = random.below(keys);
    std::ranges::sort(items);
    for (size_t left = random.below(all / 32); left > 0;) {
      const size_t row = std::min(left, size_t{1} + random.below(uint64_t{1} << random.below(10)));
      const auto at = items.begin() + static_cast<ptrdiff_t>(random.below(all - row));
      const bool near = random.below(3) == 0;
      const uint64_t value = near ? *at + random.below(9) - 4 : random.below(keys);
      std::generate_n(at, row, [&] { return random.below(4) == 0 ? random.below(keys) : value; });
      if (random.below(2) == 0) std::sort(at, at + static_cast<ptrdiff_t>(row), std::greater<>());
      left -= row;
    }
    InPlaceOptions options{.threads = 1 + static_cast<unsigned>(random.below(2))};
    if (random.below(2) == 0) {
      options.order.flip = ~uint64_t{0};
      std::ranges::reverse(items);
    }
    expect_sorts(items, options);
    std::vector<uint64_t> expected = items;
    std::ranges::sort(expected, [&](uint64_t a, uint64_t b) {
      return less(encode(a, options.order), encode(b, options.order));
    });
    std::vector<uint64_t> out(all);
    const std::vector<uint64_t> before = items;
    ASSERT_TRUE(sort_to<uint64_t>(items.data(), all, out.data(), options));
    ASSERT_EQ(out, expected);
    ASSERT_EQ(items, before);
    std::vector<KeyValue> pairs_of(all);
    for (size_t i = 0; i < all; ++i) pairs_of[i] = {items[i], i};
    options.stable = true;
    expect_sorts(pairs_of, options);
    // Without stability, equal keys only have to keep all their values.
    options.stable = false;
    ASSERT_TRUE(sort_in_place(pairs_of.data(), all, options));
    std::vector<bool> seen(all);
    for (size_t i = 0; i < all; ++i) {
      ASSERT_EQ(pairs_of[i].key, expected[i]);
      ASSERT_EQ(pairs_of[i].key, items[pairs_of[i].value]);
      ASSERT_FALSE(seen[pairs_of[i].value]);
      seen[pairs_of[i].value] = true;
    }
  }
}

TEST(InPlaceSort, FirstItemsAreInOrderAndAllAreThere) {
  std::vector<uint64_t> items(2 * count);
  for (size_t i = 0; i < items.size(); ++i) items[i] = mix64(i);
  std::vector<uint64_t> expected = items;
  std::ranges::sort(expected);
  for (uint64_t first : {uint64_t{0}, uint64_t{1}, uint64_t{1000}, uint64_t{count}}) {
    std::vector<uint64_t> sorted = items;
    ASSERT_TRUE(sort_in_place(sorted.data(), sorted.size(), {.threads = 2, .first = first}));
    ASSERT_TRUE(std::equal(sorted.begin(), sorted.begin() + static_cast<ptrdiff_t>(first),
                           expected.begin()));
    std::ranges::sort(sorted);
    ASSERT_EQ(sorted, expected);
  }
}

template <class T>
void expect_promised_memory() {
  for (uint64_t bytes = MiB / 4; bytes <= 64 * GiB; bytes *= 2) {
    for (unsigned threads : {1, 2, 3, 16, 64}) {
      for (bool stable : {false, true}) {
        EXPECT_LE(extra_bytes<T>(bytes / sizeof(T), {.stable = stable, .threads = threads}),
                  extra_bytes_promised(bytes, threads))
            << bytes << " bytes, " << threads << " threads";
      }
    }
  }
}

TEST(InPlaceSort, TakesNoMoreMemoryThanPromised) {
  expect_promised_memory<uint32_t>();
  expect_promised_memory<uint64_t>();
  expect_promised_memory<KeyValue>();
}

}  // namespace
}  // namespace penstock::sorting
