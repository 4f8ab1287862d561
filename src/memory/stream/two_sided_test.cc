// Test labels: first

// Tests of behaviour that all streams with two sides share, whatever moves their blocks.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <numeric>
#include <string>
#include <thread>
#include <utility>

#include "memory/stream/two_sided_fixture.h"
#include "os/limits.h"
#include "os/process_counts.h"
#include "os/sanitizer.h"
#include "penstock/base.h"
#include "penstock/stream.h"

namespace penstock {
namespace {

enum class Kind : uint8_t { guard, mremap, uffd_move, shared };

// Options common to all kinds.
struct Options {
  uint64_t bytes = 0;
  size_t block_bytes = block;
  uint32_t read_ahead_blocks = 2;
  uint32_t producer_comeback_blocks = 1;
  uint32_t consumer_comeback_blocks = 1;
  ErrorPolicy policy = ErrorPolicy::stop;
  bool strict = true;
  std::string name = "pipe";
};

template <class Stream>
typename Stream::Options options_of(const Options& from) {
  return {.bytes = from.bytes,
          .block_bytes = from.block_bytes,
          .read_ahead_blocks = from.read_ahead_blocks,
          .producer_comeback_blocks = from.producer_comeback_blocks,
          .consumer_comeback_blocks = from.consumer_comeback_blocks,
          .policy = from.policy,
          .strict = from.strict,
          .name = from.name};
}

// Fixture over all kinds of streams. A kind that this kernel lacks is skipped.
class TwoSidedStreamOn : public ::testing::TestWithParam<Kind> {
 protected:
  void SetUp() override {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    const auto pipe = try_open({.bytes = 1});
    if (!pipe && pipe.error().code == ErrorCode::unsupported)
      GTEST_SKIP() << pipe.error().message();
    ASSERT_TRUE(pipe) << pipe.error().message();
  }
  static Result<TwoSidedStream> try_open(const Options& from) {
    const auto as_base = [](auto stream) { return TwoSidedStream(std::move(stream)); };
    if (GetParam() == Kind::guard)
      return GuardStream::open(options_of<GuardStream>(from)).transform(as_base);
    auto options = options_of<RemapStream>(from);
    options.mechanism = GetParam() == Kind::mremap      ? Mechanism::mremap
                        : GetParam() == Kind::uffd_move ? Mechanism::uffd_move
                                                        : Mechanism::shared;
    return RemapStream::open(options).transform(as_base);
  }
  static TwoSidedStream open(const Options& options) {
    auto pipe = try_open(options);
    EXPECT_TRUE(pipe) << pipe.error().message();
    return std::move(*pipe);
  }
};

std::string name_of(const ::testing::TestParamInfo<Kind>& kind) {
  constexpr const char* names[] = {"guard", "mremap", "uffd_move", "shared"};
  return names[static_cast<size_t>(kind.param)];
}

INSTANTIATE_TEST_SUITE_P(Kinds, TwoSidedStreamOn,
                         ::testing::Values(Kind::guard, Kind::mremap, Kind::uffd_move,
                                           Kind::shared),
                         name_of);

TEST_P(TwoSidedStreamOn, ReaderSeesWhatTheWriterWrote) {
  for (size_t block_bytes : {4 * KiB, 64 * KiB, 2 * MiB}) {
    const uint64_t items = 40 * block_bytes / sizeof(uint64_t) + 5;
    TwoSidedStream pipe = open({.bytes = items * sizeof(uint64_t), .block_bytes = block_bytes});
    std::jthread producer([&] {
      std::iota(pipe.writer<uint64_t>(), pipe.writer<uint64_t>() + items, uint64_t{7});
      EXPECT_TRUE(pipe.finish(items * sizeof(uint64_t)));
    });
    const uint64_t* data = pipe.reader<uint64_t>();
    EXPECT_EQ(data == pipe.writer<uint64_t>(), GetParam() == Kind::guard);
    uint64_t wrong = 0;
    for (uint64_t i = 0; i < items; ++i) wrong += data[i] != i + 7;
    EXPECT_EQ(wrong, 0u);
    EXPECT_TRUE(pipe.status());
  }
}

TEST_P(TwoSidedStreamOn, LibraryFunctionsWorkAcrossBlocks) {
  if (os::shadowed) GTEST_SKIP() << "the sanitizers' strstr reads the text a second time";
  const std::string text = "needle in a haystack";
  TwoSidedStream pipe = open({.bytes = 1 * TiB});
  std::jthread producer([&] {
    std::memset(pipe.writer(), 'a', 40 * block + 3);
    std::memcpy(pipe.writer() + 40 * block - 7, text.data(), text.size());  // straddles two blocks
    EXPECT_TRUE(pipe.finish(40 * block + 13));
  });
  char* hit = std::strstr(pipe.reader(), text.c_str());
  EXPECT_EQ(hit, pipe.reader() + 40 * block - 7);
  EXPECT_EQ(std::strlen(hit), text.size());
}

TEST_P(TwoSidedStreamOn, EmptyStreamReadsAsZeros) {
  for (uint64_t capacity : {uint64_t{1}, 3 * block}) {
    TwoSidedStream pipe = open({.bytes = capacity});
    ASSERT_TRUE(pipe.finish(0));
    EXPECT_EQ(look(pipe.reader()), 0u);
    EXPECT_EQ(pipe.wait_ready(0), 0u);
  }
}

TEST_P(TwoSidedStreamOn, ZerosFollowTheEnd) {
  for (uint64_t bytes :
       {uint64_t{1}, uint64_t{4095}, uint64_t{4096}, block - 1, block, block + 1, 9 * block}) {
    TwoSidedStream pipe = open({.bytes = 12 * block, .read_ahead_blocks = 12});
    std::memset(pipe.writer(), 'x', bytes + block);  // more than it will finish with
    ASSERT_TRUE(pipe.finish(bytes));
    const char* data = pipe.reader();
    for (size_t i = 0; i < bytes; i += 97) ASSERT_EQ(look(data + i), 'x') << i;
    const uint64_t end = (bytes / block + 1) * block;
    for (size_t i = bytes; i < end; ++i) ASSERT_EQ(look(data + i), 0) << bytes << " and " << i;
  }
}

TEST_P(TwoSidedStreamOn, BlocksThatTheProducerSkippedReadAsZeros) {
  TwoSidedStream pipe = open({.bytes = 40 * block});
  std::jthread producer([&] {
    for (int i = 0; i < 30; i += i < 15 ? 1 : 6) std::memset(pipe.writer() + i * block, 'x', block);
    EXPECT_TRUE(pipe.finish(38 * block));
  });
  const char* data = pipe.reader();
  for (int i = 0; i < 38; ++i) {
    bool written = i < 15 || (i < 30 && (i - 15) % 6 == 0);
    EXPECT_EQ(look(data + i * block), written ? 'x' : 0) << i;
    EXPECT_EQ(look(data + i * block + block - 1), written ? 'x' : 0) << i;
  }
}

TEST_P(TwoSidedStreamOn, AChainOfStreamsPassesDataOn) {
  TwoSidedStream first = open({.bytes = 30 * block});
  TwoSidedStream second = open({.bytes = 30 * block});
  std::jthread producer([&] {
    std::memset(first.writer(), 'q', 30 * block);
    EXPECT_TRUE(first.finish(30 * block));
  });
  std::jthread middle([&] {
    const char* from = first.reader();
    for (size_t i = 0; i < 30 * block; i += 256) std::memcpy(second.writer() + i, from + i, 256);
    EXPECT_TRUE(second.finish(30 * block));
  });
  const char* data = second.reader();
  uint64_t count = 0;
  while (look(data + count) == 'q') ++count;
  EXPECT_EQ(count, 30 * block);
}

TEST_P(TwoSidedStreamOn, FailedProducerReachesAConsumerThatRecovers) {
  TwoSidedStream pipe = open({.bytes = 20 * block, .policy = ErrorPolicy::recover});
  std::jthread producer([&] {
    std::memset(pipe.writer(), 1, 3 * block);
    pipe.fail(Side::producer, Error{ErrorCode::io, "read the disk", "sda", EIO});
  });
  std::atomic<size_t> sum = 0;
  auto result = RecoveryPoint::run([&] {
    const char* data = pipe.reader();
    for (size_t i = 0; i < 20 * block; ++i) sum += look(data + i);
  });
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::io);
  EXPECT_NE(result.error().message().find("read the disk"), std::string::npos)
      << result.error().message();
  EXPECT_EQ(sum, block);  // the only complete block: w - L = 1
  const Error status = pipe.status().error();
  EXPECT_EQ(status.code, ErrorCode::io);
  EXPECT_EQ(status.subject, "sda");
  EXPECT_EQ(status.system_errno, EIO);
}

TEST_P(TwoSidedStreamOn, CancelledConsumerReachesAProducerThatWaits) {
  TwoSidedStream pipe = open({.bytes = 1 * GiB, .policy = ErrorPolicy::recover});
  std::atomic<bool> left = false;
  std::jthread producer([&] {
    auto result = RecoveryPoint::run([&] { std::memset(pipe.writer(), 1, 1 * GiB); });
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, ErrorCode::cancelled);
    left = true;
  });
  EXPECT_EQ(look(pipe.reader()), 1);
  EXPECT_FALSE(soon([&] { return left.load(); }, a_while_ms));
  pipe.cancel(Side::consumer);
  EXPECT_TRUE(soon([&] { return left.load(); }));
}

