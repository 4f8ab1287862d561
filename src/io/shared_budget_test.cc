// Several shares in one process, as locks belong to open files. test/memory_pool_test.py has more.

#include "io/shared_budget.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "io/failing_calls_fixture.h"

namespace penstock::io {
namespace {

class SharedBudgetTest : public testing::Test {
 protected:
  ~SharedBudgetTest() override {
    failing_reads = 0;
    std::filesystem::remove(path_);
  }
  Result<SharedBudget> acquire(uint64_t budget_bytes, uint64_t bytes) const {
    return SharedBudget::acquire({.name = name_, .budget_bytes = budget_bytes, .bytes = bytes});
  }

  const std::string name_ = fmt::format("shared-budget-test-{}", ::getpid());
  const std::string path_ = fmt::format("/dev/shm/penstock-{}-{}", ::geteuid(), name_);
};

TEST_F(SharedBudgetTest, AReadThatIsInterruptedIsMadeAgain) {
  const auto first = acquire(8 * MiB, 4 * MiB);
  ASSERT_TRUE(first) << first.error().message();
  failing_reads = 3;
  call_error = EINTR;
  const auto second = acquire(0, 3 * MiB);
  EXPECT_EQ(failing_reads, 0);
  ASSERT_TRUE(second) << second.error().message();
  EXPECT_EQ(acquire(0, 9 * MiB).error().code, ErrorCode::invalid_argument) << "there are 8 MiB";
}

TEST_F(SharedBudgetTest, APoolThatCannotBeReadIsNoNewOne) {
  const auto first = acquire(8 * MiB, 4 * MiB);
  ASSERT_TRUE(first) << first.error().message();
  failing_reads = 1;
  call_error = EIO;
  const auto refused = acquire(8 * MiB, 1 * MiB);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::io);
  EXPECT_EQ(refused.error().subject, path_);
  EXPECT_TRUE(acquire(8 * MiB, 1 * MiB)) << "nothing was changed";
  ASSERT_EQ(::truncate(path_.c_str(), 5), 0);
  EXPECT_EQ(acquire(8 * MiB, 1 * MiB).error().code, ErrorCode::corrupt);
}

TEST_F(SharedBudgetTest, TheFirstProcessBeginsANewOne) {
  EXPECT_TRUE(acquire(8 * MiB, 4 * MiB));
  EXPECT_EQ(acquire(0, 1 * MiB).error().code, ErrorCode::invalid_argument);
  EXPECT_TRUE(acquire(2 * MiB, 2 * MiB));
}

}  // namespace
}  // namespace penstock::io
