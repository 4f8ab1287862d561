#include "files/sort/bucket/bucket_reader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "base/bits.h"
#include "base/random.h"
#include "io/file.h"
#include "test/support/injection.h"

namespace penstock::external {
namespace {

constexpr size_t block_bytes = 16 * KiB;
constexpr uint32_t arena_blocks = 40;

// Buckets as a distribution leaves them, the first ones kept, and their contents.
class BucketReaderTest : public testing::Test {
 protected:
  void make(uint64_t seed) {
    Random random(seed);
    options_.format = {items::Type::u64, 8};
    context_ = std::make_unique<Context>(options_);
    contents_.clear();
    offsets_.clear();
    buckets_.clear();
    uint64_t offset = 0;
    spills_ = {};
    const uint32_t parts = 1 + static_cast<uint32_t>(random.below(3));
    ASSERT_TRUE(spills_.open({.directories = {testing::TempDir()}}, parts, block_bytes));
    ASSERT_TRUE(arena_.open(arena_blocks * block_bytes, block_bytes));
    const uint32_t count = 1 + static_cast<uint32_t>(random.below(20));
    uint64_t room_blocks = random.below(arena_blocks);
    for (uint32_t i = 0; i < count; ++i) {
      SplitBucket bucket{.constant = random.below(4) == 0, .spill = i * parts / count};
      bucket.bytes =
          8 * (1 + random.below((bucket.constant ? 3 : 1) * arena_blocks / 3 * block_bytes / 8));
      bucket.items = bucket.bytes / 8;
      std::vector<std::byte> content(bucket.bytes);
      for (std::byte& byte : content) byte = static_cast<std::byte>(random.next());
      const uint64_t blocks =
          ceil_div(region_bytes_of(options_.format, bucket.bytes, bucket.items), block_bytes);
      if (blocks > room_blocks) room_blocks = 0;
      for (uint64_t at = 0; at < bucket.bytes; at += block_bytes) {
        const auto bytes = std::min<size_t>(block_bytes, bucket.bytes - at);
        if (room_blocks > 0) {
          bucket.kept.push_back(arena_.acquire());
          std::memcpy(arena_.block(bucket.kept.back()), content.data() + at, bytes);
          continue;
        }
        // Blocks of other buckets lie between them, or not.
        Spill& spill = spills_.part(bucket.spill);
        if (random.below(3) == 0) spill.place(block_bytes);
        const stream::Extent extent = spill.place(static_cast<uint32_t>(bytes));
        bucket.spilled.push_back(spill.number_of(extent));
        ASSERT_TRUE(io::write_exactly(*extent.file, extent.offset, content.data() + at, bytes));
      }
      room_blocks -= bucket.kept.empty() ? 0 : blocks;
      if (!bucket.spilled.empty()) spills_.keep(bucket.spill);
      offsets_.push_back(std::exchange(offset, offset + bucket.bytes));
      contents_.push_back(std::move(content));
      buckets_.push_back(std::move(bucket));
    }
  }

  // Offset of the job in its bucket.
  uint64_t start_of(const BucketJob& job) const {
    const SplitBucket& bucket = buckets_[job.bucket];
    return job.spilled.empty() ? 0 : (job.spilled.data() - bucket.spilled.data()) * block_bytes;
  }

  SortOptions options_;
  std::unique_ptr<Context> context_;
  std::vector<SplitBucket> buckets_;
  std::vector<uint64_t> offsets_;  // in the output
  std::vector<std::vector<std::byte>> contents_;
  SpillSet spills_;
  BlockArena arena_;
};

// Takers overwrite all of a region while they have it: no other region may overlap it.
TEST_F(BucketReaderTest, EveryByteArrivesInARegionOfItsOwn) {
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    SCOPED_TRACE(seed);
    make(seed);
    const bool releases = seed % 2 == 0;
    const bool in_turns = seed % 3 == 0;
    constexpr uint64_t start = 100;
    BucketReader reader(*context_, buckets_, arena_, spills_, {nullptr, start},
                        {.releases = releases, .in_turns = in_turns});
    ASSERT_TRUE(reader.open());
    std::vector<std::atomic<uint64_t>> arrived(buckets_.size());
    std::atomic<uint64_t> wrong{0};
    auto take_all = [&](std::byte mark) {
      while (BucketJob* job = reader.take()) {
        const uint64_t begin = start_of(*job);
        wrong += std::memcmp(job->region, &contents_[job->bucket][begin], job->bytes) != 0;
        wrong += job->offset != start + offsets_[job->bucket] + begin;
        reader.wait_for_turn();
        const uint64_t requests_before = io::traffic().requests;
        std::fill_n(job->region, job->region_bytes, mark);
        std::this_thread::yield();
        wrong += job->region_bytes - static_cast<uint64_t>(std::count(
                                         job->region, job->region + job->region_bytes, mark));
        arrived[job->bucket] += job->bytes;
        wrong += in_turns && job->region_bytes > 0 && io::traffic().requests != requests_before;
        reader.release(*job);
      }
    };
    std::thread one(take_all, std::byte{1}), other(take_all, std::byte{2});
    const Status status = reader.read();
    one.join();
    other.join();
    ASSERT_TRUE(status) << status.error().message();
    EXPECT_EQ(wrong, 0u);
    for (size_t i = 0; i < buckets_.size(); ++i) {
      EXPECT_EQ(arrived[i], buckets_[i].bytes);
      // Each part is released as often as it was kept: once more would end the program.
      if (!releases && !buckets_[i].spilled.empty()) spills_.release(buckets_[i].spill);
    }
  }
}

TEST_F(BucketReaderTest, WaitingTakersAreWokenWhenAReadFails) {
  size_t failed = 0;
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    SCOPED_TRACE(seed);
    make(seed);
    io::inject({.error = EIO, .error_after = seed % 7});
    std::optional<Status> status;
    size_t taken = 0, jobs = 0;
    {
      BucketReader reader(*context_, buckets_, arena_, spills_, {nullptr, 0},
                          {.in_turns = seed % 2 == 0});
      jobs = reader.jobs().size();
      ASSERT_TRUE(reader.open());
      std::thread taker([&] {
        for (; BucketJob* job = reader.take(); ++taken) {
          reader.wait_for_turn();
          reader.release(*job);
        }
      });
      status = reader.read();
      if (!*status) {
        context_->fail(status->error());
        reader.wake();
      }
      taker.join();
    }
    io::inject({});
    failed += !*status;
    EXPECT_TRUE(!*status || taken == jobs);
  }
  EXPECT_GT(failed, 0u);
}

// The first job is not released, so that the reader waits for room, or else reads all jobs.
TEST_F(BucketReaderTest, AReaderThatWaitsForRoomIsWokenWhenATakerFails) {
  size_t failed = 0;
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    SCOPED_TRACE(seed);
    make(seed);
    BucketReader reader(*context_, buckets_, arena_, spills_, {nullptr, 0},
                        {.in_turns = seed % 2 == 0});
    ASSERT_TRUE(reader.open());
    std::thread taker([&] {
      if (reader.take() == nullptr) return;
      context_->fail(failure(ErrorCode::io, "sort a bucket").error());
      reader.wake();
    });
    const Status status = reader.read();
    taker.join();
    failed += !status;
    EXPECT_TRUE(context_->failed());
  }
  EXPECT_GT(failed, 0u);
}

}  // namespace
}  // namespace penstock::external