TEST_P(TwoSidedStreamOn, TheRestReadsAsZerosIfThatIsThePolicy) {
  TwoSidedStream pipe = open({.bytes = 50 * block, .policy = ErrorPolicy::zeros});
  std::jthread producer([&] {
    std::memset(pipe.writer(), 1, 22 * block);
    pipe.cancel(Side::producer);
  });
  const char* data = pipe.reader();
  uint64_t ones = 0, others = 0;
  for (size_t i = 0; i < 51 * block; i += 64) {
    const uint8_t found = look(data + i);
    ones += found == 1;
    others += found > 1;
  }
  EXPECT_EQ(ones, 20 * block / 64);
  EXPECT_EQ(others, 0u);
  if (GetParam() == Kind::guard) {
    EXPECT_LE(pipe.memory_bytes(), 2 * block);
  }
  EXPECT_EQ(pipe.status().error().code, ErrorCode::cancelled);
}

TEST_P(TwoSidedStreamOn, TheRestOfTheWritesIsDroppedIfThePolicyIsZeros) {
  TwoSidedStream pipe = open({.bytes = 200 * block, .policy = ErrorPolicy::zeros});
  std::jthread producer([&] {
    std::memset(pipe.writer(), 1, 200 * block);
    if (GetParam() == Kind::guard) {
      EXPECT_LE(pipe.memory_bytes(), 2 * block);
    }
    Status finished = pipe.finish(200 * block);
    ASSERT_FALSE(finished);
    EXPECT_EQ(finished.error().code, ErrorCode::io);
  });
  EXPECT_EQ(look(pipe.reader()), 1);
  pipe.fail(Side::consumer, Error{ErrorCode::io, "write the result"});
}

