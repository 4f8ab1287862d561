#include "external/split/block_keeper.h"

#include <gtest/gtest.h>

#include <cstring>

#include "external/plan/bucket_plan.h"

namespace penstock::external {
namespace {

// Nothing is kept, so that every full block is written.
class KeepingNothing : public testing::Test {
 protected:
  static constexpr uint32_t blocks = 8;

  uint64_t written_until_it_fails(uint64_t written_blocks_max, uint64_t full_blocks) {
    BlockArena arena;
    EXPECT_TRUE(arena.open(blocks * block_bytes_min, block_bytes_min));
    const SpillPlace place = {.directories = {testing::TempDir()}};
    BlockKeeper keeper({.write_blocks = blocks - 1, .written_blocks_max = written_blocks_max},
                       place, arena);
    EXPECT_TRUE(keeper.open());
    for (uint64_t i = 0; i <= full_blocks; ++i)
      std::memset(keeper.next_block(0), 1, block_bytes_min);
    keeper.close(0, block_bytes_min);
    auto split = keeper.finish([](uint32_t) { return std::nullopt; });
    error_ = split ? std::nullopt : std::optional(split.error());
    return split ? split->buckets[0].spilled.size() : 0;
  }

  std::optional<Error> error_;
};

TEST_F(KeepingNothing, WritesWhatThePlanHasListsFor) {
  EXPECT_EQ(written_until_it_fails(20, 19), 20u);
  EXPECT_FALSE(error_);
}

TEST_F(KeepingNothing, MoreThanThatIsAnError) {
  EXPECT_EQ(written_until_it_fails(20, 20), 0u);
  ASSERT_TRUE(error_);
  EXPECT_EQ(error_->code, ErrorCode::out_of_memory);
}

}  // namespace
}  // namespace penstock::external
