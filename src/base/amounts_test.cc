#include "base/amounts.h"

#include <gtest/gtest.h>

#include <limits>

namespace penstock {
namespace {

TEST(Amounts, AreReadable) {
  EXPECT_EQ(grouped(0), "0");
  EXPECT_EQ(grouped(999), "999");
  EXPECT_EQ(grouped(1000), "1,000");
  EXPECT_EQ(grouped(1234567), "1,234,567");
  EXPECT_EQ(counted(1, "file"), "1 file");
  EXPECT_EQ(counted(12'000, "file"), "12,000 files");
  EXPECT_EQ(counted(0, "process", "processes"), "0 processes");
  EXPECT_EQ(bytes_text(0), "0 B");
  EXPECT_EQ(bytes_text(1023), "1023 B");
  EXPECT_EQ(bytes_text(1024), "1.00 KiB");
  EXPECT_EQ(bytes_text(uint64_t{100} << 20), "100 MiB");
  EXPECT_EQ(bytes_text(1.5 * 1024 * 1024), "1.50 MiB");
  EXPECT_EQ(bytes_text(1024.0 * 1024 * 1024 - 1), "1.00 GiB");
  EXPECT_EQ(bytes_text(std::numeric_limits<double>::infinity()), "inf EiB");
  EXPECT_EQ(rate_text(2.5e9), "2.50 GB/s");
  EXPECT_EQ(duration_text(0), "0 ns");
  EXPECT_EQ(duration_text(0.0015), "1.50 ms");
  EXPECT_EQ(duration_text(65), "65.0 s");
  EXPECT_EQ(duration_text(601), "10:01 min");
  EXPECT_EQ(duration_text(3600 + 5 * 60 + 7), "1:05:07");
}

}  // namespace
}  // namespace penstock
