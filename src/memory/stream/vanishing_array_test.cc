// Test labels: templates

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/random.h"
#include "memory/fault/registry.h"
#include "memory/pool/pinned_page_fixture.h"
#include "memory/stream/mechanism_fixture.h"
#include "penstock/region.h"
#include "penstock/stream.h"

namespace penstock {
namespace {

class VanishingArrayOn : public OnBlockPool {
 protected:
  static VanishingArray open(const BlockPool& pool, VanishingArray::Options options = {}) {
    if (options.bytes == 0) options.bytes = 1 * TiB;
    auto array = VanishingArray::open(pool, options);
    EXPECT_TRUE(array) << array.error().message();
    return std::move(*array);
  }
  static void write(VanishingArray& array, uint64_t from, uint64_t to, uint64_t salt = 0) {
    for (uint64_t i = from; i < to; ++i) array.begin<uint64_t>()[i] = mix64(i ^ salt);
  }
  static uint64_t wrong(VanishingArray& array, uint64_t from, uint64_t to, uint64_t salt = 0) {
    uint64_t count = 0;
    for (uint64_t i = from; i < to; ++i)
      count += read(array.begin<uint64_t>() + i) != mix64(i ^ salt);
    return count;
  }
};

INSTANTIATE_TEST_SUITE_P(Mechanisms, VanishingArrayOn, every_mechanism, name_of_mechanism);

TEST_P(VanishingArrayOn, ABlockWithAPinnedPageIsReturnedLater) {
  const BlockPool pool = open_pool(3);
  VanishingArray array = open(pool, {.comeback_blocks = 0});
  write(array, 0, 2 * block_items);
  EXPECT_EQ(wrong(array, 0, 2 * block_items), 0u);
  {
    const pool::PinnedPage pinned(array.begin<std::byte>() + block);
    if (!pinned.is_pinned()) GTEST_SKIP() << "no registered buffers here";
    array.clear();
  }
  array.clear();
  EXPECT_EQ(pool.blocks_free(), 3u);
  write(array, 0, block_items);
  const pool::PinnedPage pinned(array.begin<std::byte>());
  array = open(pool);
  EXPECT_GE(pool.blocks_free(), 2u);
}

TEST_P(VanishingArrayOn, FillsOnWritesAndEmptiesItselfBehindTheReader) {
  const BlockPool pool = open_pool(20);
  VanishingArray array = open(pool);
  write(array, 0, 20 * block_items);
  EXPECT_EQ(array.blocks_held(), 20u);
  EXPECT_EQ(pool.blocks_free(), 0u);
  for (uint64_t i = 0; i < 20; ++i) {
    EXPECT_EQ(wrong(array, i * block_items, (i + 1) * block_items), 0u);
    // The last two were never guarded, and one more may be read again.
    EXPECT_EQ(array.blocks_held(), 20 - (std::clamp<uint64_t>(i, 1, 17) - 1)) << i;
  }
  array.clear();
  EXPECT_EQ(pool.blocks_free(), 20u);
}

TEST_P(VanishingArrayOn, MemoryMovesFromOneArrayToAnother) {
  constexpr uint64_t blocks = 40;
  const BlockPool pool = open_pool(blocks + 6);
  VanishingArray from = open(pool), to = open(pool);
  write(from, 0, blocks * block_items);
  for (int round = 0; round < 3; ++round) {
    for (uint64_t i = 0; i < blocks * block_items; ++i)
      to.begin<uint64_t>()[i] = read(from.begin<uint64_t>() + i);
    EXPECT_LE(pool.memory_bytes(), (blocks + 6) * block);
    from.clear();
    std::swap(from, to);
  }
  EXPECT_EQ(wrong(from, 0, blocks * block_items), 0u);
}

TEST_P(VanishingArrayOn, CanBeFilledAgainWhileItIsRead) {
  constexpr uint64_t items = 12 * block_items;
  const BlockPool pool = open_pool(20);
  VanishingArray array = open(pool);
  write(array, 0, items, 1);
  for (uint64_t round = 1; round < 5; ++round) {
    EXPECT_EQ(wrong(array, 0, items / 2, round), 0u);
    write(array, 0, 3 * block_items, round + 1);  // the next filling, behind the reader
    EXPECT_EQ(wrong(array, items / 2, items, round), 0u);
    write(array, 3 * block_items, items, round + 1);
    EXPECT_LE(array.blocks_held(), 16u);
  }
  EXPECT_EQ(wrong(array, 0, items, 5), 0u);
}

TEST_P(VanishingArrayOn, AQueueOfAnyLengthLivesInAFewBlocks) {
  const BlockPool pool = open_pool(7);
  VanishingArray array = open(pool);
  for (uint64_t i = 0; i < 400 * block_items; ++i) {
    array.begin<uint64_t>()[i] = i;
    if (i >= 2 * block_items) {
      ASSERT_EQ(read(array.begin<uint64_t>() + i - 2 * block_items), i - 2 * block_items);
    }
  }
  EXPECT_LE(pool.memory_bytes(), 7 * block);
}

TEST_P(VanishingArrayOn, WritersComeBackAnywhereAndReadersWithinTheirLimit) {
  const BlockPool pool = open_pool(30);
  VanishingArray array = open(pool, {.comeback_blocks = 3});
  write(array, 0, 25 * block_items);
  for (uint64_t at : {0, 20, 7}) array.begin<uint64_t>()[at * block_items] = at + 1;
  for (uint64_t at : {0, 3, 0, 7, 4, 7, 20, 17})
    EXPECT_EQ(read(array.begin<uint64_t>() + at * block_items),
              at == 0 || at == 7 || at == 20 ? at + 1 : mix64(at * block_items));
}

TEST_P(VanishingArrayOn, AccessesThatStraddleBlocksNeedNoComeback) {
  // This holds for writes; a reader needs M = 1.
  struct [[gnu::packed]] Word {
    uint64_t value;
  };
  const BlockPool pool = open_pool(30);
  VanishingArray array = open(pool, {.comeback_blocks = 0});
  for (uint64_t i = 1; i < 20; ++i)
    reinterpret_cast<Word*>(array.begin() + i * block - 3)->value = i;
  VanishingArray other = open(pool, {.comeback_blocks = 1});
  for (uint64_t i = 1; i < 9; ++i)
    reinterpret_cast<Word*>(other.begin() + i * block - 3)->value = i;
  for (uint64_t i = 1; i < 9; ++i) {
    const volatile Word* const word = reinterpret_cast<Word*>(other.begin() + i * block - 3);
    EXPECT_EQ(uint64_t{word->value}, i);
  }
}

// Several arrays on one pool, written, read and refilled in pieces of any size; the model knows the
// contents, and the most blocks held.
TEST_P(VanishingArrayOn, RandomizedUseMatchesTheModel) {
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE(seed);
  Random random(seed);
  struct Tried {
    VanishingArray array;
    uint64_t comeback;
    uint64_t filling = 0, written = 0, done = 0;  // the present filling, in items
  };
  constexpr uint64_t blocks_each = 16;
  const BlockPool pool = open_pool(3 * (blocks_each + 1));
  for (int round = 0; round < 10; ++round) {
    std::vector<Tried> all;
    for (int i = 0; i < 3; ++i) {
      const uint64_t comeback = random.below(4);
      all.push_back({open(pool, {.comeback_blocks = static_cast<uint32_t>(comeback)}), comeback});
    }
    for (int step = 0; step < 150; ++step) {
      Tried& one = all[random.below(all.size())];
      const uint64_t limit = blocks_each * block_items;
      if (one.done == one.written && random.below(4) == 0) {  // read to the end: fill again
        if (random.below(3) == 0) one.array.clear();
        ++one.filling;
        one.written = one.done = 0;
      }
      if (random.below(2) == 0 && one.written < limit) {
        const uint64_t to = std::min(limit, one.written + random.below(3 * block_items));
        write(one.array, one.written, to, one.filling);
        one.written = to;
      } else if (one.done < one.written) {
        const uint64_t from =
            one.done -
            std::min(one.done, one.comeback > 0 ? random.below(one.comeback * block_items) : 0);
        const uint64_t to =
            one.done + 1 + random.below(std::min(one.written - one.done, 3 * block_items));
        ASSERT_EQ(wrong(one.array, from, to, one.filling), 0u);
        one.done = std::max(one.done, to);
        // Blocks left, blocks that may be touched again, and late blocks of both windows.
        const uint64_t left = one.written / block_items - one.done / block_items + 1;
        EXPECT_LE(one.array.blocks_held(), std::max(blocks_each, left + 3 * one.comeback + 3));
      }
    }
    uint32_t held = 0;
    for (const Tried& one : all) held += one.array.blocks_held();
    EXPECT_EQ(pool.blocks_free() + held, pool.blocks());
  }
  EXPECT_EQ(pool.blocks_free(), pool.blocks());
}

TEST_P(VanishingArrayOn, ArraysOfSeveralThreadsShareAPool) {
  const BlockPool pool = open_pool(40);
  std::vector<std::jthread> threads;
  std::vector<uint64_t> bad(3, 1);
  for (uint64_t t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      VanishingArray array = open(pool);
      bad[t] = 0;
      for (uint64_t round = 0; round < 10; ++round) {
        write(array, 0, 8 * block_items, t * 100 + round);
        bad[t] += wrong(array, 0, 8 * block_items, t * 100 + round);
      }
    });
  }
  threads.clear();
  EXPECT_EQ(bad, std::vector<uint64_t>(3, 0));
  EXPECT_EQ(pool.blocks_free(), 40u);
}

