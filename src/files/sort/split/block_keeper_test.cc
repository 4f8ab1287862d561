#include "files/sort/split/block_keeper.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <thread>

#include "base/mutex.h"
#include "base/random.h"
#include "base/thread.h"
#include "base/trials.h"
#include "files/sort/plan/bucket_plan.h"
#include "io/engine.h"

namespace penstock::external {
namespace {

// Nothing is kept, so that every full block is written.
class KeepingNothing : public testing::Test {
 protected:
  static constexpr uint32_t blocks = 8;

  uint64_t written_until_it_fails(uint64_t written_blocks_max, uint64_t full_blocks) {
    BlockArena arena;
    EXPECT_TRUE(arena.open(blocks * files::block_bytes_min, files::block_bytes_min));
    const SpillPlace place = {.directories = {testing::TempDir()}};
    BlockKeeper keeper({.write_blocks = blocks - 1, .written_blocks_max = written_blocks_max},
                       place, arena);
    EXPECT_TRUE(keeper.open());
    for (uint64_t i = 0; i <= full_blocks; ++i)
      std::memset(keeper.next_block(0), 1, files::block_bytes_min);
    keeper.close(0, files::block_bytes_min);
    auto split = keeper.finish([](uint32_t) { return std::nullopt; });
    error_ = split ? std::nullopt : std::optional(split.error());
    return split ? split->buckets[0].spilled.size() : 0;
  }

  std::optional<Error> error_;
};

TEST_F(KeepingNothing, WritesAsManyBlocksAsThePlanHasListsFor) {
  EXPECT_EQ(written_until_it_fails(20, 19), 20u);
  EXPECT_FALSE(error_);
}

TEST_F(KeepingNothing, MoreThanThatIsAnError) {
  EXPECT_EQ(written_until_it_fails(20, 20), 0u);
  ASSERT_TRUE(error_);
  EXPECT_EQ(error_->code, ErrorCode::out_of_memory);
}

// Several threads get numbered stretches of a bucket in turn, and fill them in any order. The
// blocks that are written and read again are complete.
TEST(BlockKeeper, WritesBlocksThatThreadsFillInAnyOrder) {
  constexpr uint32_t arena_blocks = 12, buckets = 3;
  constexpr size_t threads = 4;
  constexpr uint64_t stretch_bytes = 8 * KiB;
  const uint64_t stretches = 64 * buckets * trials(8);
  BlockArena arena;
  ASSERT_TRUE(arena.open(arena_blocks * files::block_bytes_min, files::block_bytes_min));
  const SpillPlace place = {.directories = {testing::TempDir()}};
  BlockKeeper keeper({.buckets = buckets, .write_blocks = 4}, place, arena);
  ASSERT_TRUE(keeper.open());
  struct Tail {
    std::byte* at = nullptr;
    uint64_t room = 0;
    uint64_t stretches = 0;
  };
  std::array<Tail, buckets> tails;
  Mutex turn;
  uint64_t begun = 0;
  in_threads(threads, [&](size_t thread) {
    Random random(thread + 1);
    for (;;) {
      std::byte* at;
      uint64_t fill, number;
      uint32_t bucket;
      {
        MutexLock lock(turn);
        if (begun == stretches) return;
        bucket = static_cast<uint32_t>(begun++ % buckets);
        Tail& tail = tails[bucket];
        keeper.provide(1);
        fill = keeper.begin_fill();
        if (tail.room == 0)
          tail = {keeper.next_block(bucket), files::block_bytes_min, tail.stretches};
        at = tail.at;
        number = tail.stretches++;
        tail.at += stretch_bytes;
        tail.room -= stretch_bytes;
      }
      if (random.below(4) == 0) std::this_thread::yield();
      auto* words = reinterpret_cast<uint64_t*>(at);
      for (uint64_t i = 0; i < stretch_bytes / 8; ++i) words[i] = number * stretch_bytes + i;
      keeper.end_fill(fill);
    }
  });
  for (uint32_t bucket = 0; bucket < buckets; ++bucket)
    keeper.close(bucket, files::block_bytes_min - tails[bucket].room);
  auto split = keeper.finish([](uint32_t) { return std::nullopt; });
  ASSERT_TRUE(split) << split.error().message();
  for (uint32_t bucket = 0; bucket < buckets; ++bucket) {
    const SplitBucket& stored = split->buckets[bucket];
    ASSERT_EQ(stored.bytes, stretches / buckets * stretch_bytes);
    std::vector<uint64_t> words(files::block_bytes_min / 8);
    uint64_t number = 0;
    for (const stream::Extent& extent : split->spills.extents(
             stored.spill, stored.spilled, stored.bytes, files::block_bytes_min)) {
      ASSERT_TRUE(io::read_exactly(*extent.file, extent.offset,
                                   reinterpret_cast<std::byte*>(words.data()),
                                   files::block_bytes_min));
      for (uint64_t i = 0; i < words.size(); ++i) {
        const uint64_t in_stretch = i % (stretch_bytes / 8);
        ASSERT_EQ(words[i], number * stretch_bytes + in_stretch) << "bucket " << bucket;
        if (in_stretch == stretch_bytes / 8 - 1) ++number;
      }
    }
    EXPECT_EQ(number, stretches / buckets);
  }
}

}  // namespace
}  // namespace penstock::external
