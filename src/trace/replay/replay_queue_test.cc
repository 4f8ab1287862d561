// Test labels: one-thread

#include "trace/replay/replay_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <vector>

#include "base/random.h"

namespace penstock::trace {
namespace {

Transfer transfer(uint64_t number, int32_t thread, uint64_t start_ns, uint64_t end_ns) {
  return {.address = number * 4096,
          .bytes = 4096,
          .start_ns = start_ns,
          .end_ns = end_ns,
          .thread = thread};
}

std::vector<uint64_t> start_all(ReplayQueue& queue, uint64_t now_ns = 0) {
  std::vector<uint64_t> started;
  while (auto next = queue.start(now_ns)) started.push_back(next->address / 4096);
  return started;
}
using Numbers = std::vector<uint64_t>;

TEST(ReplayQueue, ThreadsMakeOneRequestAfterTheOther) {
  ReplayQueue queue({});
  for (uint64_t i = 0; i < 5; ++i) queue.add(transfer(i, 1, 100 * i, 100 * i + 50));
  for (uint64_t i = 0; i < 5; ++i) {
    EXPECT_EQ(start_all(queue), Numbers{i});
    queue.ended(transfer(i, 1, 100 * i, 100 * i + 50));
  }
  EXPECT_TRUE(queue.empty());
}

TEST(ReplayQueue, ProcessesThatRanOneAfterTheOtherDoSoAgain) {
  ReplayQueue queue({});
  queue.add(transfer(0, 1, 0, 10));
  queue.add(transfer(1, 2, 10, 20));  // another process, which began when the first had ended
  queue.add(transfer(2, 3, 30, 40));
  EXPECT_EQ(start_all(queue), Numbers{0});
  queue.ended(transfer(0, 1, 0, 10));
  EXPECT_EQ(start_all(queue), Numbers{1});
}

TEST(ReplayQueue, OverlappingRequestsOfOneThreadOverlapAgain) {
  ReplayQueue queue({});
  queue.add(transfer(0, 1, 0, 100));  // a request of an io_uring
  queue.add(transfer(1, 1, 10, 110));
  queue.add(transfer(2, 1, 20, 120));
  queue.add(transfer(3, 1, 105, 200));  // began after the end of the first
  EXPECT_EQ(start_all(queue), (Numbers{0, 1, 2}));
  queue.ended(transfer(1, 1, 10, 110));
  EXPECT_EQ(start_all(queue), Numbers{}) << "request 3 was made after 0 had ended";
  queue.ended(transfer(0, 1, 0, 100));
  EXPECT_EQ(start_all(queue), Numbers{3});
}

TEST(ReplayQueue, BusyThreadsAreOvertakenWithinTheWindow) {
  ReplayQueue queue({.window = 4});
  const Transfer slow = transfer(0, 1, 0, 10);
  queue.add(slow);
  queue.add(transfer(1, 2, 5, 15));
  queue.add(transfer(2, 1, 12, 22));
  queue.add(transfer(3, 2, 16, 26));
  EXPECT_EQ(start_all(queue), (Numbers{0, 1}));
  queue.ended(transfer(1, 2, 5, 15));
  EXPECT_EQ(start_all(queue), Numbers{3}) << "2 waits for its thread";
  queue.ended(transfer(3, 2, 16, 26));
  // Request 2 is still the first one: a request 4 places behind it is not added.
  queue.add(transfer(4, 2, 27, 37));
  EXPECT_FALSE(queue.full());
  queue.add(transfer(5, 2, 38, 48));
  EXPECT_TRUE(queue.full());
  queue.ended(slow);
  EXPECT_EQ(start_all(queue), Numbers{2});
  EXPECT_FALSE(queue.full());
}

TEST(ReplayQueue, AheadKeepsTheOrderAndTheDepth) {
  ReplayQueue queue({.concurrency = Concurrency::ahead, .depth_max = 3});
  for (uint64_t i = 0; i < 6; ++i) queue.add(transfer(i, 1, 100 * i, 100 * i + 1));
  EXPECT_EQ(start_all(queue), (Numbers{0, 1, 2}));
  queue.ended(transfer(1, 1, 100, 101));
  EXPECT_EQ(start_all(queue), Numbers{3});
}

TEST(ReplayQueue, AtTheOriginalPaceNothingStartsBeforeItsTime) {
  ReplayQueue queue({.pace = Pace::original});
  queue.add(transfer(0, 1, 0, 50));
  queue.add(transfer(1, 2, 40, 90));
  queue.add(transfer(2, 1, 70, 99));
  EXPECT_EQ(start_all(queue, 0), Numbers{0});
  EXPECT_EQ(queue.due_ns(), 40u);
  EXPECT_EQ(start_all(queue, 39), Numbers{});
  EXPECT_EQ(start_all(queue, 40), Numbers{1});
  EXPECT_EQ(queue.due_ns(), std::nullopt) << "there were never three at once";
  queue.ended(transfer(1, 2, 40, 90));
  EXPECT_EQ(start_all(queue, 41), Numbers{});
  EXPECT_EQ(queue.due_ns(), 70u);
  EXPECT_EQ(start_all(queue, 70), Numbers{}) << "its thread is busy";
  EXPECT_EQ(queue.due_ns(), std::nullopt) << "no time makes it start";
  queue.ended(transfer(0, 1, 0, 50));
  EXPECT_EQ(start_all(queue, 71), Numbers{2});
}

Transfer access_of(uint32_t file, Access access, Transfer made) {
  made.file = file;
  made.access = access;
  return made;
}
Transfer sync_of(uint32_t file, Transfer made) {
  made.bytes = 0;
  return access_of(file, Access::write, made);
}

// Several threads write to one file, and one of them syncs it.
TEST(ReplayQueue, ASyncWaitsForEarlierWritesToItsFile) {
  for (const Concurrency concurrency : {Concurrency::original, Concurrency::ahead}) {
    ReplayQueue queue({.concurrency = concurrency, .depth_max = 8});
    queue.add(access_of(7, Access::write, transfer(0, 1, 0, 100)));
    queue.add(access_of(7, Access::read, transfer(1, 2, 0, 100)));
    queue.add(access_of(8, Access::write, transfer(2, 3, 0, 100)));
    queue.add(sync_of(7, transfer(3, 4, 10, 200)));
    queue.add(access_of(7, Access::write, transfer(4, 5, 20, 200)));
    std::vector<Transfer> started;
    while (auto next = queue.start(0)) started.push_back(*next);
    // Later requests of other threads need not wait for it.
    ASSERT_EQ(started.size(), concurrency == Concurrency::original ? 4u : 3u);
    EXPECT_EQ(started[2].file, 8u);
    queue.ended(started[1]);
    queue.ended(started[2]);
    if (started.size() == 4) {
      EXPECT_EQ(started[3].address / 4096, 4u);
    }
    EXPECT_FALSE(queue.start(0)) << "one write before it is under way";
    queue.ended(started[0]);
    const auto sync = queue.start(0);
    ASSERT_TRUE(sync && sync->is_sync());
    EXPECT_EQ(sync->file, 7u);
  }
}

TEST(ReplayQueue, RequestsOfAThreadAfterItsSyncWaitForIt) {
  for (const Concurrency concurrency : {Concurrency::original, Concurrency::ahead}) {
    ReplayQueue queue({.concurrency = concurrency, .depth_max = 8});
    queue.add(sync_of(7, transfer(0, 1, 0, 100)));
    queue.add(access_of(8, Access::write, transfer(1, 2, 50, 200)));
    queue.add(access_of(8, Access::write, transfer(2, 1, 99, 200)));
    queue.add(access_of(7, Access::write, transfer(3, 1, 100, 200)));
    const auto sync = queue.start(0);
    ASSERT_TRUE(sync && sync->is_sync());
    // Other threads do not wait for it, nor requests of this thread that began before its end.
    const auto other = queue.start(0);
    ASSERT_TRUE(other && other->thread == 2);
    const auto beside = queue.start(0);
    ASSERT_TRUE(beside && beside->start_ns == 99);
    EXPECT_FALSE(queue.start(0));
    queue.ended(*other);
    queue.ended(*beside);
    EXPECT_FALSE(queue.start(0));
    queue.ended(*sync);
    EXPECT_EQ(start_all(queue), Numbers{3});
  }
}

// Checks the header's rules, for random traces on a device that ends transfers in any order.
TEST(ReplayQueue, KeepsItsRulesAndEndsWhateverTheTrace) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random(seed);
    const size_t count = 1 + random.below(120);
    const uint64_t threads = 1 + random.below(6);
    const bool rings = random.below(2) == 0;
    std::vector<Transfer> all;
    std::vector<uint64_t> free_at(threads, 0);
    uint64_t time = 0;
    for (uint64_t i = 0; i < count; ++i) {
      time += random.below(40);
      uint64_t thread = random.below(threads);
      for (uint64_t tries = 0; !rings && free_at[thread] > time && tries < threads; ++tries) {
        thread = (thread + 1) % threads;
      }
      if (!rings) time = std::max(time, free_at[thread]);
      const uint64_t end = time + random.below(100);
      free_at[thread] = end;
      Transfer made = transfer(i, static_cast<int32_t>(thread), time, end);
      const auto file = static_cast<uint32_t>(random.below(3));
      const uint64_t kind = random.below(4);
      all.push_back(kind == 0 ? sync_of(file, made)
                              : access_of(file, kind == 1 ? Access::read : Access::write, made));
    }
    const ReplayQueueOptions options{
        .concurrency = std::array{Concurrency::original, Concurrency::serial,
                                  Concurrency::ahead}[random.below(3)],
        .depth_max = static_cast<unsigned>(1 + random.below(8)),
        .window = 1 + random.below(16)};
    // The number of requests that were in flight in the trace when i began.
    auto concurrent = [&](size_t i) {
      uint64_t others = 1;
      for (size_t k = 0; k < i; ++k) others += all[k].end_ns > all[i].start_ns;
      return std::min<uint64_t>(others, options.depth_max);
    };
    ReplayQueue queue(options);
    std::vector<size_t> flying;
    std::vector<Transfer> started(count);
    std::vector<int> starts(count, 0);
    std::vector<bool> ended(count, false);
    size_t added = 0, done = 0;
    while (done < count) {
      while (added < count && !queue.full()) queue.add(all[added++]);
      while (auto next = queue.start(0)) {
        const size_t i = next->address / 4096;
        ASSERT_EQ(++starts[i], 1);
        started[i] = *next;
        for (size_t k = 0; next->is_sync() && k < i; ++k) {
          const bool written = all[k].file == next->file && all[k].access == Access::write;
          if (written && !all[k].is_sync()) {
            ASSERT_TRUE(ended[k]) << k << " before the sync " << i;
          }
        }
        switch (options.concurrency) {
          case Concurrency::serial:
            ASSERT_EQ(i, done);
            ASSERT_TRUE(flying.empty());
            break;
          case Concurrency::ahead:
            ASSERT_LT(flying.size(), options.depth_max);
            if (i > 0) {
              ASSERT_EQ(starts[i - 1], 1) << "in order";
            }
            for (size_t k = 0; k < i; ++k) {
              if (all[k].is_sync() && all[k].thread == all[i].thread &&
                  all[k].end_ns <= all[i].start_ns) {
                ASSERT_TRUE(ended[k]) << "the sync " << k << " before " << i;
              }
            }
            break;
          case Concurrency::original:
            ASSERT_LT(flying.size(), concurrent(i));
            for (size_t k = 0; k < i; ++k) {
              if (all[k].thread == all[i].thread && all[k].end_ns <= all[i].start_ns) {
                ASSERT_TRUE(ended[k]) << k << " before " << i;
              }
              if (k + options.window <= i) {
                ASSERT_EQ(starts[k], 1) << "overtaken too far";
              }
            }
            break;
        }
        flying.push_back(i);
      }
      ASSERT_FALSE(flying.empty()) << "stuck";
      ASSERT_EQ(queue.in_flight(), flying.size());
      const size_t which = random.below(flying.size());
      queue.ended(started[flying[which]]);
      ended[flying[which]] = true;
      flying.erase(flying.begin() + static_cast<ptrdiff_t>(which));
      ++done;
    }
    EXPECT_TRUE(queue.empty());
  }
}

}  // namespace
}  // namespace penstock::trace
