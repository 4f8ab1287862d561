// Rules that every stream has for its options, however it is opened.

#include <gtest/gtest.h>
#include <unistd.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/failing_heap_fixture.h"
#include "penstock/file_stream.h"
#include "penstock/region.h"
#include "penstock/stream.h"

namespace penstock {
namespace {

template <class Opened>
Status status_of(const Result<Opened>& opened) {
  if (opened) return {};
  return std::unexpected(opened.error());
}

const std::string& output() {
  static const std::string path =
      testing::TempDir() + "penstock-options-" + std::to_string(getpid());
  return path;
}

BlockPool pool() {
  return BlockPool::open({.block_bytes = 64 * KiB, .blocks = 2}).value();
}

Result<size_t> give_nothing(std::span<std::byte>, uint64_t) {
  return 0;
}

using Open = std::function<Status(uint64_t bytes, size_t block_bytes)>;

std::vector<std::pair<const char*, Open>> streams() {
  return {
      {"RemapStream",
       [](uint64_t bytes, size_t block_bytes) {
         return status_of(RemapStream::open({.bytes = bytes, .block_bytes = block_bytes}));
       }},
      {"GuardStream",
       [](uint64_t bytes, size_t block_bytes) {
         return status_of(GuardStream::open({.bytes = bytes, .block_bytes = block_bytes}));
       }},
      {"ProcessStream",
       [](uint64_t bytes, size_t block_bytes) {
         return status_of(
             ProcessStream::open({.bytes = bytes, .block_bytes = block_bytes}, Side::producer));
       }},
      {"PullStream",
       [](uint64_t bytes, size_t block_bytes) {
         return status_of(
             PullStream::open({.bytes = bytes, .block_bytes = block_bytes}, give_nothing));
       }},
      {"FileWriter",
       [](uint64_t bytes, size_t block_bytes) {
         return status_of(
             FileWriter::open(output(), {.bytes_max = bytes, .block_bytes = block_bytes}));
       }},
  };
}

void expect_refused(const Status& status, const char* what, const std::string& option) {
  ASSERT_FALSE(status) << what;
  EXPECT_EQ(status.error().code, ErrorCode::invalid_argument) << what;
  EXPECT_NE(status.error().hint.find(option), std::string::npos)
      << what << ": " << status.error().message();
}

TEST(OptionsOfStreams, ALengthHasToBeGiven) {
  for (const auto& [name, open] : streams()) {
    expect_refused(open(0, 64 * KiB), name, "bytes");
    EXPECT_TRUE(open(1, 64 * KiB)) << name;
  }
  expect_refused(
      status_of(Region::open(pool(), {},
                             [](Region::Blocks&, const Region::Fault&) -> Status { return {}; })),
      "Region", "bytes");
  expect_refused(status_of(VanishingArray::open(pool(), {})), "VanishingArray", "bytes");
}

TEST(OptionsOfStreams, BlocksArePowersOfTwoUpToOneGiB) {
  const std::string file = "/proc/self/exe";
  for (const size_t block_bytes : {size_t{0}, size_t{2048}, size_t{3 * KiB}, size_t{96 * KiB},
                                   size_t{2 * GiB}, size_t{4 * GiB}, size_t{1} << 63}) {
    for (const auto& [name, open] : streams())
      expect_refused(open(1 * MiB, block_bytes), name, "block_bytes");
    expect_refused(status_of(FileReader::open(file, {.block_bytes = block_bytes})), "FileReader",
                   "block_bytes");
    expect_refused(status_of(BlockPool::open({.block_bytes = block_bytes, .blocks = 1})),
                   "BlockPool", "block_bytes");
  }
}

// Each allocation in opening and closing a stream fails once.
TEST(OptionsOfStreams, AnExhaustedHeapIsAnError) {
  if (!heap_can_fail) GTEST_SKIP() << "the heap is a sanitizer's";
  for (const auto& [name, open] : streams()) {
    int64_t failed = 0;
    for (bool reached = true; reached; ++failed) {
      const FailingAllocation failing(failed);
      const Status status = open(1 * MiB, 64 * KiB);
      reached = failing.failed();
      EXPECT_TRUE(status || status.error().code == ErrorCode::out_of_memory) << name;
    }
    EXPECT_GT(failed, 1) << name;
  }
}

}  // namespace
}  // namespace penstock
