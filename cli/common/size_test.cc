#include "cli/common/size.h"

#include <gtest/gtest.h>

#include "penstock/base.h"

namespace penstock::cli {
namespace {

constexpr uint64_t memory = 8 * GiB;

TEST(ParseSize, ReadsGnuSuffixes) {
  EXPECT_EQ(*parse_size("-S", "100b", memory), 100u);
  EXPECT_EQ(*parse_size("-S", "64k", memory), 64 * KiB);
  EXPECT_EQ(*parse_size("-S", "64K", memory), 64 * KiB);
  EXPECT_EQ(*parse_size("-S", "512M", memory), 512 * MiB);
  EXPECT_EQ(*parse_size("-S", "4G", memory), 4 * GiB);
  EXPECT_EQ(*parse_size("-S", "2T", memory), 2 * TiB);
}

TEST(ParseSize, CountsUnitsWithoutASuffix) {
  EXPECT_EQ(*parse_size("-S", "1000", memory, KiB), 1000 * KiB);
  EXPECT_EQ(*parse_size("--size", "1000", memory), 1000u);
}

TEST(ParseSize, ReadsWhatPeopleWrite) {
  EXPECT_EQ(*parse_size("-S", "1.5G", memory), 3 * GiB / 2);
  EXPECT_EQ(*parse_size("-S", "1GiB", memory), GiB);
  EXPECT_EQ(*parse_size("-S", "1GB", memory), 1'000'000'000u);
  EXPECT_EQ(*parse_size("-S", "250kB", memory), 250'000u);
  EXPECT_EQ(*parse_size("-S", "12.5%", memory), GiB);
  EXPECT_EQ(*parse_size("-S", "9007199254740991", memory), 9007199254740991u);
}

TEST(ParseSize, TheErrorNamesTheOption) {
  const auto size = parse_size("--window", "big", memory);
  ASSERT_FALSE(size);
  EXPECT_EQ(
      size.error().message(),
      "--window big: cannot read this as a size (try: a number and a suffix: 512M, 1.5G, 50%)");
}

TEST(ParseSize, PercentIsAShareOfMemory) {
  EXPECT_EQ(*parse_size("-S", "50%", memory), 4 * GiB);
  EXPECT_EQ(*parse_size("-S", "100%", memory), memory);
}

TEST(ParseSize, RefusesWhatIsNoSize) {
  for (auto text : {"",
                    "G",
                    "-1G",
                    "1.5b",
                    "1Gi",
                    "1GBs",
                    "1X",
                    "1e3",
                    "inf",
                    "0x10",
                    ".",
                    "0.0G",
                    "1..5G",
                    "1,5G",
                    "0",
                    "0G",
                    "101%",
                    " 1G",
                    "1 G",
                    "99999999999999999999",
                    "9223372036854775807T"}) {
    EXPECT_FALSE(parse_size("-S", text, memory).has_value()) << text;
  }
}

}  // namespace
}  // namespace penstock::cli
