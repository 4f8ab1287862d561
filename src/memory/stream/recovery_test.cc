#include "memory/stream/recovery.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <thread>

#include "memory/fault/registry.h"
#include "os/memory.h"

namespace penstock::stream {
namespace {

// A region in which every access fails.
class Broken final : public fault::Handler {
 public:
  explicit Broken(ErrorPolicy policy) : policy_(policy) {
    range_ = os::Reservation::reserve(os::huge_page_bytes).value();
    registration_ = fault::Registration::add(range_.begin(), range_.bytes(), *this).value();
  }
  volatile char* data() const { return reinterpret_cast<volatile char*>(range_.begin()); }
  fault::Outcome on_fault(const fault::Fault& fault) noexcept override {
    ++faults;
    const Failure failure{ErrorCode::io, "read 7 bytes", "broken", EIO};
    return fail(policy_, failure, fault.context) ? fault::Outcome::retry : fault::Outcome::decline;
  }
  int faults = 0;

 private:
  ErrorPolicy policy_;
  os::Reservation range_;
  fault::Registration registration_;
};

TEST(RecoveryTest, AFailedAccessLeavesTheCodeWithTheError) {
  Broken broken(ErrorPolicy::recover);
  int steps = 0;
  for (int round = 0; round < 1000; ++round) {
    Result<int> result = RecoveryPoint::run([&] {
      ++steps;
      const int value = broken.data()[round];
      ++steps;
      return value;
    });
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().message(), "broken: cannot read 7 bytes: Input/output error");
    ASSERT_EQ(result.error().code, ErrorCode::io);
  }
  EXPECT_EQ(steps, 1000);
  EXPECT_EQ(broken.faults, 1000);
}

TEST(RecoveryTest, TheSignalMaskIsAsBefore) {
  Broken broken(ErrorPolicy::recover);
  sigset_t before, after;
  pthread_sigmask(SIG_SETMASK, nullptr, &before);
  ASSERT_FALSE(RecoveryPoint::run([&] { broken.data()[0] = 1; }));
  pthread_sigmask(SIG_SETMASK, nullptr, &after);
  for (int signal : {SIGSEGV, SIGBUS, SIGINT})
    EXPECT_EQ(sigismember(&before, signal), sigismember(&after, signal));
}

TEST(RecoveryTest, ReturnsTheResultOfTheCode) {
  EXPECT_EQ(*RecoveryPoint::run([] { return 5; }), 5);
  EXPECT_TRUE(RecoveryPoint::run([] {}));
  Result<int> inner =
      RecoveryPoint::run([]() -> Result<int> { return failure(ErrorCode::corrupt, "x"); });
  EXPECT_EQ(inner.error().code, ErrorCode::corrupt);
}

TEST(RecoveryTest, TheInnermostPointGetsTheErrorAndTheOuterOneTheNext) {
  Broken broken(ErrorPolicy::recover);
  bool inner_failed = false;
  auto outer = RecoveryPoint::run([&] {
    inner_failed = !RecoveryPoint::run([&] { broken.data()[0] = 1; });
    broken.data()[0] = 1;
  });
  EXPECT_TRUE(inner_failed);
  EXPECT_FALSE(outer);
}

TEST(RecoveryTest, PointsAreAThreadsOwn) {
  Broken broken(ErrorPolicy::recover);
  auto result = RecoveryPoint::run([&] {
    std::thread([&] { EXPECT_FALSE(RecoveryPoint::run([&] { broken.data()[0] = 1; })); }).join();
  });
  EXPECT_TRUE(result);
}

TEST(RecoveryTest, OutsideOfAHandlerTheJumpIsImmediate) {
  const Failure failed{ErrorCode::corrupt, "go on", "here", 0};
  auto result = RecoveryPoint::run([&] {
    (void)fail(ErrorPolicy::recover, failed, nullptr);
    ADD_FAILURE() << "came back";
  });
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().message(), "here: cannot go on");
}

TEST(RecoveryDeathTest, WithoutAPointOrWithStopTheProcessEndsWithTheMessage) {
  EXPECT_DEATH(Broken(ErrorPolicy::stop).data()[0] = 1,
               "broken: cannot read 7 bytes: Input/output error");
  EXPECT_DEATH(Broken(ErrorPolicy::recover).data()[0] = 1, "broken: cannot read 7 bytes");
  EXPECT_DEATH(
      {
        Broken broken(ErrorPolicy::recover);
        (void)RecoveryPoint::run([&] { broken.data()[0] = 1; });
        std::fputs("so far so good\n", stderr);
        broken.data()[0] = 1;
      },
      "so far so good.*broken: cannot read 7 bytes")
      << "the point is gone";
  EXPECT_DEATH(
      {
        Broken broken(ErrorPolicy::recover);
        (void)RecoveryPoint::run([&] { std::thread([&] { broken.data()[0] = 1; }).join(); });
      },
      "broken: cannot read 7 bytes")
      << "the point is another thread's";
}

TEST(RecoveryTest, ZerosLeavesTheErrorToTheStream) {
  EXPECT_FALSE(fail(ErrorPolicy::zeros, {}, nullptr));
}

}  // namespace
}  // namespace penstock::stream
