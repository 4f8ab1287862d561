#include "io/temporaries.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <optional>

#include "penstock/base.h"

namespace penstock::io {
namespace {

constexpr const char* memory = "/dev/shm";
constexpr const char* disk = "/var/tmp";

// Sets TMPDIR in a test, and restores it.
class TemporariesTest : public testing::Test {
 protected:
  void SetUp() override {
    if (const char* before = ::getenv("TMPDIR")) before_ = before;
    if (!lies_in_memory(memory)) GTEST_SKIP() << memory << " is no tmpfs here";
    if (!std::filesystem::exists(disk) || lies_in_memory(disk))
      GTEST_SKIP() << disk << " is not on a disk here";
  }
  ~TemporariesTest() override {
    before_ ? ::setenv("TMPDIR", before_->c_str(), 1) : ::unsetenv("TMPDIR");
  }

 private:
  std::optional<std::string> before_;
};

TEST_F(TemporariesTest, TheDefaultIsADisk) {
  ::setenv("TMPDIR", memory, 1);
  EXPECT_EQ(default_temp_directory(), disk);
  EXPECT_EQ(temp_directories_or_default({}), std::vector<std::string>{disk});
  const std::string notice = notice_of_temporaries({}, {disk});
  EXPECT_NE(notice.find(memory), std::string::npos) << notice;
  EXPECT_NE(notice.find(disk), std::string::npos) << notice;
}

TEST_F(TemporariesTest, NoNoticeIfTheUsualOneIsADisk) {
  ::setenv("TMPDIR", disk, 1);
  EXPECT_EQ(default_temp_directory("/dev/shm/output"), disk);
  EXPECT_EQ(notice_of_temporaries({}, {disk}), "");
}

TEST_F(TemporariesTest, MemoryThatTheUserNamesIsUsedWithANotice) {
  EXPECT_EQ(temp_directories_or_default({memory}), std::vector<std::string>{memory});
  const std::string notice = notice_of_temporaries({memory}, {memory});
  EXPECT_NE(notice.find("memory"), std::string::npos) << notice;
  EXPECT_EQ(temporaries_in_memory({memory}, 100 * MiB), 100 * MiB);
  EXPECT_EQ(temporaries_in_memory({memory, disk}, 100 * MiB), 50 * MiB);
  EXPECT_EQ(temporaries_in_memory({disk}, 100 * MiB), 0u);
}

TEST_F(TemporariesTest, MoreThanTheMemoryIsRefused) {
  EXPECT_TRUE(check_temporaries_in_memory({memory}, MiB, MiB));
  EXPECT_TRUE(check_temporaries_in_memory({disk}, 1024 * TiB, MiB));
  for (const auto& [temp_bytes, budget_bytes] :
       {std::pair(1024 * TiB, MiB), std::pair(MiB, 1024 * TiB),
        std::pair(~uint64_t{0}, ~uint64_t{0})}) {
    const auto refused = check_temporaries_in_memory({memory}, temp_bytes, budget_bytes);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::out_of_memory);
    EXPECT_EQ(refused.error().subject, memory);
  }
}

TEST(Temporaries, OneThatIsNotThereIsNoMemory) {
  EXPECT_FALSE(lies_in_memory("/nonesuch"));
}

}  // namespace
}  // namespace penstock::io
