#include "memory/rewire/gate.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace penstock::rewire {
namespace {

TEST(Gate, NobodyIsInsideWhileItIsClosed) {
  Gate gate;
  uint64_t guarded = 0;  // changed behind the gate, read by visitors: for the thread sanitizer
  std::atomic<int> inside = 0;
  std::atomic<bool> stop = false;
  std::atomic<uint64_t> visits = 0;
  std::vector<std::jthread> visitors;
  for (int t = 0; t < 3; ++t) {
    visitors.emplace_back([&] {
      while (!stop) {
        const Gate::Visit visit(gate);
        ++inside;
        const uint64_t seen = guarded;
        std::this_thread::yield();
        EXPECT_EQ(seen, guarded);
        --inside;
        ++visits;
      }
    });
  }
  for (int i = 0; i < 3000 || visits < 100; ++i) {
    const Gate::Closing closing(gate);
    EXPECT_EQ(inside, 0);
    ++guarded;
  }
  stop = true;
}

// A visitor passes between closings, however many there are.
TEST(Gate, VisitorsPassBetweenClosings) {
  Gate gate;
  std::atomic<bool> stop = false;
  std::jthread closer([&] {
    while (!stop) {
      const Gate::Closing closing(gate);
      std::this_thread::yield();
    }
  });
  for (int waited = 0; waited < 500;) waited += Gate::Visit(gate).has_waited();
  stop = true;
}

}  // namespace
}  // namespace penstock::rewire
