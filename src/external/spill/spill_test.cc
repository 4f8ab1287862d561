#include "external/spill/spill.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <iterator>

#include "external/sort_fixture.h"

namespace penstock::external {
namespace {

class Spills : public SortFixture {};

auto open_files() {
  namespace fs = std::filesystem;
  return std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator());
}

// What takes long is done aside, but of one part at most, and not beyond the end of the set.
TEST_F(Spills, ReleasedPartsAreGoneOneAfterTheOther) {
  const std::string folder = path(".");
  const SpillPlace place{.directories = {folder}, .name = "parts"};
  const auto exists = [&](uint32_t part) {
    return std::filesystem::exists(Spill::path_of(folder, SpillSet::name_of(place, part), 0));
  };
  const auto open_before = open_files();
  {
    SpillSet spills;
    ASSERT_TRUE(spills.open(place, 3, 64 * KiB));
    for (uint32_t part = 0; part < 3; ++part) {
      spills.keep(part);
      spills.part(part).place(64 * KiB);
    }
    spills.keep(0);
    spills.release(0);
    EXPECT_TRUE(exists(0)) << "somebody keeps it";
    spills.release(0);
    spills.release(1);
    EXPECT_FALSE(exists(0));
    EXPECT_FALSE(exists(1));
    EXPECT_TRUE(exists(2));
    EXPECT_EQ(spills.placed_bytes(), 3 * 64 * KiB) << "those that are closed count";
    spills.release(2);
  }
  EXPECT_FALSE(exists(2));
  EXPECT_EQ(open_files(), open_before);
}

}  // namespace
}  // namespace penstock::external
