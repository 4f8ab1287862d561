// Test labels: one-thread

#include "files/sort/spill/spill.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <map>

#include "base/bits.h"
#include "base/random.h"
#include "base/trials.h"
#include "files/sort/sort_fixture.h"
#include "os/process_counts.h"

namespace penstock::external {
namespace {

class Spills : public SortFixture {};

// Another thread closes released parts, one at a time, and ends before the set.
TEST_F(Spills, ReleasedPartsAreGoneOneAfterTheOther) {
  const std::string folder = path(".");
  const SpillPlace place{.directories = {folder}, .name = "parts"};
  const auto exists = [&](uint32_t part) {
    return std::filesystem::exists(Spill::path_of(folder, SpillSet::name_of(place, part), 0));
  };
  const auto open_before = os::descriptors();
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
    const size_t open_with_all = os::descriptors();
    spills.release(0);
    spills.wait_until_free();
    EXPECT_LT(os::descriptors(), open_with_all) << "a closed file's space is free";
    spills.release(1);
    EXPECT_FALSE(exists(0));
    EXPECT_FALSE(exists(1));
    EXPECT_TRUE(exists(2));
    spills.release(2);
  }
  EXPECT_FALSE(exists(2));
  EXPECT_EQ(os::descriptors(), open_before);
}

// Blocks have any sizes, in several directories: no two overlap, nothing lies between them, and a
// number identifies each.
TEST_F(Spills, DenseBlocksLieOneBehindTheOther) {
  constexpr size_t block_bytes = 64 * KiB;
  Random random(seed_of_run());
  const std::vector<std::string> folders = {path("."), path(".")};
  auto spill = Spill::open(folders, {.block_bytes = block_bytes, .dense = true});
  ASSERT_TRUE(spill) << spill.error().message();
  std::map<const io::File*, uint64_t> ends;
  for (int i = 0; i < 1000; ++i) {
    const auto bytes = static_cast<uint32_t>(1 + random.below(block_bytes));
    const stream::Extent extent = (*spill)->place(bytes);
    EXPECT_EQ(extent.bytes, bytes);
    EXPECT_EQ(extent.offset, ends[extent.file]);
    ends[extent.file] = round_up(extent.offset + bytes, io::sector_bytes);
    const stream::Extent again = (*spill)->numbered((*spill)->number_of(extent), bytes);
    EXPECT_EQ(again.file, extent.file);
    EXPECT_EQ(again.offset, extent.offset);
  }
  ASSERT_EQ(ends.size(), folders.size());
}

TEST_F(Spills, ABlocksLocationIsKnownAfterItsPartIsClosed) {
  const std::vector<std::string> folders = {path("."), path("./")};
  for (const bool dense : {false, true}) {
    SpillSet spills;
    ASSERT_TRUE(spills.open({.directories = folders}, 1, 64 * KiB, dense));
    spills.keep(0);
    spills.part(0).place(5000);
    spills.part(0).place(5000);
    const stream::Extent third = spills.part(0).place(5000);
    const uint32_t number = spills.part(0).number_of(third);
    EXPECT_EQ(third.offset, dense ? 8 * KiB : 64 * KiB);
    spills.release(0);
    EXPECT_EQ(spills.location_of(number).name, folders[0]);
    EXPECT_EQ(spills.location_of(number).offset, third.offset);
  }
}

}  // namespace
}  // namespace penstock::external
