#include "generate/sort_benchmark.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "base/random.h"
#include "items/crc32.h"

// test/sort_benchmark_oracle.py makes the same records by Python's integers, for random starts.

namespace penstock::generate {

using namespace items;
namespace {

std::vector<std::byte> records(BenchmarkKind kind, uint64_t first, uint64_t count) {
  std::vector<std::byte> data(count * benchmark_record_bytes);
  fill_benchmark_records(kind, first, count, data.data());
  return data;
}

// The sum of the CRCs of few enough records for 64 bits.
uint64_t checksum(BenchmarkKind kind, uint64_t count) {
  uint64_t sum = 0;
  constexpr uint64_t piece = 10'000;
  for (uint64_t first = 0; first < count; first += piece) {
    const auto data = records(kind, first, piece);
    for (size_t i = 0; i < piece; ++i) {
      sum += crc32(data.data() + i * benchmark_record_bytes, benchmark_record_bytes);
    }
  }
  return sum;
}

TEST(SortBenchmark, ChecksumsOfAMillionRecordsAreThePublishedOnes) {
  EXPECT_EQ(checksum(BenchmarkKind::binary, 1'000'000), 0x7a0e0d4868cd4u);
  EXPECT_EQ(checksum(BenchmarkKind::ascii, 1'000'000), 0x7a19cff467438u);
}

TEST(SortBenchmark, PiecesEqualTheWhole) {
  Random random(11);
  for (const auto kind : {BenchmarkKind::binary, BenchmarkKind::ascii}) {
    for (const uint64_t base : {uint64_t{0}, uint64_t{1} << 40, ~uint64_t{0} - 300}) {
      const auto whole = records(kind, base, 200);
      for (int i = 0; i < 100; ++i) {
        const uint64_t first = random.below(200), count = random.below(201 - first);
        const auto piece = records(kind, base + first, count);
        ASSERT_TRUE(std::ranges::equal(
            piece, std::span(whole).subspan(first * benchmark_record_bytes, piece.size())));
      }
    }
  }
}

TEST(SortBenchmark, AsciiRecordsHaveTheirShape) {
  const auto data = records(BenchmarkKind::ascii, 0xABCDEF, 1);
  const std::string text(reinterpret_cast<const char*>(data.data()), data.size());
  EXPECT_EQ(text.substr(10, 36), "  00000000000000000000000000ABCDEF  ");
  EXPECT_EQ(text.substr(98), "\r\n");
  EXPECT_TRUE(
      std::ranges::all_of(text.substr(0, 98), [](char c) { return c >= 0x20 && c < 0x7f; }));
}

}  // namespace
}  // namespace penstock::generate
