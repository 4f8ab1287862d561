// Test labels: one-thread

#include "files/sort/split/text_window.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "base/trials.h"
#include "files/sort/plan/bucket_plan.h"
#include "files/sort/split/bucket_ends.h"

namespace penstock::external {
namespace {

constexpr uint32_t repeats = 0;  // the bucket of which only the first item is wanted

struct Items {
  std::string text;
  std::vector<size_t> ends;
  std::vector<uint32_t> buckets;
};

Items draw_items(Random& random, uint32_t buckets) {
  Items items;
  const uint64_t bytes_max = random.below(8) == 0 ? 20'000 : 1 + random.below(200);
  for (uint64_t left = random.below(4'000); left > 0; --left) {
    for (uint64_t bytes = random.below(bytes_max); bytes > 0; --bytes)
      items.text += static_cast<char>('a' + random.below(26));
    items.text += '\n';
    items.ends.push_back(items.text.size());
    items.buckets.push_back(static_cast<uint32_t>(random.below(buckets)));
  }
  return items;
}

// Contents of the buckets in the end.
std::vector<std::string> plain(const Items& items, uint32_t buckets) {
  std::vector<std::string> expected(buckets);
  size_t from = 0;
  for (size_t i = 0; i < items.ends.size(); from = items.ends[i++]) {
    std::string& bucket = expected[items.buckets[i]];
    if (items.buckets[i] != repeats || bucket.empty())
      bucket += items.text.substr(from, items.ends[i] - from);
  }
  return expected;
}

std::unique_ptr<TextWindow> window_of(const Items& items, size_t first, size_t last,
                                      uint32_t buckets, bool lacks_line_end) {
  auto window = std::make_unique<TextWindow>(buckets, '\n');
  const size_t begin = first == 0 ? 0 : items.ends[first - 1];
  window->begin = reinterpret_cast<const std::byte*>(items.text.data()) + begin;
  for (size_t i = first; i < last; ++i) window->ends.push_back(items.ends[i] - begin);
  window->lacks_line_end = lacks_line_end;
  if (lacks_line_end) --window->ends.back();
  window->clear();
  for (size_t i = first; i < last; ++i)
    window->add(items.buckets[i], {.items = 1, .words = items.ends[i]});
  return window;
}

// Windows of any length are given room one after the other, and filled in any order.
void distribute(uint64_t seed) {
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  Random random(seed);
  const auto buckets = static_cast<uint32_t>(1 + random.below(20));
  const Items items = draw_items(random, buckets);
  const std::vector<std::string> expected = plain(items, buckets);
  BlockArena arena;
  const uint64_t blocks = items.text.size() / files::block_bytes_min + 2 * buckets;
  ASSERT_TRUE(arena.open(blocks * files::block_bytes_min, files::block_bytes_min));
  const SpillPlace place = {.directories = {testing::TempDir()}};
  BlockKeeper keeper({.buckets = buckets, .expects_to_spill = false}, place, arena);
  ASSERT_TRUE(keeper.open());
  BucketEnds ends(keeper, buckets, files::block_bytes_min);

  std::vector<std::unique_ptr<TextWindow>> waiting;
  auto fill_one = [&] {
    const auto one = waiting.begin() + static_cast<ptrdiff_t>(random.below(waiting.size()));
    (*one)->fill();
    keeper.end_fill(*(*one)->fill_number);
    waiting.erase(one);
  };
  ItemSum sum;
  bool has_first = false;
  for (size_t at = 0; at < items.ends.size();) {
    const size_t next = std::min<size_t>(items.ends.size(), at + 1 + random.below(500));
    const bool is_last = next == items.ends.size();
    auto window = window_of(items, at, next, buckets, is_last && random.below(2) == 0);
    at = next;
    sum += window->sum;
    window->fill_number = keeper.begin_fill();
    for (const uint32_t bucket : window->buckets()) {
      if (bucket == repeats) window->keep_first(bucket, !std::exchange(has_first, true));
      const uint64_t bytes = window->share_of(bucket).bytes;
      const uint64_t blocks_wanted = ends.blocks_for(bucket, bytes);
      const uint32_t free_before = arena.blocks_free();
      ends.allocate(bucket, bytes,
                    [&](std::byte* from, std::byte* to) { window->add_room(bucket, from, to); });
      ASSERT_EQ(free_before - arena.blocks_free(), blocks_wanted);
    }
    waiting.push_back(std::move(window));
    if (random.below(2) == 0) fill_one();
  }
  while (!waiting.empty()) fill_one();
  ends.close();
  ASSERT_EQ(sum.items, items.ends.size());

  auto split = keeper.finish([&](uint32_t bucket) { return keeper.bytes(bucket); });
  ASSERT_TRUE(split) << split.error().message();
  for (uint32_t bucket = 0; bucket < buckets; ++bucket) {
    const SplitBucket& stored = split->buckets[bucket];
    std::string text;
    for (const uint32_t block : stored.kept)
      text.append(reinterpret_cast<const char*>(arena.block(block)), files::block_bytes_min);
    text.resize(stored.bytes);
    ASSERT_TRUE(text == expected[bucket]) << "bucket " << bucket;
  }
}

TEST(TextWindow, ItemsGoWhereAPlainDistributionPutsThem) {
  const uint64_t first = seed_of_run();
  for (uint64_t i = 0; i < trials(60); ++i) {
    distribute(first + i);
    if (testing::Test::HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace penstock::external