TEST_P(TwoSidedStreamOn, TheProcessEndsWithAMessageIfThePolicyIsStop) {
  EXPECT_DEATH(
      {
        TwoSidedStream pipe = open({.bytes = 20 * block, .name = "numbers"});
        pipe.fail(Side::producer, Error{ErrorCode::io, "read the disk", "sda", EIO});
        look(pipe.reader());
      },
      "numbers.*consumer in block 0.*producer gave up.*sda.*read the disk");
  EXPECT_DEATH(
      {
        TwoSidedStream pipe = open({.bytes = 20 * block, .name = "numbers"});
        pipe.cancel(Side::consumer);
        touch(pipe.writer() + 7 * block);
      },
      "numbers.*producer in block 7.*consumer gave up");
}

TEST_P(TwoSidedStreamOn, WaitingCallsReportTheErrorInsteadOfStopping) {
  TwoSidedStream pipe = open({.bytes = 20 * block});
  std::memset(pipe.writer(), 1, 2 * block);  // w = 1, L = 1: nothing complete
  pipe.cancel(Side::producer);
  EXPECT_EQ(pipe.wait_ready(0).error().code, ErrorCode::cancelled);
  EXPECT_EQ(pipe.prepare_read(pipe.reader(), 10).error().code, ErrorCode::cancelled);
  EXPECT_EQ(pipe.finish(10).error().code, ErrorCode::invalid_argument);
}

