#include "penstock/sort.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

// The public calls as a user makes them (by their full names: for a std::vector, std::sort is
// found, too, and gcc 12 thinks that it could be meant); test/sort_property_test.cc runs every
// type, distribution and size.

namespace penstock {
namespace {

TEST(Sort, TakesAnyContiguousRange) {
  std::vector<uint64_t> vector = {3, 1, 2};
  ASSERT_TRUE(penstock::sort(vector));
  EXPECT_EQ(vector, (std::vector<uint64_t>{1, 2, 3}));

  std::array<int32_t, 4> array = {5, -7, 0, -1};
  ASSERT_TRUE(penstock::sort(array, {.descending = true}));
  EXPECT_EQ(array, (std::array<int32_t, 4>{5, 0, -1, -7}));

  double plain[] = {2.5, -0.5, 0};
  ASSERT_TRUE(penstock::sort(plain));
  EXPECT_TRUE(std::ranges::is_sorted(plain));

  ASSERT_TRUE(penstock::sort(std::span(vector).first(2), {.descending = true}));
  EXPECT_EQ(vector, (std::vector<uint64_t>{2, 1, 3}));
}

TEST(Sort, TakesNothing) {
  ASSERT_TRUE(penstock::sort(std::span<uint32_t>()));
  ASSERT_TRUE(penstock::sort(std::span<const float>(), std::span<float>()));
  ASSERT_TRUE(penstock::partial_sort(std::span<KeyValue64>(), 3));
  ASSERT_TRUE(top_k(std::span<const uint8_t>(), std::span<uint8_t>()));
  ASSERT_TRUE(argsort(std::span<const Key128>(), std::span<uint64_t>()));
}

TEST(Sort, TakesNoThreadsAndManyThreads) {
  for (unsigned threads : {0u, 1u, 64u}) {
    std::vector<uint64_t> items(300'000);
    for (size_t i = 0; i < items.size(); ++i) items[i] = i * 0x9e3779b97f4a7c15u;
    ASSERT_TRUE(penstock::sort(items, {.threads = threads}));
    EXPECT_TRUE(std::ranges::is_sorted(items));
  }
}

TEST(Sort, OutOfPlaceLeavesTheInput) {
  const std::vector<int16_t> in = {4, -4, 0, 300, -300};
  std::vector<int16_t> out(in.size());
  ASSERT_TRUE(penstock::sort(std::span(in), std::span(out)));
  EXPECT_EQ(out, (std::vector<int16_t>{-300, -4, 0, 4, 300}));
  EXPECT_EQ(in.front(), 4);
}

TEST(Sort, PutsNaNsLastAsFilesHaveThem) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> items = {nan, 1, -nan, -std::numeric_limits<float>::infinity(), 0.0f, -0.0f};
  ASSERT_TRUE(penstock::sort(items));
  EXPECT_EQ(items[0], -std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::signbit(items[1]));
  EXPECT_FALSE(std::signbit(items[2]));
  EXPECT_EQ(items[3], 1);
  EXPECT_TRUE(std::isnan(items[4]) && !std::signbit(items[4]));
  EXPECT_TRUE(std::isnan(items[5]) && std::signbit(items[5]));
}

TEST(Sort, KeepsTheOrderOfEqualKeysInBothDirections) {
  const std::vector<KeyValue32> in = {{2, 0}, {1, 1}, {2, 2}, {1, 3}};
  std::vector<KeyValue32> items = in;
  ASSERT_TRUE(penstock::sort(items, {.stable = true}));
  EXPECT_EQ(items, (std::vector<KeyValue32>{{1, 1}, {1, 3}, {2, 0}, {2, 2}}));
  items = in;
  ASSERT_TRUE(penstock::sort(items, {.descending = true, .stable = true}));
  EXPECT_EQ(items, (std::vector<KeyValue32>{{2, 0}, {2, 2}, {1, 1}, {1, 3}}));
}

TEST(Sort, PartialSortTakesMoreThanThereIs) {
  std::vector<uint32_t> items = {3, 1, 2};
  ASSERT_TRUE(penstock::partial_sort(items, 10));
  EXPECT_EQ(items, (std::vector<uint32_t>{1, 2, 3}));
}

TEST(Sort, TopKFindsTheGreatest) {
  std::vector<int64_t> items(100'000);
  for (size_t i = 0; i < items.size(); ++i)
    items[i] = static_cast<int64_t>(i * 7919 % 100'003) - 50'000;
  std::vector<int64_t> expected = items;
  std::ranges::sort(expected, std::greater<>());
  expected.resize(5);
  std::vector<int64_t> out(5);
  ASSERT_TRUE(top_k(std::span<const int64_t>(items), std::span(out), {.descending = true}));
  EXPECT_EQ(out, expected);
}

TEST(Sort, ArgsortReturnsThePlaces) {
  const std::vector<double> keys = {0.5, -1, 3, -1};
  std::vector<uint64_t> order(keys.size());
  ASSERT_TRUE(argsort(std::span(keys), std::span(order)));
  EXPECT_EQ(order, (std::vector<uint64_t>{1, 3, 0, 2}));
  ASSERT_TRUE(argsort(std::span(keys), std::span(order), {.descending = true}));
  EXPECT_EQ(order, (std::vector<uint64_t>{2, 0, 1, 3}));
}

TEST(Sort, ArgsortOrdersKeysOfOneHighWordByTheLowOne) {
  std::vector<Key128> keys;
  for (uint64_t i = 0; i < 3000; ++i) keys.push_back({.low = i * 40'503 % 64, .high = i % 7});
  const auto less = [&](uint64_t a, uint64_t b) {
    return std::pair(keys[a].high, keys[a].low) < std::pair(keys[b].high, keys[b].low);
  };
  for (const bool descending : {false, true}) {
    std::vector<uint64_t> expected(keys.size()), order(keys.size());
    std::iota(expected.begin(), expected.end(), 0);
    std::ranges::stable_sort(
        expected, [&](uint64_t a, uint64_t b) { return descending ? less(b, a) : less(a, b); });
    ASSERT_TRUE(argsort<Key128>(keys, order, {.descending = descending}));
    EXPECT_EQ(order, expected);
  }
}

// A number of 64 bits gives their order, whatever their sign and size.
TEST(Sort, TopKAndArgsortKnowTheSmallTypes) {
  auto expect_right = []<class T>(T) {
    std::vector<T> items(10'000);
    for (size_t i = 0; i < items.size(); ++i)
      items[i] = static_cast<T>((i * 40'503u) >> (sizeof(T) == 1 ? 8 : 0));
    for (const bool descending : {false, true}) {
      std::vector<uint64_t> expected(items.size());
      std::iota(expected.begin(), expected.end(), 0);
      std::ranges::stable_sort(expected, [&](uint64_t a, uint64_t b) {
        return descending ? items[a] > items[b] : items[a] < items[b];
      });
      std::vector<uint64_t> order(items.size());
      ASSERT_TRUE(argsort<T>(items, order, {.descending = descending}));
      EXPECT_EQ(order, expected);
      std::vector<T> out(100);
      ASSERT_TRUE(top_k<T>(items, out, {.descending = descending}));
      for (size_t i = 0; i < out.size(); ++i) ASSERT_EQ(out[i], items[expected[i]]) << i;
    }
  };
  expect_right(int8_t{});
  expect_right(uint8_t{});
  expect_right(int16_t{});
  expect_right(uint16_t{});
}

}  // namespace
}  // namespace penstock
