// Test labels: nobody

#include "papers/ring_stream.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <thread>
#include <vector>

#include "base/random.h"
#include "memory/stream/mechanism_fixture.h"

namespace penstock::papers {
namespace {

constexpr size_t block_bytes = 16 * KiB;
constexpr size_t block_words = block_bytes / sizeof(uint64_t);

class RingStreamTest : public testing::TestWithParam<pool::Mechanism> {
 protected:
  // Returns false, and skips the test, if the kernel lacks the mechanism.
  bool open(const RingGroupOptions& options, uint32_t blocks) {
    auto pool = pool::Pool::open({.block_bytes = block_bytes,
                                  .blocks_max = blocks,
                                  .mechanism = GetParam(),
                                  .strict = true});
    if (!pool && pool.error().code == ErrorCode::unsupported) return false;
    EXPECT_TRUE(pool) << pool.error().message();
    rings_.reset();
    pool_ = std::move(*pool);
    auto rings = RingGroup::open(*pool_, options);
    if (!rings && rings.error().code == ErrorCode::unsupported) return false;
    EXPECT_TRUE(rings) << rings.error().message();
    rings_ = std::move(*rings);
    return true;
  }

  uint64_t* begin(uint32_t stream) { return reinterpret_cast<uint64_t*>(rings_->begin(stream)); }

  // Appends a word like a writer of that kind.
  struct Writer {
    uint64_t* at = nullptr;
    uint64_t words = 0;
  };
  void append(Writer& writer, uint32_t stream, Wrap wrap, uint64_t word) {
    if (writer.at == nullptr) {
      writer.at = begin(stream);
      if (wrap == Wrap::conditional) rings_->reset(stream);
    }
    if (wrap == Wrap::handler) {
      writer.at = reinterpret_cast<uint64_t*>(
                      RingGroup::store_first(reinterpret_cast<std::byte*>(writer.at), word)) +
                  1;
    } else {
      if (wrap == Wrap::conditional && writer.at == begin(stream) + block_words) {
        rings_->reset(stream);
        writer.at = begin(stream);
      }
      *writer.at++ = word;
      if (wrap == Wrap::mask)
        writer.at = begin(stream) + static_cast<size_t>(writer.at - begin(stream)) %
                                        (rings_->ring_bytes() / sizeof(uint64_t));
    }
    ++writer.words;
  }

  // Returns the words written, from the blocks in their order; returns the blocks.
  std::vector<uint64_t> contents(uint32_t stream, uint64_t words) {
    std::vector<uint64_t> all;
    for (const pool::BlockId block : rings_->take_blocks(stream)) {
      const auto* data = reinterpret_cast<const uint64_t*>(pool_->home(block));
      all.insert(all.end(), data, data + block_words);
      pool_->give(block);
    }
    EXPECT_EQ(all.size(), (words + block_words - 1) / block_words * block_words);
    all.resize(std::min<size_t>(all.size(), words));
    return all;
  }