TEST_P(TwoSidedStreamOn, UsingTheStreamBeyondItsEndsIsNamed) {
  EXPECT_DEATH(touch(open({.bytes = 3 * block}).writer() + 3 * block),
               "producer in block 3.*opened for 196608 bytes");
  EXPECT_DEATH(
      {
        TwoSidedStream pipe = open({.bytes = 9 * block});
        (void)pipe.finish(0);
        touch(pipe.writer());
      },
      "producer in block 0.*finish");
  EXPECT_DEATH(
      {
        TwoSidedStream pipe = open({.bytes = 9 * block});
        touch(pipe.writer());
        (void)pipe.finish(1);
        look(pipe.reader() + 2 * block);
      },
      "consumer in block 2.*ended at 1 bytes");
  EXPECT_DEATH(
      {
        TwoSidedStream pipe = open({.bytes = 9 * block});
        pipe.cancel(Side::consumer);
        (void)pipe.finish(9 * block);
        look(pipe.reader());
      },
      "consumer in block 0.*it said that it was done");
}

TEST_P(TwoSidedStreamOn, ABrokenLimitCanBeRecoveredFrom) {
  TwoSidedStream pipe = open({.bytes = 9 * block, .policy = ErrorPolicy::recover});
  auto result = RecoveryPoint::run([&] { touch(pipe.writer() + 9 * block); });
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::invalid_argument);
  touch(pipe.writer());  // and the stream still works
  ASSERT_TRUE(pipe.finish(1));
  EXPECT_EQ(look(pipe.reader()), 'x');
  EXPECT_EQ(look(pipe.reader() + 1), 0);
}

TEST_P(TwoSidedStreamOn, FinishRefusesImpossibleLengths) {
  TwoSidedStream pipe = open({.bytes = 9 * block, .producer_comeback_blocks = 0});
  touch(pipe.writer());
  touch(pipe.writer() + block);  // block 0 is complete now
  EXPECT_EQ(pipe.finish(block - 1).error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(pipe.finish(9 * block + 1).error().code, ErrorCode::invalid_argument);
  EXPECT_TRUE(pipe.finish(block));
  EXPECT_EQ(pipe.finish(block).error().code, ErrorCode::invalid_argument);
}

TEST_P(TwoSidedStreamOn, PreparedPiecesCanBeGivenToSystemCalls) {
  constexpr size_t piece = block / 2 + 100, pieces = 50;
  for (bool strict : {false, true}) {
    TwoSidedStream pipe = open({.bytes = piece * pieces, .strict = strict});
    int zero = ::open("/dev/zero", O_RDONLY), ends[2];
    ASSERT_TRUE(zero >= 0 && ::pipe(ends) == 0);
    std::jthread producer([&] {
      for (size_t i = 0; i < pieces; ++i) {
        ASSERT_TRUE(pipe.prepare_write(pipe.writer() + i * piece, piece));
        EXPECT_EQ(::read(zero, pipe.writer() + i * piece, piece), static_cast<ssize_t>(piece));
        touch(pipe.writer() + i * piece, static_cast<int>(i + 1));
      }
      EXPECT_TRUE(pipe.finish(piece * pieces));
    });
    for (size_t i = 0; i < pieces; ++i) {
      const char* data = pipe.reader() + i * piece;
      char copy[2];
      ASSERT_TRUE(pipe.prepare_read(data, piece));
      ASSERT_EQ(::write(ends[1], data, 2), 2);
      ASSERT_EQ(::read(ends[0], copy, 2), 2);
      EXPECT_EQ(copy[0], static_cast<char>(i + 1));
      EXPECT_EQ(copy[1], 0);
    }
    ::close(zero);
    ::close(ends[0]);
    ::close(ends[1]);
  }
}

TEST_P(TwoSidedStreamOn, AClosedStreamLeavesNothingBehind) {
  auto once = [&] {
    TwoSidedStream pipe = open({.bytes = 100 * block, .policy = ErrorPolicy::zeros});
    std::jthread producer([&] { std::memset(pipe.writer(), 1, 99 * block); });
    EXPECT_EQ(look(pipe.reader()), 1);
    pipe.cancel(Side::consumer);
  };
  once();
  const auto mappings = os::mappings().used;
  const size_t open_before = os::descriptors();
  for (int i = 0; i < 20; ++i) once();
  EXPECT_LE(os::mappings().used, mappings + 4);  // thread stacks are cached by the C library
  EXPECT_EQ(os::descriptors(), open_before);
}

}  // namespace
}  // namespace penstock