TEST_P(VanishingArrayOn, StopsBehindTheReaderWithAClearMessage) {
  EXPECT_DEATH(
      {
        VanishingArray array = open(open_pool(20), {.name = "keys"});
        write(array, 0, 15 * block_items);
        (void)wrong(array, 0, 10 * block_items);
        read(array.begin<uint64_t>() + 3 * block_items);
      },
      "keys.*read block 3: .*reader came to block 9 .comeback_blocks is 1");
}

// Reading the first block that is still mapped begins no new pass.
TEST_P(VanishingArrayOn, ReportsThatAVanishedBlockWasGivenBack) {
  VanishingArray array = open(open_pool(20), {.comeback_blocks = 3});
  write(array, 0, 11 * block_items);
  EXPECT_EQ(wrong(array, 0, 6 * block_items), 0u);  // blocks 0 and 1 have vanished
  write(array, 6 * block_items, 7 * block_items);   // block 2 is guarded
  EXPECT_EQ(wrong(array, 2 * block_items, 3 * block_items), 0u);
  const Status gone = array.prepare_read(array.begin() + block, 1);
  ASSERT_FALSE(gone);
  EXPECT_NE(gone.error().message().find("it was given back"), std::string::npos)
      << gone.error().message();
}

TEST_P(VanishingArrayOn, StopsWhenThePoolIsEmpty) {
  EXPECT_DEATH(
      {
        VanishingArray array = open(open_pool(3), {.name = "keys"});
        write(array, 0, 15 * block_items);
      },
      "keys.*write block 3: none of the pool's 3 blocks is free .this array has 3");
}

