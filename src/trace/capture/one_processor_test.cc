#include "trace/capture/one_processor.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace penstock::trace {
namespace {

cpu_set_t mask_of(int32_t thread) {
  cpu_set_t mask;
  EXPECT_EQ(::sched_getaffinity(thread, sizeof mask, &mask), 0);
  return mask;
}
cpu_set_t only(int processor) {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  CPU_SET(processor, &mask);
  return mask;
}
void set_mask(int32_t thread, const cpu_set_t& mask) {
  ASSERT_EQ(::sched_setaffinity(thread, sizeof mask, &mask), 0);
}
bool same(const cpu_set_t& one, const cpu_set_t& other) {
  return CPU_EQUAL(&one, &other);
}
// Returns the mask's processor of this 0-based index.
int processor(const cpu_set_t& mask, int number) {
  for (int i = 0; i < CPU_SETSIZE; ++i) {
    if (CPU_ISSET(i, &mask) && number-- == 0) return i;
  }
  return -1;
}

// A thread of the test that sleeps. The class under test sees only its number.
class Sleeper {
 public:
  Sleeper() : thread_([this] { run(); }) { id_.wait(0); }
  ~Sleeper() {
    ends_ = true;
    ends_.notify_all();
    thread_.join();
  }
  int32_t id() const { return id_; }

 private:
  void run() {
    id_ = ::gettid();
    id_.notify_all();
    ends_.wait(false);
  }

  std::atomic<int32_t> id_{0};
  std::atomic<bool> ends_{false};
  std::thread thread_;
};

class OneProcessorTest : public testing::Test {
 protected:
  void SetUp() override {
    before_ = mask_of(0);
    if (CPU_COUNT(&before_) < 2) GTEST_SKIP() << "one processor is all there is";
  }
  void TearDown() override { EXPECT_TRUE(same(mask_of(0), before_)); }

  void call(uint32_t times) {
    for (uint32_t i = 0; i < times; ++i) one_.called(sleeper_.id(), now_ns_ += 1000);
  }
  void be_kept() {
    call(OneProcessor::calls_min);
    ASSERT_TRUE(one_.keeps(sleeper_.id()));
  }

  cpu_set_t before_;
  Sleeper sleeper_;
  OneProcessor one_{std::chrono::hours(1)};
  uint64_t now_ns_ = 0;
};

TEST_F(OneProcessorTest, ThreadThatCallsOftenIsOnOurProcessorUntilItIsLetGo) {
  call(OneProcessor::calls_min - 1);
  EXPECT_FALSE(one_.keeps(sleeper_.id()));
  EXPECT_TRUE(same(mask_of(sleeper_.id()), before_));
  call(1);
  const cpu_set_t theirs = mask_of(sleeper_.id()), ours = mask_of(0);
  EXPECT_TRUE(one_.keeps(sleeper_.id()));
  EXPECT_EQ(CPU_COUNT(&theirs), 1);
  EXPECT_TRUE(same(theirs, ours));
  one_.let_go();
  EXPECT_FALSE(one_.keeps(sleeper_.id()));
  EXPECT_TRUE(same(mask_of(sleeper_.id()), before_));
  EXPECT_TRUE(same(mask_of(0), before_));
  call(OneProcessor::calls_min - 1);
  EXPECT_FALSE(one_.keeps(sleeper_.id()));
}

TEST_F(OneProcessorTest, CallsOfOthersAndPausesRestartTheCount) {
  for (int i = 0; i < 5; ++i) {
    call(OneProcessor::calls_min - 1);
    one_.called(1, now_ns_ += 1000);
    call(OneProcessor::calls_min - 1);
    now_ns_ += OneProcessor::pause_ns_max;
  }
  EXPECT_FALSE(one_.keeps(sleeper_.id()));
  EXPECT_TRUE(same(mask_of(sleeper_.id()), before_));
}

TEST_F(OneProcessorTest, ThreadThatCallsNoMoreIsLetGo) {
  OneProcessor watched;
  for (uint32_t i = 0; i < OneProcessor::calls_min; ++i) watched.called(sleeper_.id(), i);
  const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (watched.keeps(sleeper_.id()) && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_FALSE(watched.keeps(sleeper_.id()));
  EXPECT_TRUE(same(mask_of(sleeper_.id()), before_));
  EXPECT_TRUE(same(mask_of(0), before_));
}

TEST_F(OneProcessorTest, ChangesByOthersStay) {
  be_kept();
  cpu_set_t other = only(processor(before_, 0));
  if (same(other, mask_of(0))) other = only(processor(before_, 1));
  set_mask(sleeper_.id(), other);
  one_.let_go();
  EXPECT_TRUE(same(mask_of(sleeper_.id()), other));
  EXPECT_TRUE(same(mask_of(0), before_));

  // A thread that may run on our processor alone is not changed, and nothing is restored.
  be_kept();
  EXPECT_TRUE(same(mask_of(0), other));
  set_mask(0, before_);
  one_.let_go();
  EXPECT_TRUE(same(mask_of(sleeper_.id()), other));
}

TEST_F(OneProcessorTest, NumberOfAThreadThatEndedIsNotTouched) {
  be_kept();
  const cpu_set_t theirs = mask_of(sleeper_.id());
  one_.ended(sleeper_.id());
  EXPECT_FALSE(one_.keeps(sleeper_.id()));
  EXPECT_TRUE(same(mask_of(sleeper_.id()), theirs));
  EXPECT_TRUE(same(mask_of(0), before_));
}

TEST_F(OneProcessorTest, ThreadMadeByOneThatIsKeptMayRunAnywhere) {
  Sleeper child;
  be_kept();
  set_mask(child.id(), mask_of(sleeper_.id()));
  one_.made(child.id());
  EXPECT_TRUE(same(mask_of(child.id()), before_));
  EXPECT_TRUE(same(mask_of(sleeper_.id()), before_));
}

}  // namespace
}  // namespace penstock::trace
