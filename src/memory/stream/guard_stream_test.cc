#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "memory/fault/registry.h"
#include "memory/stream/two_sided_fixture.h"
#include "os/sanitizer.h"
#include "penstock/base.h"
#include "penstock/stream.h"

namespace penstock {
namespace {

using Side = Side;

class GuardStreamTest : public ::testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
  static GuardStream open(GuardStream::Options options) {
    if (options.block_bytes == 4 * MiB) options.block_bytes = block;
    auto pipe = GuardStream::open(options);
    EXPECT_TRUE(pipe) << pipe.error().message();
    return std::move(*pipe);
  }
};

// ---- data

TEST_F(GuardStreamTest, ConsumerMayChangeWhatItReads) {
  GuardStream pipe = open({.bytes = 20 * block, .strict = false});
  std::jthread producer([&] {
    std::memset(pipe.writer(), 1, 20 * block);
    EXPECT_TRUE(pipe.finish(20 * block));
  });
  char* data = pipe.reader();
  for (int i = 0; i < 20; ++i) {
    touch(data + i * block, 5);  // before any load in this block
    EXPECT_EQ(look(data + i * block), 5);
    EXPECT_EQ(look(data + i * block + 1), 1);
    if (i > 0) {
      EXPECT_EQ(look(data + (i - 1) * block), 5);
    }
  }
}

TEST_F(GuardStreamTest, ProducerReadsWhatItWroteAndComesBackWithinL) {
  GuardStream pipe = open({.bytes = 60 * block, .producer_comeback_blocks = 3});
  std::jthread producer([&] {
    char* data = pipe.writer();
    for (int group = 0; group < 60; group += 4) {
      for (int i : {3, 1, 0, 2}) touch(data + (group + i) * block, group + i + 1);
      for (int i : {0, 3, 2, 1}) EXPECT_EQ(look(data + (group + i) * block), group + i + 1);
    }
    EXPECT_TRUE(pipe.finish(60 * block));
  });
  const char* data = pipe.reader();
  for (int i = 0; i < 60; ++i) EXPECT_EQ(look(data + i * block), i + 1);
}

// ---- waits of both sides

TEST_F(GuardStreamTest, ReaderWaitsForTheFirstGuard) {
  GuardStream pipe = open({.bytes = 20 * block, .producer_comeback_blocks = 1});
  std::atomic<bool> started = false;
  std::jthread consumer([&] {
    [[maybe_unused]] char* data = pipe.reader();
    started = true;
  });
  touch(pipe.writer());
  touch(pipe.writer() + block);  // block 0 is still the producer's: L = 1
  EXPECT_FALSE(soon([&] { return started.load(); }, a_while_ms));
  touch(pipe.writer() + 2 * block);
  EXPECT_TRUE(soon([&] { return started.load(); }));
}

TEST_F(GuardStreamTest, ConsumerGetsABlockWhenTheNextOneIsGuarded) {
  GuardStream pipe =
      open({.bytes = 20 * block, .read_ahead_blocks = 4, .producer_comeback_blocks = 1});
  std::atomic<int> read = -1;
  std::jthread consumer([&] {
    const char* data = pipe.reader();
    for (int i = 0; i < 4; ++i) read = look(data + i * block) * 10 + i;
  });
  for (int i = 0; i < 3; ++i) touch(pipe.writer() + i * block, 1);
  EXPECT_FALSE(soon([&] { return read != -1; }, a_while_ms));  // 0 is guarded, 1 is not
  touch(pipe.writer() + block, 2);                             // still the producer's
  touch(pipe.writer() + 3 * block, 1);
  EXPECT_TRUE(soon([&] { return read == 10; }));
  EXPECT_FALSE(soon([&] { return read != 10; }, a_while_ms));
  ASSERT_TRUE(pipe.finish(4 * block));  // now all are complete
  EXPECT_TRUE(soon([&] { return read == 13; }));
}

TEST_F(GuardStreamTest, ProducerRunsAheadByReadAheadAndComeback) {
  for (uint32_t ahead : {1, 2, 5}) {
    for (uint32_t comeback : {0, 1, 3}) {
      GuardStream pipe = open(
          {.bytes = 30 * block, .read_ahead_blocks = ahead, .producer_comeback_blocks = comeback});
      const uint32_t room = ahead + comeback;
      std::atomic<uint32_t> written = 0;
      std::jthread producer([&] {
        for (uint32_t i = 0; i < 20; ++i) {
          touch(pipe.writer() + i * block);
          written = i + 1;
        }
        EXPECT_TRUE(pipe.finish(20 * block));
      });
      EXPECT_TRUE(soon([&] { return written == room; }));
      EXPECT_FALSE(soon([&] { return written > room; }, a_while_ms / 3));
      const char* data = pipe.reader();
      look(data);
      EXPECT_TRUE(soon([&] { return written == room + 1; }));
      EXPECT_FALSE(soon([&] { return written > room + 1; }, a_while_ms / 3));
      for (int i = 1; i < 20; ++i) look(data + i * block);
    }
  }
}

// The least read-ahead, and one thread in both roles: the tightest case that the rules allow.
TEST_F(GuardStreamTest, OneThreadCanBeBothSidesAtADistance) {
  constexpr uint64_t blocks = 500;
  for (uint32_t comeback : {0, 2}) {
    GuardStream pipe = open({.bytes = blocks * block,
                             .read_ahead_blocks = 3,
                             .producer_comeback_blocks = comeback,
                             .consumer_comeback_blocks = 0});
    char* data = pipe.writer();
    for (uint64_t i = 0; i < blocks; ++i) {
      touch(data + i * block, static_cast<int>(i));
      if (i < comeback + 2) continue;
      const uint64_t behind = i - comeback - 2;
      ASSERT_EQ(look(data + behind * block), behind % 256);
    }
  }
}

// A thread that consumed takes over as the producer and does not wait for itself.
TEST_F(GuardStreamTest, AConsumersThreadMayTakeOverAsTheProducer) {
  constexpr uint64_t blocks = 40, first = 5;
  GuardStream pipe = open({.bytes = blocks * block,
                           .read_ahead_blocks = 3,
                           .producer_comeback_blocks = 0,
                           .consumer_comeback_blocks = 0});
  char* const data = pipe.writer();
  std::atomic<uint64_t> seen = 0;
  std::jthread([&] {
    for (uint64_t i = 0; i < 3; ++i) touch(data + i * block);
  }).join();
  EXPECT_EQ(look(pipe.reader()), 'x');
  std::jthread consumer([&] {
    // Takes over when the producer has to wait.
    std::this_thread::sleep_for(std::chrono::milliseconds(a_while_ms));
    for (uint64_t i = 0; i < blocks; ++i) {
      look(pipe.reader() + i * block);
      seen = i;
    }
  });
  char* const taken_over = pipe.writer();
  for (uint64_t i = first; i < blocks; ++i) touch(taken_over + i * block);
  EXPECT_TRUE(pipe.finish(blocks * block));
  consumer.join();
  EXPECT_EQ(seen, blocks - 1);
}

// The number of calls of writer() and reader() makes no difference.
TEST_F(GuardStreamTest, AThreadThatIsBothSidesDoesNotWaitForItself) {
  constexpr uint64_t ahead = 4;
  for (const bool asks_again : {false, true}) {
    EXPECT_DEATH(
        {
          GuardStream pipe = open({.bytes = 40 * block,
                                   .read_ahead_blocks = ahead,
                                   .producer_comeback_blocks = 0,
                                   .consumer_comeback_blocks = 0});
          char* const data = pipe.writer();
          for (uint64_t i = 0; i < ahead; ++i) touch(data + i * block);
          look(pipe.reader());
          for (uint64_t i = ahead; i < 40; ++i)
            touch((asks_again ? pipe.writer() : data) + i * block);
        },
        "is the other side as well");
  }
}

// ---- memory

// Returns resident bytes of the whole range, guarded blocks included.
uint64_t resident_bytes(const GuardStream& pipe, uint64_t bytes) {
  std::vector<unsigned char> pages(bytes / 4096);
  EXPECT_EQ(mincore(pipe.writer(), bytes, pages.data()), 0) << std::strerror(errno);
  return 4096 * static_cast<uint64_t>(
                    std::count_if(pages.begin(), pages.end(), [](auto page) { return page & 1; }));
}

TEST_F(GuardStreamTest, MemoryIsTheWindowAndNoMore) {
  for (size_t block_bytes : {4 * KiB, 64 * KiB, 2 * MiB}) {
    for (auto [ahead, producers, consumers] :
         {std::array{1u, 0u, 0u}, std::array{2u, 1u, 1u}, std::array{1u, 3u, 2u}}) {
      const uint64_t blocks = 40, bytes = blocks * block_bytes;
      GuardStream pipe = open({.bytes = bytes,
                               .block_bytes = block_bytes,
                               .read_ahead_blocks = ahead,
                               .producer_comeback_blocks = producers,
                               .consumer_comeback_blocks = consumers});
      const uint64_t most = (ahead + producers + consumers + 1) * block_bytes;
      EXPECT_EQ(pipe.memory_bytes(), 0u);
      std::jthread producer([&] {
        std::memset(pipe.writer(), 'x', bytes);
        EXPECT_TRUE(pipe.finish(bytes));
      });
      const char* data = pipe.reader();
      for (uint64_t i = 0; i < blocks; ++i) {
        ASSERT_EQ(look(data + i * block_bytes), 'x');
        ASSERT_LE(resident_bytes(pipe, bytes), most);
        ASSERT_LE(pipe.memory_bytes(), most);
        if (i == blocks / 2) {  // it is reached: the bound is exact
          EXPECT_TRUE(soon([&] { return resident_bytes(pipe, bytes) == most; }));
          EXPECT_EQ(pipe.memory_bytes(), most);
        }
      }
      producer.join();
      pipe.cancel(Side::consumer);  // both are done
      EXPECT_EQ(resident_bytes(pipe, bytes), 0u);
      EXPECT_EQ(pipe.memory_bytes(), 0u);
    }
  }
}

TEST_F(GuardStreamTest, BlocksOfTwoMebibytesAreHugePagesAlsoUnderAGuard) {
  std::ifstream enabled("/sys/kernel/mm/transparent_hugepage/enabled");
  std::string modes((std::istreambuf_iterator<char>(enabled)), {});
  if (modes.empty() || modes.find("[never]") != std::string::npos) {
    GTEST_SKIP() << "no transparent huge pages here";
  }
  GuardStream pipe =
      open({.bytes = 64 * MiB, .block_bytes = 2 * MiB, .producer_comeback_blocks = 0});
  std::memset(pipe.writer(), 'x', 4 * MiB);  // 0 is guarded, 1 is open
  std::ifstream smaps("/proc/self/smaps");
  uint64_t begin = 0, end = 0, huge_kib = 0, guarded_huge_kib = 0;
  std::string permissions;
  for (std::string line; std::getline(smaps, line);) {
    unsigned long long first, last, kib;
    char rights[5];
    if (std::sscanf(line.c_str(), "%llx-%llx %4s", &first, &last, rights) == 3) {
      begin = first, end = last, permissions = rights;
    } else if (std::sscanf(line.c_str(), "AnonHugePages: %llu", &kib) == 1) {
      const auto address = reinterpret_cast<uintptr_t>(pipe.writer());
      if (end <= address || begin >= address + 64 * MiB) continue;
      huge_kib += kib;
      if (permissions.starts_with("---")) guarded_huge_kib += kib;
    }
  }
  if (huge_kib == 0) GTEST_SKIP() << "no free huge page at the moment";
  EXPECT_EQ(huge_kib, 4096u);
  EXPECT_EQ(guarded_huge_kib, 2048u);
}

TEST_F(GuardStreamTest, TenTebibytesOfAddressesCostNothing) {
  if (os::shadowed) GTEST_SKIP() << "sanitizers need the address space";
  auto pipe = GuardStream::open({.bytes = 10 * TiB});
  ASSERT_TRUE(pipe) << pipe.error().message();
  EXPECT_EQ(pipe->memory_bytes(), 0u);
  std::jthread producer([&] {
    touch(pipe->writer());
    touch(pipe->writer() + 10 * TiB - 1, 'z');
    EXPECT_TRUE(pipe->finish(10 * TiB));
  });
  EXPECT_EQ(look(pipe->reader()), 'x');
  EXPECT_EQ(look(pipe->reader() + 10 * TiB - 1), 'z');
}

// ---- jumps

TEST_F(GuardStreamTest, AConsumerMayJumpOverGuardsIntoTheMiddleOfABlock) {
  GuardStream pipe = open({.bytes = 60 * block, .read_ahead_blocks = 8});
  std::jthread producer([&] {
    for (int i = 0; i < 60; ++i) std::memset(pipe.writer() + i * block, i + 1, block);
    EXPECT_TRUE(pipe.finish(60 * block));
  });
  const char* data = pipe.reader();
  for (uint64_t i = 0; i < 60; i += 5) {
    ASSERT_GT(pipe.wait_ready(i * block).value(), i * block);
    EXPECT_EQ(look(data + i * block + block / 2), i + 1);
    if (i > 0) {
      EXPECT_EQ(look(data + i * block - 1), i);  // skipped, but within M
    }
  }
}

TEST_F(GuardStreamTest, AConsumerThatJumpsBeyondTheProducerWaitsForIt) {
  GuardStream pipe = open({.bytes = 400 * block});
  std::atomic<bool> jumped = false;
  std::jthread producer([&] {
    touch(pipe.writer(), 1);
    for (int i = 1; i < 400; ++i) {
      if (i == 4) {
        EXPECT_TRUE(soon([&] { return jumped.load(); }));
      }
      std::memset(pipe.writer() + i * block, i % 100 + 1, block);
    }
    EXPECT_TRUE(pipe.finish(400 * block));
  });
  const char* data = pipe.reader();
  jumped = true;
  EXPECT_EQ(look(data + 300 * block + 77), 1);
  EXPECT_EQ(look(data + 299 * block), 100);
  EXPECT_EQ(look(data + 399 * block), 100);
}

TEST_F(GuardStreamTest, WaitReadyReturnsTheEndReadableWithoutWaiting) {
  GuardStream pipe =
      open({.bytes = 90 * block, .read_ahead_blocks = 5, .producer_comeback_blocks = 0});
  for (int i = 0; i < 4; ++i) touch(pipe.writer() + i * block);
  EXPECT_EQ(pipe.wait_ready(0), 2 * block);  // 0 to 2 are complete, 2 guards 1
  constexpr uint64_t bytes = 77 * block + 3;
  std::jthread producer([&] {
    std::memset(pipe.writer() + 3 * block, 1, bytes - 3 * block);
    EXPECT_TRUE(pipe.finish(bytes));
  });
  uint64_t sum = 0;
  for (uint64_t at = 3 * block, ready; (ready = pipe.wait_ready(at).value()) > at; at = ready) {
    for (uint64_t i = at; i < ready; ++i) sum += look(pipe.reader() + i);
  }
  EXPECT_EQ(sum, bytes - 3 * block);
}

// ---- many threads

TEST_F(GuardStreamTest, SeveralThreadsShareASide) {
  expect_threads_to_share_a_side(open, 60, true);
}

// ---- schedules: both sides take random steps within their rules, beside a plain array

struct Step {
  enum Kind { store, load, jump } kind;
  uint64_t word;
  uint64_t value;  // stored value
};

struct Schedule {
  GuardStream::Options options;
  std::vector<Step> producer, consumer;
  std::vector<uint64_t> model;     // contents that the consumer finds
  uint64_t bytes = 0;              // the producer's finish()
  size_t fails_at = ~size_t{0};    // the producer's step at which it gives up instead
  size_t cancels_at = ~size_t{0};  // the consumer's step at which it cancels
};

Schedule make_schedule(uint64_t seed) {
  std::mt19937_64 random(seed);
  auto below = [&](uint64_t bound) { return bound == 0 ? 0 : random() % bound; };
  Schedule schedule;
  const size_t sizes[] = {4 * KiB, 4 * KiB, 16 * KiB, 64 * KiB, 2 * MiB};
  const size_t block_bytes = sizes[below(std::size(sizes))];
  const int64_t blocks = 1 + static_cast<int64_t>(below(block_bytes == 2 * MiB ? 12 : 120));
  const int64_t ahead = 1 + static_cast<int64_t>(below(4));
  const int64_t producers = static_cast<int64_t>(below(4));
  const int64_t consumers = static_cast<int64_t>(below(4));
  const ErrorPolicy policies[] = {ErrorPolicy::recover, ErrorPolicy::zeros};
  schedule.options = {.bytes = static_cast<uint64_t>(blocks) * block_bytes,
                      .block_bytes = block_bytes,
                      .read_ahead_blocks = static_cast<uint32_t>(ahead),
                      .producer_comeback_blocks = static_cast<uint32_t>(producers),
                      .consumer_comeback_blocks = static_cast<uint32_t>(consumers),
                      .policy = policies[below(2)],
                      .strict = below(2) == 0};
  const uint64_t words = block_bytes / sizeof(uint64_t);
  auto word_in = [&](int64_t position) {
    return static_cast<uint64_t>(position) * words + below(words);
  };
  std::vector<uint64_t>& model = schedule.model;
  model.resize(static_cast<size_t>(blocks) * words);

  int64_t head = -1;
  const auto store = [&](uint64_t word) {
    model[word] = random();
    schedule.producer.push_back({Step::store, word, model[word]});
  };
  while (true) {
    const int64_t next = head + 1 + static_cast<int64_t>(below(8) == 0 ? below(5) : 0);
    if (next >= blocks) break;
    head = next;
    for (uint64_t i = below(6); i <= 6; ++i) store(word_in(head));
    while (below(3) == 0) {
      const int64_t back = std::min(head, static_cast<int64_t>(below(producers + 1)));
      store(word_in(head - back));
    }
  }
  // The end lies anywhere in the producer's window; a producer that gives up leaves the blocks that
  // it has completed by then.
  auto released_at = [&](int64_t at) {
    return static_cast<uint64_t>(std::max(at - producers, int64_t{0})) * block_bytes;
  };
  const uint64_t released = released_at(head);
  schedule.bytes = released + below(schedule.options.bytes - released + 1);
  uint64_t complete_bytes = schedule.bytes;
  if (below(4) == 0) {
    schedule.fails_at = below(schedule.producer.size());
    int64_t head_then = -1;
    for (size_t i = 0; i < schedule.fails_at; ++i) {
      head_then = std::max(head_then, static_cast<int64_t>(schedule.producer[i].word / words));
    }
    complete_bytes = released_at(head_then);
  }
  const size_t whole_words = complete_bytes / sizeof(uint64_t);
  if (whole_words < model.size()) {
    model[whole_words] &= (uint64_t{1} << (8 * (complete_bytes % sizeof(uint64_t)))) - 1;
    std::fill(model.begin() + static_cast<ptrdiff_t>(whole_words) + 1, model.end(), 0);
  }

  const int64_t readable = static_cast<int64_t>((schedule.bytes + block_bytes - 1) / block_bytes);
  for (head = -1; head + 1 < readable;) {
    if (below(8) == 0) {
      head = std::min(head + 1 + static_cast<int64_t>(below(6)), readable - 1);
      schedule.consumer.push_back({Step::jump, static_cast<uint64_t>(head) * words, 0});
    } else {
      ++head;
    }
    schedule.consumer.push_back({Step::load, word_in(head), 0});
    for (uint64_t i = below(6); i < 6; ++i) {
      const auto back = std::min(head, static_cast<int64_t>(below(consumers + 1)));
      schedule.consumer.push_back({Step::load, word_in(head - back), 0});
    }
  }
  if (below(4) == 0) schedule.cancels_at = below(schedule.consumer.size() + 1);
  return schedule;
}

// Takes steps until the end, or until the stream ends them.
template <class Work>
bool runs_to_the_end(Work&& work) {
  auto result = RecoveryPoint::run(work);
  return result.has_value();
}

void run_schedule(const Schedule& schedule) {
  auto opened = GuardStream::open(schedule.options);
  ASSERT_TRUE(opened) << opened.error().message();
  GuardStream& pipe = *opened;
  const auto& options = schedule.options;
  const uint64_t most = (options.read_ahead_blocks + options.producer_comeback_blocks +
                         options.consumer_comeback_blocks + 1) *
                        options.block_bytes;
  const bool fails = schedule.fails_at < schedule.producer.size();
  const bool cancels = schedule.cancels_at < schedule.consumer.size();

  std::jthread producer([&] {
    volatile uint64_t* data = pipe.writer<uint64_t>();
    bool through = runs_to_the_end([&] {
      for (size_t i = 0; i < schedule.producer.size(); ++i) {
        if (i == schedule.fails_at) {
          pipe.cancel(Side::producer);
          return;
        }
        data[schedule.producer[i].word] = schedule.producer[i].value;
      }
    });
    EXPECT_TRUE(through || cancels);
    if (!through) {
      pipe.cancel(Side::producer);
    } else if (!fails) {
      Status finished = pipe.finish(schedule.bytes);
      EXPECT_TRUE(finished || cancels) << finished.error().message();
    }
  });

  const volatile uint64_t* data = pipe.reader<uint64_t>();
  std::atomic<uint64_t> wrong = 0, above = 0, loads = 0;
  auto consume = [&] {
    for (size_t i = 0; i < schedule.consumer.size(); ++i) {
      if (i == schedule.cancels_at) return;
      const Step& step = schedule.consumer[i];
      if (step.kind == Step::jump) {
        auto ready = pipe.wait_ready(step.word * sizeof(uint64_t));
        if (!ready || *ready <= step.word * sizeof(uint64_t)) return;
        continue;
      }
      wrong += data[step.word] != schedule.model[step.word];
      ++loads;
      if (i % 8 == 0) above += pipe.memory_bytes() > most;
    }
  };
  const bool through = runs_to_the_end(consume);
  if (cancels) pipe.cancel(Side::consumer);
  if (!through) pipe.cancel(Side::consumer);
  EXPECT_TRUE(through || fails);
  EXPECT_EQ(wrong, 0u);
  EXPECT_EQ(above, 0u);
  EXPECT_TRUE(loads > 0 || fails || cancels || schedule.consumer.empty());
}

TEST_F(GuardStreamTest, RandomSchedulesAgreeWithAPlainArray) {
  const uint64_t first = std::random_device()();
  const int schedules = os::shadowed ? 60 : 400;
  for (int i = 0; i < schedules; ++i) {
    const uint64_t seed = first + static_cast<uint64_t>(i);
    SCOPED_TRACE("seed " + std::to_string(seed));
    run_schedule(make_schedule(seed));
    if (HasFailure()) return;
  }
}

// ---- giving up

// ---- limits

// Runs both sides in one thread, so that nothing depends on which is faster.
GuardStream filled(const GuardStream::Options& options) {
  GuardStream pipe = std::move(*GuardStream::open(options));
  for (uint64_t i = 0; i < 6; ++i) touch(pipe.writer() + i * block);
  return pipe;
}
GuardStream::Options narrow(bool strict) {
  return {.bytes = 20 * block,
          .block_bytes = block,
          .read_ahead_blocks = 6,
          .producer_comeback_blocks = 2,
          .consumer_comeback_blocks = 1,
          .strict = strict,
          .name = "narrow pipe"};
}

TEST_F(GuardStreamTest, AConsumerBehindItsWindowIsAlwaysFound) {
  for (bool strict : {false, true}) {
    EXPECT_DEATH(
        {
          GuardStream pipe = filled(narrow(strict));
          if (pipe.finish(6 * block)) std::fputs("finished\n", stderr);
          for (uint64_t i : {0, 1, 2, 1}) look(pipe.reader() + i * block);
          std::fputs("the consumer came back\n", stderr);
          look(pipe.reader());
        },
        "finished.*the consumer came back.*narrow pipe.*consumer in block 0: .*block 2 "
        ".*consumer_comeback_blocks is 1, at least 2");
  }
}

TEST_F(GuardStreamTest, AStoreToABlockThatWasGivenBackIsAlwaysFound) {
  for (bool strict : {false, true}) {
    EXPECT_DEATH(
        {
          GuardStream pipe = filled(narrow(strict));
          for (uint64_t i : {0, 1}) look(pipe.reader() + i * block);
          touch(pipe.writer() + 6 * block);
          look(pipe.reader() + 2 * block);
          std::fputs("the producer came back\n", stderr);
          touch(pipe.writer());
        },
        "the producer came back.*narrow pipe.*producer in block 0: .*block 6 "
        ".*producer_comeback_blocks is 2, at least 6");
  }
}

TEST_F(GuardStreamTest, StrictFindsStoresToGuardedBlocksAndToThoseOfTheConsumer) {
  EXPECT_DEATH(
      {
        GuardStream pipe = filled(narrow(true));
        for (uint64_t i : {3, 4, 5}) touch(pipe.writer() + i * block);  // within L
        std::fputs("the producer came back\n", stderr);
        touch(pipe.writer() + 2 * block);
      },
      "the producer came back.*narrow pipe.*producer in block 2: .*producer_comeback_blocks is 2, "
      "at least 3");
  EXPECT_DEATH(
      {
        GuardStream pipe = filled(narrow(true));
        if (look(pipe.reader()) == 'x') std::fputs("the consumer is there\n", stderr);
        touch(pipe.writer());
      },
      "the consumer is there.*narrow pipe.*producer in block 0: .*producer_comeback_blocks is 2, "
      "at least 5");
  EXPECT_DEATH(
      {
        GuardStream pipe = filled(narrow(true));
        if (pipe.finish(6 * block)) std::fputs("finished\n", stderr);
        touch(pipe.writer() + 5 * block);
      },
      "finished.*producer in block 5: it said that it was done");
}

TEST_F(GuardStreamTest, InvalidOptionsAreRefused) {
  for (GuardStream::Options options :
       {GuardStream::Options{.bytes = 1, .block_bytes = 2048},
        GuardStream::Options{.bytes = 1, .block_bytes = 12288},
        GuardStream::Options{.bytes = 1, .block_bytes = 0}, GuardStream::Options{.bytes = ~0ull},
        GuardStream::Options{.bytes = 1, .read_ahead_blocks = 0},
        GuardStream::Options{.bytes = 1, .read_ahead_blocks = ~0u}}) {
    auto pipe = GuardStream::open(options);
    ASSERT_FALSE(pipe);
    EXPECT_EQ(pipe.error().code, ErrorCode::invalid_argument);
  }
}

// ---- calls

TEST_F(GuardStreamTest, PrepareRefusesMoreThanOneWindow) {
  GuardStream pipe = open({.bytes = 9 * block});
  char other[16];
  char* data = pipe.writer();
  EXPECT_EQ(pipe.prepare_write(other, 16).error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(pipe.prepare_write(data, 2 * block + 1).error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(pipe.prepare_read(data + 10 * block - 1, 2).error().code, ErrorCode::invalid_argument);
  EXPECT_TRUE(pipe.prepare_write(data, 2 * block));
  EXPECT_TRUE(pipe.prepare_write(nullptr, 0));
}

// The helpers for system calls prepare through the registry: they know nothing but an address.
TEST_F(GuardStreamTest, ARegionPreparesAWindowAtATime) {
  GuardStream pipe = open({.bytes = 9 * block});
  auto* data = reinterpret_cast<std::byte*>(pipe.writer());
  fault::Handler* region = fault::find(data);
  ASSERT_NE(region, nullptr);
  EXPECT_EQ(region->prepare(data + 5, 9 * block - 5, fault::Access::write), 2 * block - 5);
  EXPECT_EQ(region->prepare(data + block, 10, fault::Access::write), 10u);
  std::memset(data, 7, 2 * block);
  ASSERT_TRUE(pipe.finish(2 * block));
  EXPECT_EQ(region->prepare(data + 1, 9 * block, fault::Access::read), 2 * block - 1);
  EXPECT_EQ(region->prepare(data + 4 * block, 1, fault::Access::read).error().code,
            ErrorCode::invalid_argument);
}

TEST_F(GuardStreamTest, CanBeMoved) {
  GuardStream pipe = std::move(*GuardStream::open({.bytes = block}));
  std::strcpy(pipe.writer(), "text");
  GuardStream other = std::move(pipe);
  ASSERT_TRUE(other.finish(4));
  pipe = std::move(other);
  EXPECT_EQ(std::string(pipe.reader(), 5), std::string("text\0", 5));
}

}  // namespace
}  // namespace penstock