TEST_P(VanishingArrayOn, RecoversFromAnEmptyPoolAndFromReadingNothing) {
  const BlockPool pool = open_pool(3);
  VanishingArray array = open(pool, {.policy = ErrorPolicy::recover});
  auto written = RecoveryPoint::run([&] { write(array, 0, 15 * block_items); });
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().code, ErrorCode::out_of_memory);
  auto nothing = RecoveryPoint::run([&] { read(array.begin<uint64_t>() + 9 * block_items); });
  ASSERT_FALSE(nothing);
  EXPECT_EQ(nothing.error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(wrong(array, 0, 3 * block_items), 0u);
}

TEST_P(VanishingArrayOn, PreparedPiecesServeSystemCalls) {
  const BlockPool pool = open_pool(8);
  VanishingArray array = open(pool, {.comeback_blocks = 2});
  const int zeros = ::open("/dev/zero", O_RDONLY | O_CLOEXEC);
  const int sink = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  EXPECT_TRUE(array.prepare_write(array.begin() + block / 2, 2 * block));
  EXPECT_EQ(::read(zeros, array.begin() + block / 2, 2 * block), ssize_t{2 * block});
  write(array, 3 * block_items, 8 * block_items);
  EXPECT_TRUE(array.prepare_read(array.begin() + block / 2, 2 * block));
  EXPECT_EQ(::write(sink, array.begin() + block / 2, 2 * block), ssize_t{2 * block});
  EXPECT_EQ(array.prepare_read(array.begin(), 4 * block).error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(array.prepare_write(array.begin() + 8 * block, 1).error().code,
            ErrorCode::out_of_memory);
  close(zeros);
  close(sink);

  fault::Handler* const handler = fault::find(array.begin());
  ASSERT_NE(handler, nullptr);
  EXPECT_EQ(handler->prepare(array.begin() + 100, 20 * block, fault::Access::read),
            3 * block - 100);
  EXPECT_FALSE(handler->prepare(array.begin() + 8 * block, 1, fault::Access::read));
}

TEST(VanishingArray, PreparesNothingBehindItsEnd) {
  auto memory = BlockPool::open({.block_bytes = 2 * MiB, .blocks = 8});
  ASSERT_TRUE(memory);
  auto array = VanishingArray::open(*memory, {.bytes = 2 * MiB, .comeback_blocks = 3});
  ASSERT_TRUE(array);
  EXPECT_EQ(system_calls::prepare_write(array->begin(), 8 * MiB), 2 * MiB);
}

TEST(VanishingArray, RefusesInvalidOptions) {
  auto pool = BlockPool::open({.block_bytes = block, .blocks = 1});
  ASSERT_TRUE(pool);
  for (VanishingArray::Options options :
       {VanishingArray::Options{}, VanishingArray::Options{.bytes = 129 * TiB},
        VanishingArray::Options{.bytes = 1, .policy = ErrorPolicy::zeros}})
    EXPECT_EQ(VanishingArray::open(*pool, options).error().code, ErrorCode::invalid_argument);
}

}  // namespace
}  // namespace penstock
