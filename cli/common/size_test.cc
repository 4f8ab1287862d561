#include "cli/common/size.h"

#include <gtest/gtest.h>

#include "penstock/units.h"

namespace penstock::cli {
namespace {

constexpr uint64_t memory = 8 * GiB;

TEST(ParseSize, ReadsGnuSuffixes) {
  EXPECT_EQ(*parse_size("100b", memory), 100u);
  EXPECT_EQ(*parse_size("64k", memory), 64 * KiB);
  EXPECT_EQ(*parse_size("64K", memory), 64 * KiB);
  EXPECT_EQ(*parse_size("512M", memory), 512 * MiB);
  EXPECT_EQ(*parse_size("4G", memory), 4 * GiB);
  EXPECT_EQ(*parse_size("2T", memory), 2 * TiB);
}

TEST(ParseSize, WithoutSuffixCountsKibibytesAsGnuDoes) {
  EXPECT_EQ(*parse_size("1000", memory), 1000 * KiB);
  EXPECT_EQ(*parse_size("1000", memory, 1), 1000u);
}

TEST(ParseSize, PercentIsAShareOfMemory) {
  EXPECT_EQ(*parse_size("50%", memory), 4 * GiB);
  EXPECT_EQ(*parse_size("100%", memory), memory);
}

TEST(ParseSize, RefusesWhatIsNoSize) {
  for (auto text : {"", "G", "-1G", "1.5G", "1GB", "1X", "0", "0G", "101%", " 1G", "1 G",
                    "99999999999999999999", "9223372036854775807T"}) {
    EXPECT_FALSE(parse_size(text, memory).has_value()) << text;
  }
}

}  // namespace
}  // namespace penstock::cli
