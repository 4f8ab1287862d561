#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "base/random.h"
#include "base/trials.h"
#include "penstock/sort.h"

namespace penstock {
namespace {

// Strings of a few letters, so that many are alike for long; some have zeros, some are empty.
std::vector<std::string> random_strings(Random& random, size_t count) {
  const std::string common(random.below(3) == 0 ? random.below(50) : 0, 'x');
  const size_t letters = 1 + random.below(4);
  const size_t bytes_max = 1 + random.below(random.below(2) == 0 ? 4 : 60);
  const char lowest = random.below(2) == 0 ? '\0' : static_cast<char>(random.next());
  std::vector<std::string> strings(count);
  for (std::string& string : strings) {
    string = random.below(50) == 0 ? "" : common;
    for (size_t left = random.below(bytes_max); left > 0; --left)
      string += static_cast<char>(lowest + static_cast<char>(random.below(letters)));
  }
  return strings;
}

TEST(StringSort, IsTheOrderOfTheModel) {
  Random random(seed_of_run());
  for (uint64_t i = 0; i < trials(120); ++i) {
    const size_t count = i % 8 == 0 ? 100'000 + random.below(50'000) : random.below(3000);
    const std::vector<std::string> strings = random_strings(random, count);
    std::vector<std::string_view> views(strings.begin(), strings.end());
    if (count > 0 && random.below(3) == 0) views[random.below(count)] = {};
    const SortOptions options{.threads = 1 + static_cast<unsigned>(random.below(4)),
                              .descending = random.below(2) == 1,
                              .stable = random.below(2) == 1};
    SCOPED_TRACE(testing::Message() << count << " strings, " << options.threads << " threads");
    std::vector<uint64_t> expected(count);
    std::iota(expected.begin(), expected.end(), 0);
    std::ranges::stable_sort(expected, [&](uint64_t a, uint64_t b) {
      return options.descending ? views[a] > views[b] : views[a] < views[b];
    });

    std::vector<uint64_t> order(count);
    ASSERT_TRUE(argsort(views, order, options));
    ASSERT_EQ(order, expected);

    std::vector<std::string_view> sorted = views;
    ASSERT_TRUE(sort(sorted, options));
    for (size_t k = 0; k < count; ++k) {
      ASSERT_EQ(sorted[k], views[expected[k]]);
      if (!options.stable) continue;
      ASSERT_EQ(sorted[k].data(), views[expected[k]].data());
    }
    // Every view is there once.
    auto by_place = [](std::string_view a, std::string_view b) { return a.data() < b.data(); };
    std::vector<std::string_view> before = views;
    std::ranges::sort(before, by_place);
    std::ranges::sort(sorted, by_place);
    for (size_t k = 0; k < count; ++k) ASSERT_EQ(before[k].data(), sorted[k].data());
  }
}

TEST(StringSort, LongStringsThatAreAlikeForLong) {
  Random random(seed_of_run());
  const std::string common(20'000, 'y');
  std::vector<std::string> strings(200, common);
  for (std::string& string : strings) string.resize(random.below(common.size()));
  for (size_t i = 0; i < strings.size(); i += 3) strings[i] = common + std::to_string(i % 30);
  std::vector<std::string_view> views(strings.begin(), strings.end());
  std::vector<std::string> expected = strings;
  std::ranges::sort(expected);
  ASSERT_TRUE(sort(views));
  EXPECT_TRUE(std::ranges::equal(views, expected));
}

TEST(StringSort, TheOrderNeedsRoom) {
  const std::vector<std::string_view> strings = {"b", "a"};
  std::vector<uint64_t> order(1);
  const Status done = argsort(strings, order);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, ErrorCode::invalid_argument);
}

}  // namespace
}  // namespace penstock
