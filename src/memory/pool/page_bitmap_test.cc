#include "memory/pool/page_bitmap.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "base/trials.h"

namespace penstock::pool {
namespace {

PageBitmap bitmap_of(uint32_t pages) {
  auto bitmap = PageBitmap::open(pages);
  EXPECT_TRUE(bitmap);
  return std::move(*bitmap);
}

PageRun run_of(const std::vector<bool>& model, uint32_t first, uint32_t count_max) {
  uint32_t count = 0;
  while (count < count_max && first + count < model.size() && model[first + count]) ++count;
  return {first, count};
}

PageRun next_run_of(const std::vector<bool>& model, uint32_t first, uint32_t count_max) {
  while (first < model.size() && !model[first]) ++first;
  return first < model.size() ? run_of(model, first, count_max) : PageRun{};
}

// Returns the first run that is long enough, or the first of the longest.
PageRun find_in(const std::vector<bool>& model, uint32_t count) {
  PageRun longest;
  for (uint32_t at = 0; at < model.size();) {
    const PageRun run = next_run_of(model, at, count);
    if (run.count == 0) break;
    if (run.count > longest.count) longest = run;
    if (longest.count == count) break;
    at = run.end();
  }
  return longest;
}

void compare_with_model(uint64_t seed) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  const auto below = [&](uint64_t limit) { return static_cast<uint32_t>(random() % limit); };
  const uint32_t pages = 1 + below(below(2) == 0 ? 200 : 10'000);
  PageBitmap bitmap = bitmap_of(pages);
  std::vector<bool> model(pages);
  uint32_t size = 0;
  for (int step = 0; step < 300; ++step) {
    // Sets clear pages or clears set ones, from some page on.
    const uint32_t first = below(pages);
    const bool value = below(2) == 0;
    PageRun run{first, 0};
    const uint32_t count_max = 1 + below(below(2) == 0 ? 10 : pages);
    while (run.count < count_max && run.end() < pages && model[run.end()] != value)
      model[run.end()] = value, ++run.count;
    if (run.count != 0) value ? bitmap.insert(run) : bitmap.erase(run);
    size = value ? size + run.count : size - run.count;

    ASSERT_EQ(bitmap.size(), size);
    const uint32_t at = below(pages + 2), most = 1 + below(pages);
    ASSERT_EQ(bitmap.contains(at), at < pages && model[at]);
    ASSERT_EQ(bitmap.run_at(at, most), run_of(model, at, most));
    ASSERT_EQ(bitmap.next_run(at, most), next_run_of(model, at, most));
    ASSERT_EQ(bitmap.find(most), find_in(model, most));
    ASSERT_EQ(bitmap.find(1 + most % 5), find_in(model, 1 + most % 5));
  }
}

TEST(PageBitmap, FindsTheSameRunsAsALoop) {
  const uint64_t seed = std::random_device()();
  for (uint64_t round = 0; round < trials(100); ++round) compare_with_model(seed + round);
}

TEST(PageBitmap, AnEmptySetHasNoRun) {
  PageBitmap bitmap = bitmap_of(1000);
  EXPECT_EQ(bitmap.find(1).count, 0u);
  EXPECT_EQ(bitmap.next_run(0, 5).count, 0u);
  EXPECT_EQ(bitmap.run_at(0, 5).count, 0u);
  bitmap.insert({0, 1000});
  EXPECT_EQ(bitmap.find(0).count, 0u);
  EXPECT_EQ(bitmap.find(2000), (PageRun{0, 1000}));
}

// After many short runs a long one is found by the following searches, each of which is bounded.
TEST(PageBitmap, ASearchContinuesAfterTheLastOne) {
  constexpr uint32_t short_runs = 3 * PageBitmap::runs_searched_max;
  PageBitmap bitmap = bitmap_of(4 * short_runs);
  for (uint32_t i = 0; i < short_runs; ++i) bitmap.insert({2 * i, 1});
  bitmap.insert({2 * short_runs, 100});
  int searches = 1;
  while (bitmap.find(100).count != 100 && searches < 10) ++searches;
  EXPECT_GT(searches, 1);
  EXPECT_LE(searches, 4);
  EXPECT_EQ(bitmap.find(1), (PageRun{0, 1}));
}

}  // namespace
}  // namespace penstock::pool
