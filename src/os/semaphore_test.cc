#include "os/semaphore.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <ctime>
#include <thread>
#include <vector>

namespace penstock::os {
namespace {

TEST(Semaphore, CountsUnits) {
  Semaphore semaphore(3);
  EXPECT_TRUE(semaphore.try_acquire(2));
  EXPECT_FALSE(semaphore.try_acquire(2));
  EXPECT_EQ(semaphore.count(), 1u);
  semaphore.release(4);
  EXPECT_TRUE(semaphore.acquire(5));
  EXPECT_EQ(semaphore.count(), 0u);
}

TEST(Semaphore, AWaiterSleepsUntilThereAreEnoughUnits) {
  Semaphore semaphore;
  std::atomic<bool> through{false};
  errno = 0;
  std::thread waiter([&] {
    errno = EXDEV;
    EXPECT_TRUE(semaphore.acquire(3));
    EXPECT_EQ(errno, EXDEV);
    through = true;
  });
  for (int i = 0; i < 2; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    EXPECT_FALSE(through);
    semaphore.release();
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_FALSE(through);
  semaphore.release();
  waiter.join();
}

TEST(Semaphore, WaitingCostsNoProcessorTime) {
  Semaphore semaphore;
  std::atomic<int64_t> cpu_us{0};
  std::thread waiter([&] {
    EXPECT_TRUE(semaphore.acquire());
    timespec used;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    cpu_us = used.tv_sec * 1'000'000 + used.tv_nsec / 1000;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  semaphore.release();
  waiter.join();
  EXPECT_LT(cpu_us, 50'000);
}

TEST(Semaphore, ClosingLetsEveryWaiterGo) {
  Semaphore semaphore;
  std::vector<std::thread> waiters;
  for (int i = 0; i < 3; ++i) waiters.emplace_back([&] { EXPECT_FALSE(semaphore.acquire()); });
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  semaphore.close();
  for (auto& waiter : waiters) waiter.join();
  EXPECT_TRUE(semaphore.closed());
  EXPECT_FALSE(semaphore.acquire());
  semaphore.release(2);
  EXPECT_TRUE(semaphore.acquire(2));  // units released before close() are not lost
  EXPECT_FALSE(semaphore.acquire());
}

TEST(Semaphore, ShowsStoresBeforeARelease) {
  constexpr int items = 20'000, slots = 4;
  Semaphore free_slots(slots), full_slots;
  int ring[slots];
  std::thread producer([&] {
    for (int i = 0; i < items; ++i) {
      ASSERT_TRUE(free_slots.acquire());
      ring[i % slots] = i;
      full_slots.release();
    }
    full_slots.close();
  });
  int next = 0;
  for (; full_slots.acquire(); ++next) {
    ASSERT_EQ(ring[next % slots], next);
    free_slots.release();
  }
  producer.join();
  EXPECT_EQ(next, items);
}

TEST(Semaphore, LosesAndInventsNoUnit) {
  constexpr int threads = 4, rounds = 5000;
  Semaphore semaphore(3);
  std::atomic<int> out{0};
  std::atomic<bool> too_many{false};
  std::vector<std::thread> crowd;
  for (int t = 0; t < threads; ++t) {
    crowd.emplace_back([&, t] {
      const auto units = static_cast<uint32_t>(1 + t % 2);
      for (int round = 0; round < rounds; ++round) {
        ASSERT_TRUE(semaphore.acquire(units));
        if (out.fetch_add(static_cast<int>(units)) + static_cast<int>(units) > 3) too_many = true;
        out.fetch_sub(static_cast<int>(units));
        semaphore.release(units);
      }
    });
  }
  for (auto& thread : crowd) thread.join();
  EXPECT_FALSE(too_many);
  EXPECT_EQ(semaphore.count(), 3u);
}

}  // namespace
}  // namespace penstock::os