  std::unique_ptr<pool::Pool> pool_;
  std::unique_ptr<RingGroup> rings_;
};

TEST_P(RingStreamTest, EveryWrapKeepsAllBlocksInOrder) {
  constexpr uint64_t seed = 20261121;
  constexpr uint32_t streams = 5;
  for (const Wrap wrap : {Wrap::conditional, Wrap::handler, Wrap::mask}) {
    SCOPED_TRACE("wrap " + std::to_string(static_cast<int>(wrap)) + ", seed " +
                 std::to_string(seed));
    if (!open({.streams = streams, .wrap = wrap}, 100)) GTEST_SKIP() << "not on this system";
    Random random(seed);
    Writer writers[streams];
    std::vector<std::vector<uint64_t>> model(streams);
    for (size_t i = 0; i < 40 * block_words; ++i) {
      // Stream 4 stays empty; stream 3 gets a whole number of blocks.
      const auto stream = static_cast<uint32_t>(
          model[3].size() < 3 * block_words ? random.below(4) : random.below(3));
      const uint64_t word = random.next();
      append(writers[stream], stream, wrap, word);
      model[stream].push_back(word);
    }
    for (uint32_t stream = 0; stream < streams; ++stream)
      EXPECT_EQ(contents(stream, writers[stream].words), model[stream]) << stream;
    EXPECT_EQ(pool_->blocks_free(), 100u);
  }
}

TEST_P(RingStreamTest, BlocksGoBackWithTheGroup) {
  if (!open({.streams = 3}, 20)) GTEST_SKIP() << "not on this system";
  Writer writers[3];
  for (uint32_t stream = 0; stream < 3; ++stream) {
    for (size_t i = 0; i < (stream + 1) * block_words + 1; ++i)
      append(writers[stream], stream, Wrap::mask, i);
  }
  EXPECT_EQ(pool_->blocks_free(), 20u - (2 + 3 + 4));
  rings_.reset();
  EXPECT_EQ(pool_->blocks_free(), 20u);
}

// Threads claim pieces of shared streams, as in Algorithm 6. One of them stops early: the others do
// not wait for it.
TEST_P(RingStreamTest, SeveralThreadsShareStreams) {
  constexpr unsigned threads = 3;
  constexpr uint32_t streams = 4;
  constexpr size_t piece_words = 64;
  constexpr uint64_t seed = 4711;
  SCOPED_TRACE(seed);
  if (!open({.streams = streams, .threads = threads}, 200)) GTEST_SKIP() << "not on this system";
  std::atomic<uint64_t> lengths[streams] = {};
  std::vector<std::vector<uint64_t>> written(threads);
  {
    std::vector<std::jthread> workers;
    for (unsigned t = 0; t < threads; ++t) {
      workers.emplace_back([&, t] {
        Random random(seed + t);
        const size_t pieces = t == 0 ? 50 : 1000;
        for (size_t i = 0; i < pieces; ++i) {
          const auto stream = static_cast<uint32_t>(random.below(streams));
          const uint64_t at = lengths[stream].fetch_add(piece_words);
          uint64_t* const to = begin(stream) + at % (rings_->ring_bytes() / sizeof(uint64_t));
          for (size_t k = 0; k < piece_words; ++k) {
            const uint64_t word = random.next();
            to[k] = word;
            written[t].push_back(word);
          }
        }
        rings_->leave();
      });
    }
  }
  std::vector<uint64_t> expected, found;
  for (const auto& words : written) expected.insert(expected.end(), words.begin(), words.end());
  for (uint32_t stream = 0; stream < streams; ++stream) {
    const auto words = contents(stream, lengths[stream]);
    found.insert(found.end(), words.begin(), words.end());
  }
  std::sort(expected.begin(), expected.end());
  std::sort(found.begin(), found.end());
  EXPECT_EQ(found, expected);
  EXPECT_EQ(pool_->blocks_free(), 200u);
}

TEST_P(RingStreamTest, BadOptionsAreRefused) {
  auto pool = pool::Pool::open({.block_bytes = block_bytes, .blocks_max = 4});
  ASSERT_TRUE(pool);
  for (const RingGroupOptions& options :
       {RingGroupOptions{.streams = 0}, RingGroupOptions{.threads = 0},
        RingGroupOptions{.wrap = Wrap::conditional, .threads = 2}}) {
    const auto rings = RingGroup::open(**pool, options);
    ASSERT_FALSE(rings);
    EXPECT_EQ(rings.error().code, ErrorCode::invalid_argument);
  }
}

// A forked child has no regions, so a death test must run the program anew.
class RingStreamDeathTest : public RingStreamTest {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_P(RingStreamDeathTest, ReadingCrashes) {
  if (!open({.streams = 2}, 8)) GTEST_SKIP() << "not on this system";
  EXPECT_DEATH((void)*static_cast<const volatile uint64_t*>(begin(1)), "");
}

TEST_P(RingStreamDeathTest, AnEmptyPoolStopsTheProgramWithAMessage) {
  if (!open({.streams = 1, .wrap = Wrap::conditional}, 1)) GTEST_SKIP() << "not on this system";
  rings_->reset(0);
  EXPECT_DEATH(rings_->reset(0), "no free block left");
}

INSTANTIATE_TEST_SUITE_P(Mechanisms, RingStreamTest, every_mechanism, name_of_mechanism);
INSTANTIATE_TEST_SUITE_P(Mechanisms, RingStreamDeathTest,
                         testing::Values(pool::Mechanism::mremap, pool::Mechanism::uffd_move),
                         name_of_mechanism);

}  // namespace
}  // namespace penstock::papers
