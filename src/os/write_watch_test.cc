#include "os/write_watch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "os/memfd.h"
#include "os/memory.h"

namespace penstock::os {
namespace {

constexpr size_t pages = 4096;

class WriteWatchOn : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    auto watch = WriteWatch::open();
    if (!watch && watch.error().code == ErrorCode::unsupported)
      GTEST_SKIP() << watch.error().message();
    ASSERT_TRUE(watch) << watch.error().message();
    watch_ = std::move(*watch);
    auto memory = Reservation::reserve(pages * page_bytes);
    ASSERT_TRUE(memory);
    memory_ = std::move(*memory);
    if (GetParam()) {
      auto file = MemoryFile::create(memory_.bytes());
      ASSERT_TRUE(file);
      file_ = std::move(*file);
      ASSERT_EQ(file_.map(memory_.begin(), memory_.bytes(), 0, false), 0);
    } else {
      ASSERT_EQ(commit(memory_.begin(), memory_.bytes()), 0);
    }
    ASSERT_EQ(populate(memory_.begin(), memory_.bytes()), 0);
    ASSERT_EQ(watch_.watch(memory_.begin(), memory_.bytes()), 0);
  }

  // Returns which pages were written since the last call, read with room for `room` ranges.
  std::vector<bool> written(size_t room) {
    std::vector<bool> result(pages, false);
    std::vector<WriteWatch::Written> out(room);
    for (std::byte* at = memory_.begin(); at < memory_.end();) {
      size_t count = 0;
      EXPECT_EQ(watch_.take(at, memory_.end(), out, count), 0);
      for (size_t i = 0; i < count; ++i) {
        EXPECT_TRUE(memory_.contains(out[i].begin) && out[i].end <= at);
        for (std::byte* page = out[i].begin; page < out[i].end; page += page_bytes)
          result[static_cast<size_t>(page - memory_.begin()) / page_bytes] = true;
      }
    }
    return result;
  }

  WriteWatch watch_;
  MemoryFile file_;
  Reservation memory_;
};

INSTANTIATE_TEST_SUITE_P(Memory, WriteWatchOn, testing::Bool(),
                         [](const auto& test) { return test.param ? "shared" : "anonymous"; });

TEST_P(WriteWatchOn, AllCountsAsWrittenAtFirst) {
  const auto first = written(pages);
  EXPECT_TRUE(std::all_of(first.begin(), first.end(), [](bool w) { return w; }));
  const auto second = written(pages);
  EXPECT_TRUE(std::none_of(second.begin(), second.end(), [](bool w) { return w; }));
}

TEST_P(WriteWatchOn, ReportsExactlyTheWrittenPages) {
  (void)written(pages);
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  for (int round = 0; round < 200; ++round) {
    std::vector<bool> expected(pages, false);
    for (uint64_t left = random() % (round % 2 == 0 ? 10 : 3000); left > 0; --left) {
      const size_t page = random() % pages;
      const_cast<volatile std::byte&>(memory_.begin()[page * page_bytes + random() % page_bytes]) =
          std::byte(round);
      expected[page] = true;
    }
    ASSERT_EQ(written(1 + random() % 300), expected);
  }
}

TEST_P(WriteWatchOn, ReadsAreNotWrites) {
  (void)written(pages);
  for (size_t page = 0; page < pages; ++page) {
    [[maybe_unused]] const auto seen =
        static_cast<std::byte>(const_cast<volatile std::byte&>(memory_.begin()[page * page_bytes]));
  }
  const auto now = written(pages);
  EXPECT_TRUE(std::none_of(now.begin(), now.end(), [](bool w) { return w; }));
}

TEST_P(WriteWatchOn, ProtectionChangesNothing) {
  (void)written(pages);
  const_cast<volatile std::byte&>(memory_.begin()[5 * page_bytes]) = std::byte(1);
  ASSERT_EQ(protect(memory_.begin(), memory_.bytes(), Protection::read), 0);
  ASSERT_EQ(protect(memory_.begin(), memory_.bytes(), Protection::read_write), 0);
  const_cast<volatile std::byte&>(memory_.begin()[9 * page_bytes]) = std::byte(1);
  std::vector<bool> expected(pages, false);
  expected[5] = expected[9] = true;
  EXPECT_EQ(written(pages), expected);
}

}  // namespace
}  // namespace penstock::os
