#include "cli/common/beginnings.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/temporary_folder_fixture.h"

namespace penstock::cli {
namespace {

TEST(Beginnings, LookAtAFileOnce) {
  const TemporaryFolder folder;
  const std::string path = folder / "in.csv";
  std::ofstream(path) << "a,b\n1,2";
  Beginnings beginnings;
  EXPECT_EQ(beginnings.of(path, {}).text, "a,b\n1,2");
  std::filesystem::remove(path);
  for (const io::Wait wait : {io::Wait::none, io::Wait::byte, io::Wait::enough}) {
    const Beginning& seen = beginnings.of(path, {}, wait);
    EXPECT_TRUE(seen.can_open && seen.head.is_file && seen.is_all);
    EXPECT_EQ(seen.rows('\n'), "a,b\n1,2\n");
  }
  beginnings.clear();
  EXPECT_FALSE(beginnings.of(path, {}).can_open);
}

TEST(Beginnings, LookAtAPipeAgainOnlyForALongerWait) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const std::string path = "/dev/fd/" + std::to_string(ends[0]);
  Beginnings beginnings;
  EXPECT_TRUE(beginnings.of(path, {}).text.empty());
  ASSERT_EQ(::write(ends[1], "a\n", 2), 2);
  EXPECT_TRUE(beginnings.of(path, {}).text.empty());
  EXPECT_EQ(beginnings.of(path, {}, io::Wait::byte).text, "a\n");
  ASSERT_EQ(::write(ends[1], "b\n", 2), 2);
  EXPECT_EQ(beginnings.of(path, {}, io::Wait::byte).text, "a\n");
  EXPECT_EQ(beginnings.of(path, {}, io::Wait::enough).text, "a\nb\n");
  ::close(ends[0]);
  ::close(ends[1]);
}

}  // namespace
}  // namespace penstock::cli
