// Test labels: first

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "memory/pool/pinned_page_fixture.h"
#include "memory/stream/mechanism_fixture.h"
#include "memory/stream/two_sided_fixture.h"
#include "os/limits.h"
#include "os/memory.h"
#include "os/sanitizer.h"
#include "os/userfault.h"
#include "penstock/base.h"
#include "penstock/stream.h"

namespace penstock {
namespace {

using Mechanism = Mechanism;
using Side = Side;

class RemapStreamOn : public OnMechanism {
 protected:
  void SetUp() override { start(RemapStream::open({.bytes = 1, .mechanism = GetParam()})); }
  static RemapStream open(RemapStream::Options options) {
    options.mechanism = GetParam();
    if (options.block_bytes == 4 * MiB) options.block_bytes = block;
    auto pipe = RemapStream::open(options);
    EXPECT_TRUE(pipe) << pipe.error().message();
    return std::move(*pipe);
  }
};

INSTANTIATE_TEST_SUITE_P(Mechanisms, RemapStreamOn, every_mechanism, name_of_mechanism);

TEST_P(RemapStreamOn, ZerosFollowTheEndInAReusedBlock) {
  RemapStream pipe = open({.bytes = 100 * block});
  std::jthread producer([&] {
    std::memset(pipe.writer(), 'x', 50 * block + 10);
    EXPECT_TRUE(pipe.finish(50 * block + 10));
  });
  EXPECT_EQ(std::strlen(pipe.reader()), 50 * block + 10);
  for (size_t i = 50 * block + 10; i < 51 * block; ++i) ASSERT_EQ(pipe.reader()[i], 0) << i;
}

TEST_P(RemapStreamOn, ConsumerWaitsUntilTheProducerHasLeftTheBlock) {
  RemapStream pipe = open({.bytes = 8 * block, .producer_comeback_blocks = 1});
  std::atomic<int> read = 0;
  std::jthread consumer([&] { read = pipe.reader()[0]; });
  pipe.writer()[0] = 1;
  pipe.writer()[block] = 2;  // block 0 is still the producer's: L = 1
  EXPECT_FALSE(soon([&] { return read != 0; }, a_while_ms));
  pipe.writer()[0] = 3;
  pipe.writer()[2 * block] = 4;
  EXPECT_TRUE(soon([&] { return read != 0; }));
  EXPECT_EQ(read, 3);
}

TEST_P(RemapStreamOn, ProducerRunsAheadByReadAheadAndComeback) {
  // The paper's N + L + M + 1 blocks, of which the consumer keeps M + 1 once it has begun.
  RemapStream pipe = open({.bytes = 20 * block,
                           .read_ahead_blocks = 2,
                           .producer_comeback_blocks = 1,
                           .consumer_comeback_blocks = 1});
  EXPECT_EQ(pipe.memory_bytes(), 5 * block);
  std::atomic<int> written = 0;
  std::jthread producer([&] {
    for (int i = 0; i < 10; ++i) {
      pipe.writer()[i * block] = 1;
      written = i + 1;
    }
    EXPECT_TRUE(pipe.finish(10 * block));
  });
  EXPECT_TRUE(soon([&] { return written == 3; }));
  EXPECT_FALSE(soon([&] { return written > 3; }, a_while_ms));
  EXPECT_EQ(pipe.reader()[0], 1);
  EXPECT_TRUE(soon([&] { return written == 4; }));
  EXPECT_FALSE(soon([&] { return written > 4; }, a_while_ms));
  EXPECT_EQ(pipe.reader()[9 * block], 1);  // a jump frees all blocks that it skips
  EXPECT_TRUE(soon([&] { return written == 10; }));
}

TEST_P(RemapStreamOn, ASingleBlockWorksAsARendezvous) {
  constexpr uint64_t items = 64 * block / sizeof(uint64_t);
  RemapStream pipe = open({.bytes = items * sizeof(uint64_t),
                           .read_ahead_blocks = 0,
                           .producer_comeback_blocks = 0,
                           .consumer_comeback_blocks = 0});
  EXPECT_EQ(pipe.memory_bytes(), block);
  std::jthread producer([&] {
    for (uint64_t i = 0; i < items; ++i) pipe.writer<uint64_t>()[i] = i;
    EXPECT_TRUE(pipe.finish(items * sizeof(uint64_t)));
  });
  uint64_t wrong = 0;
  for (uint64_t i = 0; i < items; ++i) wrong += pipe.reader<uint64_t>()[i] != i;
  EXPECT_EQ(wrong, 0u);
}

TEST_P(RemapStreamOn, ConsumerJumpsBeyondWhatIsWritten) {
  RemapStream pipe = open({.bytes = 1000 * block});
  std::jthread producer([&] {
    for (uint64_t i = 0; i < 1000; ++i) pipe.writer<uint64_t>()[i * block / 8] = i;
    EXPECT_TRUE(pipe.finish(1000 * block));
  });
  for (uint64_t i : {uint64_t{3}, uint64_t{2}, uint64_t{77}, uint64_t{78}, uint64_t{990},
                     uint64_t{989}, uint64_t{999}}) {
    EXPECT_EQ(pipe.reader<uint64_t>()[i * block / 8], i);
  }
}

TEST_P(RemapStreamOn, ConsumerComesBackToBlocksThatItSkipped) {
  RemapStream pipe = open({.bytes = 40 * block, .consumer_comeback_blocks = 5});
  std::jthread producer([&] {
    for (int i = 0; i < 40; ++i) pipe.writer()[i * block] = static_cast<char>(i);
    EXPECT_TRUE(pipe.finish(40 * block));
  });
  for (int i : {0, 9, 4, 6, 5, 20, 15, 18, 21, 39, 34}) EXPECT_EQ(pipe.reader()[i * block], i);
}

TEST_P(RemapStreamOn, ProducerCompletesBlocksInAnyOrderWithinItsComeback) {
  constexpr int blocks = 60, comeback = 3;
  RemapStream pipe = open({.bytes = blocks * block, .producer_comeback_blocks = comeback});
  std::jthread producer([&] {
    for (int group = 0; group < blocks; group += comeback + 1) {
      for (int i = comeback; i >= 0; --i) {  // the last of the group first
        std::memset(pipe.writer() + (group + i) * block, group + i, block);
      }
    }
    EXPECT_TRUE(pipe.finish(blocks * block));
  });
  for (int i = 0; i < blocks; ++i) {
    EXPECT_EQ(pipe.reader()[i * block], i);
    EXPECT_EQ(pipe.reader()[(i + 1) * block - 1], i);
  }
}

TEST_P(RemapStreamOn, SeveralThreadsShareASide) {
  expect_threads_to_share_a_side(open, 150, os::thread_sanitized);
}

TEST_P(RemapStreamOn, ManyStreamsRunAtOnce) {
  constexpr int streams = 12;
  constexpr uint64_t items = 40 * block / sizeof(uint64_t);
  std::vector<RemapStream> pipes;
  for (int i = 0; i < streams; ++i) pipes.push_back(open({.bytes = items * sizeof(uint64_t)}));
  std::atomic<uint64_t> wrong = 0;
  std::vector<std::jthread> threads;
  for (int i = 0; i < streams; ++i) {
    threads.emplace_back([&, i] {
      for (uint64_t k = 0; k < items; ++k) pipes[i].writer<uint64_t>()[k] = k * i;
      EXPECT_TRUE(pipes[i].finish(items * sizeof(uint64_t)));
    });
    threads.emplace_back([&, i] {
      uint64_t mine = 0;
      for (uint64_t k = 0; k < items; ++k) mine += pipes[i].reader<uint64_t>()[k] != k * i;
      wrong += mine;
    });
  }
  threads.clear();
  EXPECT_EQ(wrong, 0u);
}

// ---- giving up

// A page in I/O keeps its block in place, unless the mechanism moves no pages: then either side
// gets an error, and nobody is stopped.
TEST_P(RemapStreamOn, APinnedPageIsAnErrorIfThePolicyIsZeros) {
  const bool may_serve_system_calls = bool{os::Userfault::open_privileged()};
  for (const bool strict : {true, false}) {
    SCOPED_TRACE(strict ? "strict" : "not strict");
    RemapStream pipe = open(
        {.bytes = 100 * block,
         .policy = ErrorPolicy::zeros,
         .strict = strict,
         .system_calls = strict && may_serve_system_calls && GetParam() == Mechanism::uffd_move});
    auto* const to = pipe.writer<std::byte>();
    std::memset(to, 1, block);
    const pool::PinnedPage pinned(to + block / 2);
    if (!pinned.is_pinned()) GTEST_SKIP() << "no registered buffers here";
    std::memset(to + block, 1, 2 * block);
    const Status finished = pipe.finish(3 * block);
    const auto* const from = pipe.reader<std::byte>();
    size_t ones = 0, others = 0;
    for (size_t i = 0; i < 3 * block; i += 64) {
      if (from[i] == std::byte{1}) ++ones;
      if (from[i] != std::byte{1} && from[i] != std::byte{0}) ++others;
    }
    EXPECT_EQ(others, 0u);
    EXPECT_EQ(ones == 3 * block / 64, finished && pipe.status()) << ones;
    EXPECT_TRUE(GetParam() != Mechanism::shared || (finished && pipe.status()));
  }
}

// The first thread's fault takes the blocks away, and the others fault meanwhile.
TEST_P(RemapStreamOn, SeveralThreadsMayBreakALimitAtOnceIfThePolicyIsZeros) {
  if (os::thread_sanitized) GTEST_SKIP() << "a store races with the mmap() below it, which it may";
  constexpr size_t blocks = 64, threads = 4;
  for (int round = 0; round < (os::shadowed ? 5 : 100); ++round) {
    RemapStream pipe = open({.bytes = blocks * block,
                             .read_ahead_blocks = 8,
                             .producer_comeback_blocks = 16,
                             .policy = ErrorPolicy::zeros});
    char* const data = pipe.writer();
    for (size_t i = 0; i < 16; ++i) data[i * block] = 1;
    std::barrier all(threads);
    {
      std::vector<std::jthread> producers;
      for (size_t thread = 0; thread < threads; ++thread) {
        producers.emplace_back([&, thread] {
          all.arrive_and_wait();
          pipe.writer()[blocks * block + thread * 64] = 1;
          const Status finished = pipe.finish(0);
          ASSERT_FALSE(finished);
          EXPECT_EQ(finished.error().message(), pipe.status().error().message());
        });
      }
    }
    const Status prepared = pipe.prepare_write(data + 40 * block, 1);
    ASSERT_FALSE(prepared);
    EXPECT_EQ(prepared.error().message(), pipe.status().error().message());
    EXPECT_NE(prepared.error().message().find("was opened for"), std::string::npos)
        << prepared.error().message();
  }
}

// ---- limits

TEST_P(RemapStreamOn, ABrokenComebackLimitIsNamed) {
  auto jump_back = [&](Side side) {
    RemapStream pipe = open({.bytes = 100 * block, .strict = true, .name = "numbers"});
    std::jthread producer([&] {
      for (int i = 0; i < 20; ++i) pipe.writer()[i * block] = 1;
      if (side == Side::producer) pipe.writer()[2 * block] = 1;
      (void)pipe.finish(20 * block);
    });
    for (int i = 0; i < 19; ++i) EXPECT_EQ(pipe.reader()[i * block], 1);
    [[maybe_unused]] volatile char byte = pipe.reader()[19 * block];
    if (side == Side::consumer) byte = pipe.reader()[3 * block];
  };
  EXPECT_DEATH(
      jump_back(Side::producer),
      "numbers.*producer in block 2.*block 19.*producer_comeback_blocks is 1, at least 17");
  EXPECT_DEATH(
      jump_back(Side::consumer),
      "numbers.*consumer in block 3.*block 19.*consumer_comeback_blocks is 1, at least 16");
}

// A rule is broken while the other side has not moved: only `strict` can detect it then.
TEST_P(RemapStreamOn, StrictFindsEveryBreachAtOnce) {
  const RemapStream::Options options{.bytes = 20 * block,
                                     .read_ahead_blocks = 6,
                                     .producer_comeback_blocks = 2,
                                     .consumer_comeback_blocks = 1,
                                     .strict = true,
                                     .name = "strict pipe"};
  auto touch = [](char* at) { *static_cast<volatile char*>(at) = 'x'; };
  auto filled = [&] {
    RemapStream pipe = open(options);
    for (uint64_t i = 0; i < 6; ++i) touch(pipe.writer() + i * block);
    return pipe;
  };
  EXPECT_DEATH(
      {
        RemapStream pipe = filled();
        for (uint64_t i : {3, 4, 5}) touch(pipe.writer() + i * block);  // within L
        std::fputs("the producer came back\n", stderr);
        touch(pipe.writer() + 2 * block);
      },
      "the producer came back.*strict pipe.*producer in block 2: .*producer_comeback_blocks is 2, "
      "at least 3");
  EXPECT_DEATH(
      {
        RemapStream pipe = filled();
        for (uint64_t i : {0, 1, 2, 1}) touch(pipe.reader() + i * block);
        std::fputs("the consumer came back\n", stderr);
        touch(pipe.reader());
      },
      "the consumer came back.*strict pipe.*consumer in block 0: .*consumer_comeback_blocks is 1, "
      "at least 2");
  EXPECT_DEATH(
      {
        RemapStream pipe = filled();
        if (pipe.finish(6 * block)) std::fputs("finished\n", stderr);
        touch(pipe.writer() + 5 * block);
      },
      "finished.*producer in block 5: it said that it was done");
}

// ---- calls

TEST_P(RemapStreamOn, PrepareRefusesMoreThanOneWindowOfItsSide) {
  RemapStream pipe = open({.bytes = 9 * block});
  char other[16];
  EXPECT_EQ(pipe.prepare_write(other, 16).error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(pipe.prepare_write(pipe.reader(), 16).error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(pipe.prepare_write(pipe.writer(), 2 * block + 1).error().code,
            ErrorCode::invalid_argument);
  EXPECT_EQ(pipe.prepare_read(pipe.reader() + 10 * block - 1, 2).error().code,
            ErrorCode::invalid_argument);
  EXPECT_TRUE(pipe.prepare_write(pipe.writer(), 2 * block));
  EXPECT_TRUE(pipe.prepare_write(nullptr, 0));
}

TEST_P(RemapStreamOn, WaitReadyReturnsTheReadableEndAndTheEnd) {
  RemapStream pipe = open({.bytes = 90 * block});
  constexpr uint64_t bytes = 77 * block + 3;
  std::jthread producer([&] {
    std::memset(pipe.writer(), 1, bytes);
    EXPECT_TRUE(pipe.finish(bytes));
  });
  uint64_t sum = 0;
  for (uint64_t at = 0, ready; (ready = pipe.wait_ready(at).value()) > at; at = ready) {
    for (uint64_t i = at; i < ready; ++i) sum += pipe.reader()[i];
  }
  EXPECT_EQ(sum, bytes);
}

// An unmapped block leaves a page table behind: 4 KiB for each 2 MiB of addresses here.
TEST_P(RemapStreamOn, PageTablesBehindTheReaderAreFreed) {
  auto page_table_kib = [] {
    std::ifstream status("/proc/self/status");
    for (std::string word; status >> word;) {
      if (word == "VmPTE:") return status >> word, std::stol(word);
    }
    return 0l;
  };
  constexpr uint64_t step = 16 * MiB, bytes = 40 * GiB;
  RemapStream pipe = open({.bytes = bytes, .consumer_comeback_blocks = 0});
  const long before = page_table_kib();
  std::jthread producer([&] {
    for (uint64_t at = 0; at < bytes; at += step) pipe.writer()[at] = 'x';
    EXPECT_TRUE(pipe.finish(bytes));
  });
  uint64_t seen = 0;
  for (uint64_t at = 0; at < bytes; at += step) seen += pipe.reader()[at] == 'x';
  EXPECT_EQ(seen, bytes / step);
  // Two sides with 2560 tables each, if they stayed.
  EXPECT_LT(page_table_kib() - before, 4000);
}

// A request beyond the capacity must not make the stream believe that the reader has passed
// everything.
TEST_P(RemapStreamOn, WaitReadyBeyondTheCapacityHarmsNothing) {
  RemapStream pipe = open({.bytes = 3 * GiB});
  pipe.writer()[0] = 'x';
  ASSERT_TRUE(pipe.finish(100));
  EXPECT_EQ(pipe.wait_ready(40 * GiB), 100u);
  EXPECT_FALSE(pipe.prepare_read(pipe.reader(), 1));  // behind the window now
  std::vector<std::byte> memory(64 * MiB, std::byte{1});
  EXPECT_EQ(memory.front(), std::byte{1});
  EXPECT_EQ(std::memcmp(memory.data(), memory.data() + 1, memory.size() - 1), 0);
}

TEST_P(RemapStreamOn, StrictCountsWaitReadyAsATouch) {
  RemapStream pipe = open(
      {.bytes = 10 * block, .read_ahead_blocks = 6, .consumer_comeback_blocks = 0, .strict = true});
  for (uint64_t i = 0; i < 5; ++i) pipe.writer()[i * block] = 'x';
  EXPECT_EQ(pipe.reader()[0], 'x');
  ASSERT_TRUE(pipe.wait_ready(2 * block));
  EXPECT_FALSE(pipe.prepare_read(pipe.reader(), 1));
}

TEST_P(RemapStreamOn, CancellingEndsTheOwnWait) {
  RemapStream pipe = open({.bytes = 10 * block});
  std::jthread canceller([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(a_while_ms));
    pipe.cancel(Side::consumer);
  });
  auto ready = pipe.wait_ready(0);
  ASSERT_FALSE(ready);
  EXPECT_NE(ready.error().message().find("cancel()"), std::string::npos);
}

TEST_P(RemapStreamOn, AStrictStreamEndsInZerosAfterARefusedStore) {
  RemapStream pipe = open({.bytes = 2 * block,
                           .read_ahead_blocks = 2,
                           .producer_comeback_blocks = 0,
                           .policy = ErrorPolicy::recover,
                           .strict = true});
  std::memset(pipe.writer(), 'x', 2 * block);
  EXPECT_FALSE(RecoveryPoint::run([&] { pipe.writer()[2 * block] = 'x'; }));
  ASSERT_TRUE(pipe.finish(block + 10));
  EXPECT_EQ(std::count(pipe.reader(), pipe.reader() + 2 * block, 'x'),
            static_cast<ptrdiff_t>(block + 10));
}

// ---- Options::system_calls

// Skipped if the kernel lacks it or this user may not use it.
class RemapStreamForSystemCalls : public ::testing::Test {
 protected:
  void SetUp() override {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    if (auto events = os::Userfault::open_privileged(); !events)
      GTEST_SKIP() << events.error().message();
    auto pipe = RemapStream::open({.bytes = 1, .system_calls = true});
    ASSERT_TRUE(pipe) << pipe.error().message();
  }
  RemapStream open(RemapStream::Options options) const {
    options.system_calls = true;
    if (options.block_bytes == 4 * MiB) options.block_bytes = block;
    auto pipe = RemapStream::open(options);
    EXPECT_TRUE(pipe) << pipe.error().message();
    return std::move(*pipe);
  }
};

TEST_F(RemapStreamForSystemCalls, LoadsAndStoresWorkAsEver) {
  constexpr uint64_t items = 300 * block / sizeof(uint64_t) + 5;
  for (size_t block_bytes : {4 * KiB, 64 * KiB, 2 * MiB}) {
    RemapStream pipe = open({.bytes = items * sizeof(uint64_t), .block_bytes = block_bytes});
    std::jthread producer([&] {
      std::iota(pipe.writer<uint64_t>(), pipe.writer<uint64_t>() + items, uint64_t{7});
      EXPECT_TRUE(pipe.finish(items * sizeof(uint64_t)));
    });
    const uint64_t* data = pipe.reader<uint64_t>();
    uint64_t wrong = 0;
    for (uint64_t i = 0; i < items; ++i) wrong += data[i] != i + 7;
    EXPECT_EQ(wrong, 0u);
  }
}

// One system call for a stream far longer than its memory: read() into one stream, write() out of
// another.
TEST_F(RemapStreamForSystemCalls, AWholeStreamGoesThroughOneSystemCall) {
  constexpr size_t bytes = 200 * block + 123;
  RemapStream from = open({.bytes = bytes});
  RemapStream to = open({.bytes = bytes});
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  std::jthread producer([&] {
    std::iota(from.writer<uint8_t>(), from.writer<uint8_t>() + bytes, uint8_t{1});
    EXPECT_TRUE(from.finish(bytes));
  });
  std::jthread writer([&] {
    EXPECT_EQ(::write(ends[1], from.reader(), bytes), static_cast<ssize_t>(bytes));
    ::close(ends[1]);
  });
  std::thread reader([&] {
    size_t done = 0;  // a pipe returns what it has
    for (ssize_t some; (some = ::read(ends[0], to.writer() + done, bytes - done)) > 0;) {
      done += static_cast<size_t>(some);
    }
    EXPECT_EQ(done, bytes);
    EXPECT_TRUE(to.finish(done));
  });
  const uint8_t* data = to.reader<uint8_t>();
  uint64_t wrong = 0;
  for (uint64_t i = 0; i < bytes; ++i) wrong += data[i] != static_cast<uint8_t>(i + 1);
  EXPECT_EQ(wrong, 0u);
  reader.join();
  ::close(ends[0]);
}

TEST_F(RemapStreamForSystemCalls, ErrorsReachSystemCallsAndCode) {
  RemapStream pipe = open({.bytes = 10 * block, .policy = ErrorPolicy::recover});
  pipe.fail(Side::producer, Error{ErrorCode::io, "read the tape"});
  int null_fd = ::open("/dev/zero", O_RDONLY);
  ASSERT_GE(null_fd, 0);
  EXPECT_EQ(::read(null_fd, pipe.reader() + 500, 100), -1);  // stores into a missing block
  EXPECT_EQ(errno, EFAULT);
  ::close(null_fd);
  auto read = RecoveryPoint::run([&] { return pipe.reader()[0]; });
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, ErrorCode::io);
  EXPECT_NE(read.error().message().find("read the tape"), std::string::npos)
      << read.error().message();
  EXPECT_DEATH(
      {
        RemapStream stopping = open({.bytes = 10 * block, .name = "stopping"});
        stopping.cancel(Side::consumer);
        std::memset(stopping.writer(), 1, 10 * block);
      },
      "stopping: cannot serve the producer in block");
}

TEST(RemapStream, InvalidOptionsAreRefused) {
  for (RemapStream::Options options :
       {RemapStream::Options{.bytes = 1, .block_bytes = 2048},
        RemapStream::Options{.bytes = 1, .block_bytes = 12288},
        RemapStream::Options{.bytes = 1, .block_bytes = 0}, RemapStream::Options{.bytes = ~0ull},
        RemapStream::Options{.bytes = 1, .read_ahead_blocks = ~0u}}) {
    auto pipe = RemapStream::open(options);
    ASSERT_FALSE(pipe);
    EXPECT_EQ(pipe.error().code, ErrorCode::invalid_argument);
  }
}

TEST(RemapStream, TenTebibytesOfAddressesCostAFewBlocks) {
  if (os::shadowed) GTEST_SKIP() << "sanitizers need the address space";
  auto pipe = RemapStream::open({.bytes = 10 * TiB});
  ASSERT_TRUE(pipe) << pipe.error().message();
  EXPECT_EQ(pipe->memory_bytes(), 20 * MiB);
  std::jthread producer([&] {
    pipe->writer()[10 * TiB - 1] = 'z';
    EXPECT_TRUE(pipe->finish(10 * TiB));
  });
  EXPECT_EQ(pipe->reader()[10 * TiB - 1], 'z');
}

TEST(RemapStream, CanBeMoved) {
  RemapStream pipe = std::move(*RemapStream::open({.bytes = block}));
  std::strcpy(pipe.writer(), "text");
  RemapStream other = std::move(pipe);
  ASSERT_TRUE(other.finish(4));
  pipe = std::move(other);
  EXPECT_STREQ(pipe.reader(), "text");
}

TEST(RemapStream, ASparseStreamTakesMemoryAsItIsWritten) {
  if (os::shadowed) GTEST_SKIP() << "a sanitizer's own memory counts, too";
  constexpr uint32_t comeback = 2000;
  const uint64_t before = os::resident_memory().bytes;
  auto opened = RemapStream::open({.bytes = GiB,
                                   .block_bytes = block,
                                   .consumer_comeback_blocks = comeback,
                                   .mechanism = Mechanism::mremap,
                                   .sparse = true});
  ASSERT_TRUE(opened) << opened.error().message();
  RemapStream stream = std::move(*opened);
  const auto taken = [&] { return os::resident_memory().bytes - before; };
  EXPECT_LT(taken(), 20 * MiB);
  std::jthread producer([&] {
    std::memset(stream.writer(), 'x', 300 * block);
    EXPECT_TRUE(stream.finish(300 * block));
  });
  ASSERT_TRUE(stream.wait_ready(300 * block));
  EXPECT_EQ(std::count(stream.reader(), stream.reader() + 300 * block, 'x'), 300 * block);
  EXPECT_GE(taken(), 300 * block);
  EXPECT_LT(taken(), 300 * block + 20 * MiB);
}

}  // namespace
}  // namespace penstock
