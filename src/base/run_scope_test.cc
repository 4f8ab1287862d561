#include "base/run_scope.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <thread>
#include <vector>

#include "base/random.h"
#include "base/thread.h"

namespace penstock {
namespace {

// Compares with a plain model while charges come, change, move and go.
TEST(RunScope, AnAccountIsTheSumOfItsCharges) {
  constexpr uint64_t reserve_bytes = 5000;
  const auto account = std::make_shared<MemoryAccount>(reserve_bytes);
  const RunScope scope({.account = account});
  Random random(19);
  std::vector<MemoryCharge> charges;
  std::vector<MemoryKind> kinds;
  uint64_t peak_bytes = reserve_bytes;
  for (int step = 0; step < 20'000; ++step) {
    const uint64_t bytes = random.below(1000);
    const size_t i = charges.empty() ? 0 : random.below(charges.size());
    switch (random.below(charges.size() > 20 ? 4 : 3)) {
      case 0:
        kinds.push_back(random.below(2) == 0 ? MemoryKind::planned : MemoryKind::small);
        charges.emplace_back(bytes, kinds.back());
        break;
      case 1:
        if (!charges.empty()) charges[i].set(bytes);
        break;
      case 2:
        if (!charges.empty()) charges[i] = MemoryCharge(std::move(charges[i]));
        break;
      default:
        charges.erase(charges.begin() + static_cast<ptrdiff_t>(i));
        kinds.erase(kinds.begin() + static_cast<ptrdiff_t>(i));
    }
    uint64_t planned_bytes = 0, small_bytes = 0;
    for (size_t k = 0; k < charges.size(); ++k)
      (kinds[k] == MemoryKind::planned ? planned_bytes : small_bytes) += charges[k].bytes();
    ASSERT_EQ(account->bytes(), planned_bytes + std::max(reserve_bytes, small_bytes));
    peak_bytes = std::max(peak_bytes, account->bytes());
    ASSERT_EQ(account->peak_bytes(), peak_bytes);
  }
  charges.clear();
  EXPECT_EQ(account->bytes(), reserve_bytes);
}

TEST(RunScope, GoesOnToThreadsAndEndsWithIt) {
  EXPECT_EQ(current_run().account, nullptr);
  const auto account = std::make_shared<MemoryAccount>(0);
  std::optional<MemoryCharge> kept;
  {
    const RunScope scope({.account = account});
    std::jthread thread;
    ASSERT_TRUE(start_thread(thread, [&] {
      EXPECT_EQ(current_run().account, account);
      EXPECT_EQ(account->bytes(), thread_bytes) << "its stack";
      kept.emplace(100);
      const NoRunScope callers;
      EXPECT_EQ(current_run().account, nullptr);
      const MemoryCharge nobodys(1000);
      EXPECT_EQ(nobodys.bytes(), 0u);
    }));
    thread.join();
    EXPECT_EQ(account->bytes(), 100u);
    const RunScope inner({.account = std::make_shared<MemoryAccount>(7)});
    EXPECT_NE(current_run().account, account);
  }
  EXPECT_EQ(current_run().account, nullptr);
  kept.reset();  // on another thread, outside
  EXPECT_EQ(account->bytes(), 0u);
}

TEST(RunScope, AnAccountIsKeptByManyThreads) {
  const auto account = std::make_shared<MemoryAccount>(0);
  {
    const RunScope scope({.account = account});
    in_threads(4, [](size_t) {
      for (uint64_t i = 0; i < 10'000; ++i) MemoryCharge(1 + i % 7).set(i % 5);
    });
  }
  EXPECT_EQ(account->bytes(), 0u);
  EXPECT_GE(account->peak_bytes(), 7u);
  EXPECT_LE(account->peak_bytes(), 3 * thread_bytes + uint64_t{4} * 7);
}

}  // namespace
}  // namespace penstock
