#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/bits.h"
#include "base/random.h"
#include "memory/fault/registry.h"
#include "memory/stream/mechanism_fixture.h"
#include "os/alt_stack_fixture.h"
#include "os/sanitizer.h"
#include "penstock/stream.h"

namespace penstock {
namespace {

using Block = std::span<std::byte>;

// Fills items so that item i of every stream here is mix64(i).
void fill(Block bytes, uint64_t offset) {
  auto* const items = reinterpret_cast<uint64_t*>(bytes.data());
  for (size_t i = 0; i < bytes.size() / sizeof(uint64_t); ++i)
    items[i] = mix64(offset / sizeof(uint64_t) + i);
}
Result<size_t> count_up(Block bytes, uint64_t offset) {
  fill(bytes, offset);
  return bytes.size();
}
// A producer of such items that ends at `bytes`.
auto ends_at(uint64_t bytes) {
  return [bytes](Block to, uint64_t offset) -> Result<size_t> {
    fill(to, offset);
    return std::min<uint64_t>(to.size(), bytes - std::min(bytes, offset));
  };
}
// A producer of such items that fails in the block of item `at`.
auto fails_at(uint64_t at) {
  return [at](Block to, uint64_t offset) -> Result<size_t> {
    const uint64_t first = offset / sizeof(uint64_t);
    if (at >= first && at < first + to.size() / sizeof(uint64_t))
      return failure(ErrorCode::io, "turn the crank", "a machine");
    return count_up(to, offset);
  };
}

class PullStreamOn : public OnMechanism {
 protected:
  void SetUp() override {
    start(PullStream::open({.bytes = 1, .mechanism = GetParam()}, count_up));
  }
  PullStream open(PullStream::Options options, PullStream::Producer producer) const {
    options.mechanism = GetParam();
    options.block_bytes = block;
    auto stream = PullStream::open(options, std::move(producer));
    EXPECT_TRUE(stream) << stream.error().message();
    return std::move(*stream);
  }
};

INSTANTIATE_TEST_SUITE_P(Mechanisms, PullStreamOn, every_mechanism, name_of_mechanism);

TEST_P(PullStreamOn, ConsumerSeesWhatTheProducerMakesInConstantMemory) {
  constexpr uint64_t items = 300 * block_items + 5;
  std::atomic<uint64_t> calls = 0;
  PullStream stream = open({.bytes = items * sizeof(uint64_t), .comeback_blocks = 2},
                           [&](Block to, uint64_t offset) {
                             EXPECT_EQ(offset, calls++ * block);
                             return count_up(to, offset);
                           });
  uint64_t wrong = 0;
  for (uint64_t i = 0; i < items; ++i) wrong += stream.begin<uint64_t>()[i] != mix64(i);
  EXPECT_EQ(wrong, 0u);
  EXPECT_EQ(calls, 301u);
  EXPECT_EQ(stream.bytes(), items * sizeof(uint64_t));
  EXPECT_EQ(stream.memory_bytes(), 3 * block);
  EXPECT_TRUE(stream.status());
}

TEST_P(PullStreamOn, LibraryFunctionsWorkAcrossBlocks) {
  if (os::shadowed) GTEST_SKIP() << "the sanitizers' strstr reads the text a second time";
  constexpr uint64_t hay = 40 * block - 4;
  PullStream stream = open({.bytes = 1 * TiB}, [](Block to, uint64_t offset) -> Result<size_t> {
    std::memset(to.data(), 'a', to.size());
    const std::string needle = "needle";
    for (size_t i = 0; i < needle.size(); ++i) {
      if (hay + i - offset < to.size()) to[hay + i - offset] = static_cast<std::byte>(needle[i]);
    }
    return offset < 40 * block ? to.size() : 100;
  });
  EXPECT_EQ(std::strstr(stream.begin(), "needle"), stream.begin() + hay);
  EXPECT_EQ(std::strlen(stream.begin() + hay), 104u);
}

TEST_P(PullStreamOn, ProducerMayEndEarlierAndZerosFollow) {
  for (uint64_t bytes : {uint64_t{0}, uint64_t{8}, block - 8, block, block + 8, 9 * block}) {
    PullStream stream = open({.bytes = 20 * block}, ends_at(bytes));
    EXPECT_EQ(stream.bytes(), std::nullopt);
    const uint64_t* data = stream.begin<uint64_t>();
    uint64_t i = 0;
    for (; !stream.at_end(data + i); ++i) ASSERT_EQ(read(data + i), mix64(i));
    EXPECT_EQ(i * sizeof(uint64_t), bytes);
    EXPECT_EQ(stream.bytes(), bytes);
    for (size_t zero = 0; zero < block_items; ++zero) ASSERT_EQ(read(data + i + zero), 0u) << bytes;
  }
}

TEST_P(PullStreamOn, ComesBackWithinTheWindow) {
  PullStream stream = open({.bytes = 40 * block, .comeback_blocks = 5}, count_up);
  for (uint64_t i : {0, 9, 4, 6, 5, 20, 15, 18, 21, 39, 34})
    EXPECT_EQ(read(stream.begin<uint64_t>() + i * block_items), mix64(i * block_items));
}

TEST_P(PullStreamOn, AJumpForwardProducesWhatItSkips) {
  std::atomic<uint64_t> calls = 0;
  PullStream stream = open({.bytes = 1000 * block}, [&](Block to, uint64_t offset) {
    EXPECT_EQ(offset, calls++ * block);
    return count_up(to, offset);
  });
  EXPECT_EQ(read(stream.begin<uint64_t>() + 700 * block_items), mix64(700 * block_items));
  EXPECT_EQ(calls, 701u);
}

TEST_P(PullStreamOn, RandomAccessProducesWhatIsTouched) {
  std::atomic<uint64_t> calls = 0;
  PullStream stream =
      open({.bytes = 1 * TiB, .comeback_blocks = 0, .random_access = true},
           [&](Block to, uint64_t offset) { return ++calls, count_up(to, offset); });
  const uint64_t far = TiB / sizeof(uint64_t) - 5;
  for (uint64_t at : {far, uint64_t{0}, far / 2, uint64_t{3}, far})
    EXPECT_EQ(read(stream.begin<uint64_t>() + at), mix64(at));
  EXPECT_LE(calls, 5u);
  EXPECT_LE(stream.memory_bytes(), 2 * block);
  // A load that straddles two blocks needs both, even with a comeback of 0.
  uint64_t straddling;
  std::memcpy(&straddling, stream.begin() + 7 * block - 4, sizeof straddling);
  const uint64_t before = mix64(7 * block_items - 1), behind = mix64(7 * block_items);
  EXPECT_EQ(straddling, before >> 32 | behind << 32);
}

TEST_P(PullStreamOn, RandomizedReadsMatchTheModel) {
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE(seed);
  Random random(seed);
  for (int round = 0; round < 30; ++round) {
    const uint64_t blocks = 1 + random.below(60);
    const uint64_t capacity = blocks * block - 8 * random.below(block_items);
    const uint64_t bytes = random.below(3) == 0 ? capacity : 8 * random.below(capacity / 8 + 1);
    const auto comeback = static_cast<uint32_t>(random.below(5));
    const bool any_order = random.below(2) == 0;
    PullStream stream =
        open({.bytes = capacity, .comeback_blocks = comeback, .random_access = any_order},
             ends_at(bytes));
    const uint64_t* const data = stream.begin<uint64_t>();
    const uint64_t end_items = round_up(bytes, block) / 8 + block_items;  // zeros included
    uint64_t head = 0;
    for (int step = 0; step < 200; ++step) {
      const uint64_t low = any_order ? 0 : head - std::min<uint64_t>(head, comeback);
      const uint64_t high = std::min(end_items / block_items, head + 1 + random.below(3));
      const uint64_t at = low * block_items + random.below((high - low) * block_items);
      ASSERT_EQ(read(data + at), at < bytes / 8 ? mix64(at) : 0) << at << " of " << bytes / 8;
      head = std::max(head, at / block_items);
    }
    EXPECT_LE(stream.memory_bytes(), (std::max<uint64_t>(comeback, any_order) + 1) * block);
  }
}

TEST_P(PullStreamOn, StopsBehindTheWindowWithAClearMessage) {
  EXPECT_DEATH(
      {
        PullStream stream =
            open({.bytes = 100 * block, .comeback_blocks = 1, .strict = true, .name = "squares"},
                 count_up);
        for (uint64_t i = 0; i < 10; ++i) read(stream.begin<uint64_t>() + i * block_items);
        read(stream.begin<uint64_t>() + 5 * block_items);
      },
      "squares.*block 5.*came to block 9.*comeback_blocks is 1, at least 4");
}

TEST_P(PullStreamOn, StopsPastTheEndWithAClearMessage) {
  EXPECT_DEATH(
      {
        PullStream stream = open({.bytes = 100 * block, .name = "short"}, ends_at(3 * block + 8));
        read(stream.begin<uint64_t>() + 6 * block_items);
      },
      "short.*block 6.*ended at 196616 bytes");
}

TEST_P(PullStreamOn, StopsWhenTheProducerFails) {
  EXPECT_DEATH(
      {
        PullStream stream = open({.bytes = 100 * block, .name = "crank"}, fails_at(3));
        read(stream.begin<uint64_t>());
      },
      "crank.*block 0.*producer gave up: a machine: cannot turn the crank");
}

TEST_P(PullStreamOn, StopsAProducerThatTouchesItsOwnBlock) {
  EXPECT_DEATH(
      {
        const uint64_t* self = nullptr;
        PullStream stream = open({.bytes = 100 * block, .name = "snake"},
                                 [&](Block to, uint64_t) -> Result<size_t> {
                                   read(self);
                                   return to.size();
                                 });
        self = stream.begin<uint64_t>();
        read(self);
      },
      "snake.*touched a block of its own stream");
}

TEST_P(PullStreamOn, ProducerMayReadTheBlocksInFrontOfItsOwn) {
  const uint64_t* self = nullptr;
  PullStream stream = open({.bytes = 50 * block}, [&](Block to, uint64_t offset) -> Result<size_t> {
    auto* const items = reinterpret_cast<uint64_t*>(to.data());
    const uint64_t* const before = self + offset / 8 - block_items;
    for (size_t i = 0; i < block_items; ++i) items[i] = offset == 0 ? i : before[i] + 1;
    return to.size();
  });
  self = stream.begin<uint64_t>();
  for (uint64_t i = 0; i < 50 * block_items; ++i)
    ASSERT_EQ(self[i], i % block_items + i / block_items);
}

TEST_P(PullStreamOn, RecoversFromTheProducersError) {
  PullStream stream =
      open({.bytes = 100 * block, .policy = ErrorPolicy::recover}, fails_at(7 * block_items + 1));
  uint64_t seen = 0;
  for (int attempt = 0; attempt < 2; ++attempt) {
    auto result = RecoveryPoint::run([&] {
      for (uint64_t i = 6; i < 20; ++i) {
        read(stream.begin<uint64_t>() + i * block_items);
        seen = i;
      }
    });
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, ErrorCode::io);
    EXPECT_NE(result.error().message().find("turn the crank"), std::string::npos);
    EXPECT_EQ(seen, 6u);
  }
  EXPECT_EQ(stream.status().error().attempted, "turn the crank");
  EXPECT_EQ(stream.bytes(), 7 * block);
  // The window before it is still there.
  EXPECT_EQ(read(stream.begin<uint64_t>() + 6 * block_items), mix64(6 * block_items));
}

TEST_P(PullStreamOn, RecoversFromABrokenLimit) {
  PullStream stream =
      open({.bytes = 100 * block, .policy = ErrorPolicy::recover, .strict = true}, count_up);
  auto result = RecoveryPoint::run([&] {
    read(stream.begin<uint64_t>() + 9 * block_items);
    read(stream.begin<uint64_t>());
  });
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(read(stream.begin<uint64_t>() + 10 * block_items), mix64(10 * block_items));
}

TEST_P(PullStreamOn, ZerosFollowAnErrorIfThatIsThePolicy) {
  PullStream stream =
      open({.bytes = 100 * block, .policy = ErrorPolicy::zeros}, fails_at(7 * block_items + 1));
  const uint64_t* const data = stream.begin<uint64_t>();
  for (uint64_t i = 0; i < 100; ++i)
    EXPECT_EQ(read(data + i * block_items), i < 7 ? mix64(i * block_items) : 0);
  EXPECT_TRUE(stream.at_end(data + 7 * block_items));
  EXPECT_EQ(stream.status().error().code, ErrorCode::io);
}

TEST_P(PullStreamOn, AProducerThatCountsTooManyBytesIsAnError) {
  PullStream stream = open({.bytes = 3 * block, .policy = ErrorPolicy::zeros},
                           [](Block to, uint64_t) -> Result<size_t> { return to.size() + 1; });
  EXPECT_EQ(read(stream.begin<uint64_t>()), 0u);
  EXPECT_EQ(stream.status().error().code, ErrorCode::invalid_argument);
}

TEST_P(PullStreamOn, ProducersMayUseOtherStreamsAndRecoverFromTheirErrors) {
  PullStream source =
      open({.bytes = 100 * block, .policy = ErrorPolicy::recover}, fails_at(20 * block_items));
  PullStream middle =
      open({.bytes = 100 * block}, [&](Block to, uint64_t offset) -> Result<size_t> {
        auto copied = RecoveryPoint::run([&] {
          const uint64_t* const from = source.begin<uint64_t>() + offset / 8;
          for (size_t i = 0; i < block_items; ++i)
            reinterpret_cast<uint64_t*>(to.data())[i] = read(from + i);
        });
        return copied ? to.size() : 0;
      });
  for (uint64_t i = 0; i < 20 * block_items; ++i) ASSERT_EQ(middle.begin<uint64_t>()[i], mix64(i));
  EXPECT_TRUE(middle.at_end(middle.begin<uint64_t>() + 20 * block_items));
  EXPECT_TRUE(middle.status());
}

TEST_P(PullStreamOn, ErrnoIsTheConsumersAndTheAlternateStackSuffices) {
  std::jthread([&] {
    const os::AltStack stack;
    ASSERT_TRUE(stack.in_use());
    PullStream stream = open({.bytes = 10 * block}, [](Block to, uint64_t offset) {
      std::string allocated(20000, 'x');
      EXPECT_EQ(allocated.back(), 'x');
      errno = EBUSY;
      return count_up(to, offset);
    });
    errno = 0;
    EXPECT_EQ(read(stream.begin<uint64_t>() + 5), mix64(5));
    EXPECT_EQ(errno, 0);
  });
}

TEST_P(PullStreamOn, PreparesPiecesForSystemCalls) {
  PullStream stream = open({.bytes = 10 * block}, count_up);
  EXPECT_TRUE(stream.prepare_read(stream.begin() + block / 2, block));
  EXPECT_EQ(stream.prepare_read(stream.begin() + 1, 2 * block).error().code,
            ErrorCode::invalid_argument);
  EXPECT_EQ(stream.prepare_read(stream.begin() + 30 * block, 1).error().code,
            ErrorCode::invalid_argument);
  EXPECT_EQ(read(stream.begin<uint64_t>() + block_items), mix64(block_items));

  auto* const address = reinterpret_cast<std::byte*>(stream.begin());
  fault::Handler* const handler = fault::find(address);
  ASSERT_NE(handler, nullptr);
  EXPECT_EQ(handler->prepare(address + 3 * block + 100, 1, fault::Access::read), 1u);
  EXPECT_EQ(handler->prepare(address + 3 * block + 100, 5 * block, fault::Access::read),
            2 * block - 100);
  EXPECT_FALSE(handler->prepare(address, 1, fault::Access::read));
}

TEST_P(PullStreamOn, PreparingMeetsTheProducersErrorAsAResult) {
  PullStream stream = open({.bytes = 10 * block}, fails_at(block_items));
  EXPECT_TRUE(stream.prepare_read(stream.begin(), 8));
  EXPECT_EQ(stream.prepare_read(stream.begin(), block + 1).error().attempted, "turn the crank");
}

TEST(PullStream, RefusesInvalidOptions) {
  for (PullStream::Options options :
       {PullStream::Options{.bytes = 1, .block_bytes = 3000},
        PullStream::Options{.bytes = 129 * TiB}, PullStream::Options{.comeback_blocks = 1u << 20}})
    EXPECT_EQ(PullStream::open(options, count_up).error().code, ErrorCode::invalid_argument);
}

}  // namespace
}  // namespace penstock
