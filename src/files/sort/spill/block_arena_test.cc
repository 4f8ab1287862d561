#include "files/sort/spill/block_arena.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <numeric>
#include <set>
#include <thread>

#include "base/random.h"
#include "penstock/base.h"

namespace penstock::external {
namespace {

constexpr size_t block_bytes = 4096;

TEST(BlockArena, AcquiresEachBlockOnceAndUsedOnesFirst) {
  BlockArena arena;
  ASSERT_TRUE(arena.open(10 * block_bytes, block_bytes));
  EXPECT_EQ(arena.blocks(), 10u);
  std::set<uint32_t> acquired;
  for (int i = 0; i < 4; ++i) acquired.insert(arena.acquire());
  EXPECT_EQ(acquired.size(), 4u);
  EXPECT_EQ(arena.blocks_free(), 6u);
  arena.release(2);
  EXPECT_EQ(arena.acquire(), 2u);
  for (int i = 0; i < 6; ++i) acquired.insert(arena.acquire());
  EXPECT_EQ(acquired.size(), 10u);
  EXPECT_EQ(arena.acquire(), BlockArena::no_block);
  ASSERT_TRUE(arena.open(10 * block_bytes, 2 * block_bytes));
  EXPECT_EQ(arena.blocks_free(), 5u);
}

TEST(BlockArena, ArrangesBlocksInAnyOrder) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    auto blocks = static_cast<uint32_t>(2 + random.below(30));
    BlockArena arena;
    ASSERT_TRUE(arena.open(blocks * block_bytes, block_bytes));
    for (uint32_t i = 0; i < blocks; ++i) std::memset(arena.block(i), int(i) + 1, block_bytes);
    std::vector<uint32_t> order(blocks);
    std::iota(order.begin(), order.end(), 0u);
    for (size_t i = order.size() - 1; i > 0; --i) std::swap(order[i], order[random.below(i + 1)]);
    if (seed % 3 == 0) std::sort(order.begin(), order.end());
    order.resize(random.below(blocks));  // at least one is left over
    // Gaps are inserted as far as there is room.
    std::vector<uint32_t> wanted;
    for (uint32_t block : order) {
      bool room = blocks - wanted.size() > order.size();
      if (room && random.below(3) == 0) wanted.push_back(BlockArena::no_block);
      if (wanted.size() < blocks) wanted.push_back(block);
    }
    if (seed % 2 == 0) std::erase(wanted, BlockArena::no_block);
    arena.arrange(wanted);
    for (uint32_t i = 0; i < wanted.size(); ++i) {
      if (wanted[i] == BlockArena::no_block) continue;
      EXPECT_EQ(int(arena.block(i)[0]), int(wanted[i]) + 1);
      EXPECT_EQ(int(arena.block(i)[block_bytes - 1]), int(wanted[i]) + 1);
    }
  }
}

TEST(BlockArena, KeepsItsMemoryWhileItsSizeIsTheSame) {
  BlockArena arena;
  ASSERT_TRUE(arena.open(10 * block_bytes, block_bytes));
  std::memset(arena.begin(), 7, arena.bytes());
  ASSERT_TRUE(arena.open(10 * block_bytes, 5 * block_bytes));
  EXPECT_EQ(arena.bytes(), 10 * block_bytes);
  EXPECT_EQ(int(arena.block(1)[0]), 7);
  ASSERT_TRUE(arena.open(20 * block_bytes, block_bytes));
  EXPECT_EQ(arena.blocks_free(), 20u);
  EXPECT_EQ(int(arena.block(0)[0]), 0) << "fresh memory";
  arena.close();
  EXPECT_EQ(arena.bytes(), 0u);
}

// The thread stops in the middle, or ends by itself: memory is unchanged either way.
TEST(BlockArena, TouchingKeepsWhatBlocksHold) {
  constexpr uint64_t bytes = 16 * MiB;
  BlockArena arena;
  for (bool to_the_end : {false, true}) {
    ASSERT_TRUE(arena.open(bytes + (to_the_end ? 0 : block_bytes), block_bytes));
    std::jthread toucher = arena.start_touching(arena.bytes());
    for (uint32_t i = arena.blocks(); i-- > 0;) std::memset(arena.block(i), int(i % 251), 100);
    if (to_the_end) toucher.join();
    for (uint32_t i = 0; i < arena.blocks(); ++i) ASSERT_EQ(int(arena.block(i)[99]), int(i % 251));
  }
}

TEST(RegionRing, RegionsNeverOverlapAndTheRingNeverStarves) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const uint64_t size = 1 + random.below(100);
    RegionRing ring(size);
    struct Region {
      uint64_t begin, end;
    };
    std::deque<Region> held;
    for (int step = 0; step < 2000; ++step) {
      uint64_t bytes = 1 + random.below(random.below(4) == 0 ? size : (size + 3) / 4);
      bool room = ring.has_room(bytes);
      auto begin = ring.allocate(bytes);
      ASSERT_EQ(begin.has_value(), room);
      if (begin) {
        ASSERT_LE(*begin + bytes, size);
        for (const Region& other : held)
          ASSERT_TRUE(*begin >= other.end || *begin + bytes <= other.begin);
        held.push_back({*begin, *begin + bytes});
      } else {
        ASSERT_FALSE(held.empty()) << "an empty ring has room for everything";
      }
      while (!held.empty() && (!begin || random.below(3) == 0)) {
        size_t which = random.below(held.size());
        ring.release(held[which].begin);
        held.erase(held.begin() + static_cast<ptrdiff_t>(which));
        if (!begin && ring.has_room(bytes)) break;
      }
    }
    while (!held.empty()) {
      ring.release(held.front().begin);
      held.pop_front();
    }
    EXPECT_TRUE(ring.empty());
  }
}

}  // namespace
}  // namespace penstock::external
