// Test labels: one-thread

#include "trace/capture/ring_watch.h"

#include <gtest/gtest.h>
#include <linux/io_uring.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <functional>
#include <string>
#include <vector>

namespace penstock::trace {
namespace {

// A ring of this process, watched as if it were another process's.
class RingOfOurs : public ::testing::Test {
 protected:
  void SetUp() override {
    descriptor_ = static_cast<int>(::syscall(SYS_io_uring_setup, 8, &parameters_));
    if (descriptor_ < 0) GTEST_SKIP() << "there are no io_urings here";
  }
  void TearDown() override {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  std::unique_ptr<RingWatch> watch(const io_uring_params& parameters) const {
    bool polled = false;
    return RingWatch::open(::getpid(), descriptor_, reinterpret_cast<uint64_t>(&parameters),
                           polled);
  }

  io_uring_params parameters_ = {};
  int descriptor_ = -1;
};

TEST_F(RingOfOurs, IsWatched) {
  const auto watch = this->watch(parameters_);
  if (watch == nullptr) GTEST_SKIP() << "descriptors of others cannot be taken here";
  std::vector<RingCompletion> completions;
  watch->look_at_submissions(8, 1, 0);
  watch->submitted(8);
  watch->harvest(completions);
  EXPECT_TRUE(completions.empty());
}

// Another thread of the program can overwrite the parameters before we read them.
TEST_F(RingOfOurs, OffsetsOutsideOfItAreRefused) {
  if (watch(parameters_) == nullptr) GTEST_SKIP() << "descriptors of others cannot be taken here";
  constexpr uint32_t far = 1u << 30;
  const std::vector<std::pair<std::string, std::function<void(io_uring_params&)>>> changes = {
      {"sq head", [](io_uring_params& p) { p.sq_off.head = far; }},
      {"sq tail", [](io_uring_params& p) { p.sq_off.tail = far; }},
      {"sq array", [](io_uring_params& p) { p.sq_off.array = far; }},
      {"cq tail", [](io_uring_params& p) { p.cq_off.tail = far; }},
      {"cq tail at an odd place", [](io_uring_params& p) { p.cq_off.tail += 1; }},
      {"cqes", [](io_uring_params& p) { p.cq_off.cqes = far; }},
      {"no sq entries", [](io_uring_params& p) { p.sq_entries = 0; }},
      {"no cq entries", [](io_uring_params& p) { p.cq_entries = 0; }},
      {"many sq entries", [](io_uring_params& p) { p.sq_entries = far; }},
      {"many cq entries", [](io_uring_params& p) { p.cq_entries = far; }},
  };
  for (const auto& [what, change] : changes) {
    io_uring_params changed = parameters_;
    change(changed);
    const auto watch = this->watch(changed);
    if (watch == nullptr) continue;
    ADD_FAILURE() << what;
    std::vector<RingCompletion> completions;
    watch->look_at_submissions(8, 1, 0);
    watch->harvest(completions);
  }
}

}  // namespace
}  // namespace penstock::trace
