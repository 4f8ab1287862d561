// Damage to a temporary is found, whatever the pieces of writing and reading; undamaged data are
// never reported as damaged.

#include "io/block_checks.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <vector>

#include "base/random.h"
#include "io/crc32c.h"
#include "io/engine.h"
#include "penstock/base.h"

namespace penstock::io {
namespace {

std::vector<std::byte> random_bytes(Random& random, size_t bytes) {
  std::vector<std::byte> data(bytes);
  for (size_t i = 0; i < bytes; i += 8) {
    const uint64_t next = random.next();
    std::memcpy(data.data() + i, &next, std::min<size_t>(8, bytes - i));
  }
  return data;
}

// Returns the CRC with the usual complements, as in the examples of RFC 3720.
uint32_t usual(const std::vector<std::byte>& data) {
  return ~(crc32c(data.data(), data.size()) ^ crc32c_moved(~0u, data.size()));
}

TEST(Crc32c, IsTheOneOfTheBooks) {
  std::vector<std::byte> digits;
  for (const char c : {'1', '2', '3', '4', '5', '6', '7', '8', '9'})
    digits.push_back(static_cast<std::byte>(c));
  EXPECT_EQ(usual(digits), 0xe3069283u);
  EXPECT_EQ(usual(std::vector<std::byte>(32)), 0x8a9136aau);
  EXPECT_EQ(usual(std::vector(32, std::byte{0xff})), 0x62a8ab43u);
}

TEST(Crc32c, IsTheSameByEveryWayAndInPieces) {
  Random random(1);
  const auto data = random_bytes(random, 40'000);
  for (int round = 0; round < 300; ++round) {
    const size_t begin = random.below(64);
    const size_t bytes = random.below(round % 2 == 0 ? 100 : data.size() - begin);
    const size_t first = random.below(bytes + 1);
    const uint32_t whole = crc32c(data.data() + begin, bytes);
    EXPECT_EQ(whole, crc32c_portable(data.data() + begin, bytes));
    EXPECT_EQ(whole, crc32c_moved(crc32c(data.data() + begin, first), bytes - first) ^
                         crc32c(data.data() + begin + first, bytes - first));
  }
}

struct Read {
  uint64_t offset = 0;
  size_t bytes = 0;
  BlockChecks::PartialReadIds ids = {};
};

// Reads everything in pieces, which end in any order. Returns the number of damaged reads.
int read_in_order(BlockChecks& checks, const std::vector<std::byte>& data, Random& random,
                  size_t piece_bytes_max) {
  int damaged_reads = 0;
  std::vector<Read> in_flight;
  for (uint64_t offset = 0; offset < data.size() || !in_flight.empty();) {
    if (offset < data.size() && in_flight.size() < 4) {
      const size_t bytes = std::min(1 + random.below(piece_bytes_max), data.size() - offset);
      in_flight.push_back({offset, bytes, checks.begin_read(offset, bytes)});
      offset += bytes;
      continue;
    }
    const size_t ended = random.below(in_flight.size());
    const Read read = in_flight[ended];
    in_flight.erase(in_flight.begin() + static_cast<ptrdiff_t>(ended));
    damaged_reads += !checks.end_read(read.offset, data.data() + read.offset, read.bytes, read.ids);
  }
  return damaged_reads;
}

TEST(BlockChecks, NoticesOneBitForAnyPieces) {
  Random random(2);
  for (int round = 0; round < 60; ++round) {
    SCOPED_TRACE(round);
    auto data = random_bytes(random, 1 + random.below(300'000));
    BlockChecks checks(round % 3 == 0 ? 0 : size_t{4096} << random.below(5));
    for (uint64_t offset = 0; offset < data.size();) {
      const size_t bytes = std::min(1 + random.below(50'000), data.size() - offset);
      checks.wrote(offset, data.data() + offset, bytes);
      offset += bytes;
    }
    const size_t piece_bytes = random.below(2) == 0 ? 3000 : 90'000;
    EXPECT_EQ(read_in_order(checks, data, random, piece_bytes), 0);
    // Reads some part, and then everything once more.
    const uint64_t from = random.below(data.size());
    const size_t bytes = 1 + random.below(data.size() - from);
    const auto ids = checks.begin_read(from, bytes);
    EXPECT_TRUE(checks.end_read(from, data.data() + from, bytes, ids));
    EXPECT_EQ(read_in_order(checks, data, random, piece_bytes), 0);
    EXPECT_FALSE(checks.damage());

    const uint64_t bit = random.below(data.size() * 8);
    data[bit / 8] ^= std::byte{1} << (bit % 8);
    EXPECT_EQ(read_in_order(checks, data, random, piece_bytes), 1);
    ASSERT_TRUE(checks.damage());
    EXPECT_LE(checks.damage()->offset, bit / 8);
    EXPECT_GT(checks.damage()->offset + checks.damage()->bytes, bit / 8);
  }
}

// Sorted runs that lie one behind the other in one file are merged like this.
TEST(BlockChecks, StreamsThatMeetWithinABlockAreOneRead) {
  Random random(5);
  auto data = random_bytes(random, 500'000);
  BlockChecks checks(64 * KiB);
  checks.wrote(0, data.data(), data.size());
  const auto merge = [&] {
    std::vector<uint64_t> at = {0, 70'001, 100'000, 100'500, 333'333};
    const std::vector<uint64_t> ends = {70'001, 100'000, 100'500, 333'333, data.size()};
    int damaged_reads = 0;
    for (;;) {
      std::vector<size_t> left;
      for (size_t i = 0; i < at.size(); ++i) {
        if (at[i] < ends[i]) left.push_back(i);
      }
      if (left.empty()) return damaged_reads;
      const size_t i = left[random.below(left.size())];
      const size_t bytes = std::min<uint64_t>(4096 - at[i] % 4096, ends[i] - at[i]);
      const auto ids = checks.begin_read(at[i], bytes);
      damaged_reads += !checks.end_read(at[i], data.data() + at[i], bytes, ids);
      at[i] += bytes;
    }
  };
  EXPECT_EQ(merge(), 0);
  for (const size_t place : {70'000, 70'001, 100'200, 333'332, 499'999}) {
    data[place] ^= std::byte{8};
    EXPECT_EQ(merge(), 1);
    data[place] ^= std::byte{8};
  }
  EXPECT_EQ(merge(), 0);
}

// The list of a file of unknown length does not grow with it.
TEST(BlockChecks, BlocksBecomeLargerWithTheFile) {
  Random random(3);
  constexpr size_t pieces = 300;
  auto data = random_bytes(random, pieces * MiB * 9 / 10);
  BlockChecks checks(0);
  for (uint64_t offset = 0; offset < data.size(); offset += MiB)
    checks.wrote(offset, data.data() + offset, std::min<size_t>(MiB, data.size() - offset));
  EXPECT_EQ(checks.block(0).bytes, 4 * MiB) << "of at most 128";
  EXPECT_EQ(checks.block(128).bytes, 0u);
  EXPECT_EQ(read_in_order(checks, data, random, 4 * MiB), 0);
  data[data.size() / 3] ^= std::byte{4};
  EXPECT_EQ(read_in_order(checks, data, random, 4 * MiB), 1);
}

class ChecksOfFiles : public testing::TestWithParam<EngineKind> {};

TEST_P(ChecksOfFiles, ARequestForDamagedBytesFailsWithTheirPlace) {
  const std::string directory = std::filesystem::temp_directory_path();
  auto file = File::create_temporary(directory);
  ASSERT_TRUE(file) << file.error().message();
  constexpr size_t block_bytes = 64 * KiB;
  file->keep_checks(block_bytes);
  File moved = std::move(*file);
  Random random(4);
  auto data = random_bytes(random, 4 * block_bytes);
  auto engine = Engine::open({.depth = 4, .kind = GetParam()});
  if (!engine) GTEST_SKIP() << engine.error().message();
  Request request{
      .operation = Operation::write, .file = &moved, .data = data.data(), .bytes = data.size()};
  (*engine)->submit(request);
  (*engine)->wait(request);
  ASSERT_EQ(request.error, 0);
  request.operation = Operation::read;
  (*engine)->submit(request);
  (*engine)->wait(request);
  EXPECT_EQ(request.error, 0);

  const std::byte changed = data[3 * block_bytes - 1] ^ std::byte{1};
  ASSERT_EQ(::pwrite(moved.buffered_descriptor(), &changed, 1, 3 * block_bytes - 1), 1);
  (*engine)->submit(request);
  (*engine)->wait(request);
  EXPECT_EQ(request.error, damaged);
  const Error error = error_of(request);
  EXPECT_EQ(error.code, ErrorCode::corrupt);
  EXPECT_EQ(error.subject, directory);
  EXPECT_NE(error.message().find("the 65536 bytes at offset 131072"), std::string::npos)
      << error.message();
  EXPECT_FALSE(read_exactly(moved, 2 * block_bytes, data.data(), block_bytes));
  EXPECT_TRUE(read_exactly(moved, 3 * block_bytes, data.data(), block_bytes));
}

INSTANTIATE_TEST_SUITE_P(Engines, ChecksOfFiles,
                         testing::Values(EngineKind::io_uring, EngineKind::threads),
                         [](const auto& kind) {
                           return kind.param == EngineKind::threads ? "threads" : "io_uring";
                         });

}  // namespace
}  // namespace penstock::io
