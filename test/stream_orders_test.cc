// Tests of allowed and forbidden orders of stores and loads, on every kind of stream and mechanism: each side gets the right
// bytes or an error, and neither waits forever. Failures print their seed; a watchdog stops a run that does not end.

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/bits.h"
#include "base/random.h"
#include "base/trials.h"
#include "io/whole_file_fixture.h"
#include "penstock/penstock.hpp"

namespace penstock {
namespace {

constexpr size_t block = 16 * KiB;
constexpr uint64_t blocks = 24;
constexpr uint64_t capacity = blocks * block;

// Byte `at` of every stream in this file, never 0.
std::byte byte_at(uint64_t at) {
  return static_cast<std::byte>(1 + mix64(at) % 255);
}
uint64_t word_at(uint64_t at) {
  uint64_t word = 0;
  for (size_t i = 0; i < sizeof word; ++i) reinterpret_cast<std::byte*>(&word)[i] = byte_at(at + i);
  return word;
}
const std::vector<std::byte>& text() {
  static const std::vector<std::byte> bytes = [] {
    std::vector<std::byte> made(capacity);
    for (uint64_t i = 0; i < capacity; ++i) made[i] = byte_at(i);
    return made;
  }();
  return bytes;
}

// Ends the program, printing a name, if the test takes longer than any machine needs.
class Watchdog {
 public:
  explicit Watchdog(std::string what) : what_(std::move(what)), thread_([this] { watch(); }) {}
  ~Watchdog() {
    {
      std::lock_guard lock(mutex_);
      done_ = true;
    }
    changed_.notify_one();
    thread_.join();
  }

 private:
  void watch() {
    std::unique_lock lock(mutex_);
    if (changed_.wait_for(lock, std::chrono::seconds(100), [this] { return done_; })) return;
    fmt::print(stderr, "a side waits for ever: {}\n", what_);
    std::abort();
  }
  std::string what_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
  std::thread thread_;
};

// ---- one access

struct Access {
  uint64_t at;
  bool load = false;
};

// A word accessed by one instruction, which may straddle two blocks.
struct [[gnu::packed]] Word {
  uint64_t value;
};
void store(std::byte* at, uint64_t value) {
  reinterpret_cast<volatile Word*>(at)->value = value;
}
uint64_t load(const std::byte* at) {
  return reinterpret_cast<const volatile Word*>(at)->value;
}

// A walk forward over `bytes`, with occasional steps back by any distance.
struct Walk {
  std::vector<Access> accesses;
  bool breaks_the_rule = false;
};

struct Shape {
  uint32_t read_ahead, producer_comeback, consumer_comeback;
};

Shape draw_shape(Random& random) {
  return {.read_ahead = static_cast<uint32_t>(1 + random.below(4)),
          .producer_comeback = static_cast<uint32_t>(random.below(4)),
          .consumer_comeback = static_cast<uint32_t>(random.below(4))};
}

struct Draw {
  uint32_t comeback;
  uint64_t step_bytes_max;  // forward
  uint64_t backs;           // one in so many steps goes back; 0: none does
  bool loads = false;       // every fourth access is a load
};

Walk draw_walk(Random& random, const Draw& draw) {
  Walk walk;
  uint64_t at = random.below(block), head = 0, farthest = 0;
  while (at + sizeof(uint64_t) <= capacity && walk.accesses.size() < 4000) {
    const uint64_t first = at / block, last = (at + sizeof(uint64_t) - 1) / block;
    walk.accesses.push_back({at, draw.loads && random.below(4) == 0});
    head = std::max(head, last);
    if (first + draw.comeback < head) walk.breaks_the_rule = true;
    farthest = std::max(farthest, at);
    const bool back = draw.backs != 0 && random.below(draw.backs) == 0;
    const uint64_t reach = random.below(2) == 0 ? farthest : std::min(farthest, 3 * block);
    at = back ? farthest - random.below(reach + 1)
              : (random.below(8) == 0 ? farthest : at) + 1 + random.below(draw.step_bytes_max);
  }
  return walk;
}

// ---- both sides of one stream

struct Outcome {
  Status produced, consumed;
  size_t stored = 0;                                  // completed accesses of the producer
  std::vector<std::pair<uint64_t, uint64_t>> loaded;  // the consumer's loads: place and value
};

// Runs both sides in threads of their own. `stream` has the interface of RemapStream.
template <class Stream>
Outcome run(Stream& stream, const Walk& producer, const Walk& consumer) {
  Outcome outcome;
  outcome.loaded.reserve(consumer.accesses.size());
  {
    std::jthread thread([&] {
      std::byte* const to = stream.template writer<std::byte>();
      outcome.produced = RecoveryPoint::run([&] {
        for (const Access& access : producer.accesses) {
          if (access.load) {
            (void)load(to + access.at);
          } else {
            store(to + access.at, word_at(access.at));
          }
          ++outcome.stored;
        }
      });
      if (outcome.produced) {
        outcome.produced = stream.finish(capacity);
      } else {
        stream.fail(Side::producer, outcome.produced.error());
      }
    });
    outcome.consumed = RecoveryPoint::run([&] {
      const std::byte* const from = stream.template reader<std::byte>();
      for (const Access& access : consumer.accesses) {
        const uint64_t value = load(from + access.at);
        outcome.loaded.emplace_back(access.at, value);
      }
    });
    stream.fail(Side::consumer,
                outcome.consumed ? Error{ErrorCode::cancelled, "go on"} : outcome.consumed.error());
  }
  return outcome;
}

// Whether the status is that of a producer whose consumer has read enough and given up.
bool is_end(const Status& status) {
  return !status && status.error().code == ErrorCode::cancelled;
}

// The data that the stores of a walk leave. Skipped bytes of a touched block are undefined.
class Written {
 public:
  void add(uint64_t at) {
    touched_[at / block] = touched_[(at + sizeof(uint64_t) - 1) / block] = true;
    std::fill_n(stored_.begin() + static_cast<ptrdiff_t>(at), sizeof(uint64_t), true);
  }
  bool is_right(uint64_t at, std::byte got) const {
    if (stored_[at]) return got == byte_at(at);
    return touched_[at / block] || got == std::byte{0};
  }

 private:
  std::vector<bool> stored_ = std::vector<bool>(capacity);
  std::vector<bool> touched_ = std::vector<bool>(blocks);
};

void expect_right_bytes(const Outcome& outcome, const Walk& producer) {
  Written written;
  for (size_t i = 0; i < outcome.stored; ++i) written.add(producer.accesses[i].at);
  for (const auto& [at, word] : outcome.loaded) {
    for (size_t k = 0; k < sizeof word; ++k) {
      const std::byte got = reinterpret_cast<const std::byte*>(&word)[k];
      ASSERT_TRUE(written.is_right(at + k, got))
          << "byte " << at + k << ", block " << (at + k) / block;
    }
  }
}

// ---- the kinds of streams with two sides

const char* text_of(Mechanism mechanism) {
  if (mechanism == Mechanism::shared) return "shared";
  return mechanism == Mechanism::mremap ? "mremap" : "uffd_move";
}

enum class Kind { remap, guard, process };
struct Place {
  Kind kind;
  Mechanism mechanism;
};
std::string name_of(const testing::TestParamInfo<Place>& info) {
  if (info.param.kind == Kind::guard) return "GuardStream";
  if (info.param.kind == Kind::process) return "ProcessStream";
  return fmt::format("RemapStream_{}", text_of(info.param.mechanism));
}

// Both ends of a ProcessStream, in one process.
struct TwoEnds {
  ProcessStream producer, consumer;
  template <class T>
  T* writer() const {
    return producer.writer<T>();
  }
  template <class T>
  T* reader() const {
    return consumer.reader<T>();
  }
  Status finish(uint64_t bytes) { return producer.finish(bytes); }
  void fail(Side side, const Error& error) {
    (side == Side::producer ? producer : consumer).fail(error);
  }
};

template <class Options>
Options options_of(const Shape& shape, bool strict) {
  Options options;
  options.bytes = capacity;
  options.block_bytes = block;
  options.read_ahead_blocks = shape.read_ahead;
  options.producer_comeback_blocks = shape.producer_comeback;
  options.consumer_comeback_blocks = shape.consumer_comeback;
  options.policy = ErrorPolicy::recover;
  options.strict = strict;
  return options;
}

// Calls use(stream) with a stream of this kind; returns false if the system lacks the mechanism.
template <class Use>
bool with_stream(const Place& place, const Shape& shape, bool strict, Use use) {
  if (place.kind == Kind::guard) {
    auto stream = GuardStream::open(options_of<GuardStream::Options>(shape, strict));
    EXPECT_TRUE(stream);
    use(*stream);
    return true;
  }
  if (place.kind == Kind::process) {
    auto producer =
        ProcessStream::open(options_of<ProcessStream::Options>(shape, strict), Side::producer);
    EXPECT_TRUE(producer);
    auto consumer = ProcessStream::attach(producer->fd(), Side::consumer,
                                          {.policy = ErrorPolicy::recover, .strict = strict});
    EXPECT_TRUE(consumer) << consumer.error().message();
    TwoEnds ends{std::move(*producer), std::move(*consumer)};
    use(ends);
    return true;
  }
  auto options = options_of<RemapStream::Options>(shape, strict);
  options.mechanism = place.mechanism;
  auto stream = RemapStream::open(options);
  if (!stream && stream.error().code == ErrorCode::unsupported) return false;
  EXPECT_TRUE(stream) << stream.error().message();
  use(*stream);
  return true;
}

class StreamOrders : public testing::TestWithParam<Place> {};

constexpr Place all_places[] = {{Kind::remap, Mechanism::shared},
                                {Kind::remap, Mechanism::mremap},
                                {Kind::remap, Mechanism::uffd_move},
                                {Kind::guard, Mechanism::automatic},
                                {Kind::process, Mechanism::automatic}};
INSTANTIATE_TEST_SUITE_P(Kinds, StreamOrders, testing::ValuesIn(all_places), name_of);

// Copies in the order of some C libraries' large memcpy(), on every processor.
void copy_first_bytes_last(std::byte* to, const std::byte* from, size_t bytes) {
  const size_t first = std::min<size_t>(bytes, 64);
  penstock::copy(to + first, from + first, bytes - first);
  penstock::copy(to, from, first);
}
void copy_backward(std::byte* to, const std::byte* from, size_t bytes) {
  std::memcpy(to, from, std::min<size_t>(bytes, 64));
  for (size_t end = bytes; end > 0;) {
    const size_t piece = std::min<size_t>(end, 4 * KiB);
    end -= piece;
    penstock::copy(to + end, from + end, piece);
  }
}
using Copy = void (*)(std::byte*, const std::byte*, size_t);
constexpr Copy wrong_copies[] = {copy_first_bytes_last, copy_backward};

constexpr uint64_t sizes[] = {100, block, 2 * block, 2 * block + 100, 5 * block, 20 * block};
constexpr uint64_t offsets[] = {0, 100, block - 1};

TEST_P(StreamOrders, AWriterThatStoresItsFirstBytesLastIsRightOrAnError) {
  bool had_error = false;
  for (const Copy wrong : wrong_copies) {
    for (const uint64_t bytes : sizes) {
      for (const uint64_t offset : offsets) {
        SCOPED_TRACE(testing::Message() << bytes << " bytes from " << offset);
        const bool works = with_stream(GetParam(), {2, 1, 1}, true, [&](auto& stream) {
          const Watchdog watchdog(fmt::format("{} bytes from {}", bytes, offset));
          Status stored, loaded;
          std::vector<std::byte> got(offset + bytes);
          std::jthread producer([&] {
            stored = RecoveryPoint::run([&] {
              auto* const to = stream.template writer<std::byte>();
              penstock::copy(to, text().data(), offset);
              wrong(to + offset, text().data() + offset, bytes);
            });
            if (stored) {
              stored = stream.finish(offset + bytes);
            } else {
              stream.fail(Side::producer, stored.error());
            }
          });
          loaded = RecoveryPoint::run(
              [&] { penstock::copy(got.data(), stream.template reader<std::byte>(), got.size()); });
          producer.join();
          EXPECT_EQ(stored.has_value(), loaded.has_value());
          if (loaded) {
            EXPECT_TRUE(std::equal(got.begin(), got.end(), text().begin()));
          } else {
            had_error = true;
            EXPECT_NE(stored.error().message().find("penstock::copy"), std::string::npos)
                << stored.error().message();
          }
          // Within a window every order is allowed.
          if (offset % block + bytes <= 2 * block) {
            EXPECT_TRUE(loaded);
          }
        });
        if (!works) GTEST_SKIP() << "this system has no such mechanism";
      }
    }
  }
  EXPECT_TRUE(had_error);
}

TEST_P(StreamOrders, AReaderThatLoadsItsFirstBytesLastIsRightOrAnError) {
  for (const Copy wrong : wrong_copies) {
    for (const uint64_t bytes : sizes) {
      for (const uint64_t offset : offsets) {
        SCOPED_TRACE(testing::Message() << bytes << " bytes from " << offset);
        // A jump over incomplete blocks meets no guard of a GuardStream.
        if (GetParam().kind == Kind::guard && wrong == copy_backward) continue;
        const bool works = with_stream(GetParam(), {2, 1, 1}, true, [&](auto& stream) {
          const Watchdog watchdog(fmt::format("{} bytes from {}", bytes, offset));
          std::vector<std::byte> got(offset + bytes);
          std::jthread producer([&] {
            const Status stored = RecoveryPoint::run([&] {
              penstock::copy(stream.template writer<std::byte>(), text().data(), got.size());
            });
            if (stored) (void)stream.finish(got.size());
          });
          const Status loaded = RecoveryPoint::run([&] {
            const auto* const from = stream.template reader<std::byte>();
            penstock::copy(got.data(), from, offset);
            wrong(got.data() + offset, from + offset, bytes);
          });
          if (loaded) {
            EXPECT_TRUE(std::equal(got.begin(), got.end(), text().begin()));
          } else {
            EXPECT_NE(loaded.error().message().find("penstock::copy"), std::string::npos)
                << loaded.error().message();
          }
          if (offset % block + bytes <= 2 * block) {
            EXPECT_TRUE(loaded);
          }
          stream.fail(Side::consumer, Error{ErrorCode::cancelled, "go on"});
        });
        if (!works) GTEST_SKIP() << "this system has no such mechanism";
      }
    }
  }
}

TEST(StreamMessages, ABreachNamesTheNeededComeback) {
  RemapStream::Options options;
  options.bytes = capacity;
  options.block_bytes = block;
  options.policy = ErrorPolicy::recover;
  for (const uint32_t comeback : {1, 5, 14, 15}) {
    options.consumer_comeback_blocks = comeback;
    auto stream = RemapStream::open(options);
    ASSERT_TRUE(stream);
    std::jthread producer([&] {
      const Status stored =
          RecoveryPoint::run([&] { penstock::copy(stream->writer(), text().data(), 16 * block); });
      if (stored) (void)stream->finish(16 * block);
    });
    // A copy that begins in block 0, and then goes back from block 15 to block 0.
    const Status loaded = RecoveryPoint::run([&] {
      const auto* const from = stream->reader<std::byte>();
      (void)load(from);
      for (uint64_t i = 16; i-- > 0;) (void)load(from + i * block);
    });
    stream->cancel(Side::consumer);
    EXPECT_EQ(loaded.has_value(), comeback == 15);
    if (loaded) continue;
    const std::string message = loaded.error().message();
    EXPECT_NE(message.find(fmt::format("at least {} needed", comeback + 1)), std::string::npos)
        << message;
    EXPECT_TRUE(comeback == 14 || message.find("15 to go back to block 0") != std::string::npos)
        << message;
  }
}

// Stores and loads go back by any distance, from any place: if both sides keep the rules there is no error, if one breaks
// them it gets an error, and all loaded bytes are right.
TEST_P(StreamOrders, DrawnOrdersEndWithRightBytesOrAnError) {
  const uint64_t first = seed_of_run();
  for (uint64_t seed = first; seed < first + trials(400); ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random(seed);
    const Shape shape = draw_shape(random);
    const bool guard = GetParam().kind == Kind::guard;
    const auto draw = [&](uint32_t comeback, bool consumer) {
      constexpr uint64_t backs[] = {0, 3, 20, 200};
      // A reader of a GuardStream goes block by block, since a jump into unfinished blocks meets no guard.
      const uint64_t step_max = consumer && guard ? block / 2 : block << random.below(3);
      return draw_walk(random, {.comeback = comeback,
                                .step_bytes_max = 1 + random.below(step_max),
                                .backs = backs[random.below(4)]});
    };
    const Walk producer = draw(shape.producer_comeback, false);
    const Walk consumer = draw(shape.consumer_comeback, true);
    const bool works = with_stream(GetParam(), shape, true, [&](auto& stream) {
      const Watchdog watchdog(fmt::format("seed {}", seed));
      const Outcome outcome = run(stream, producer, consumer);
      expect_right_bytes(outcome, producer);
      const bool produced = outcome.produced || is_end(outcome.produced);
      if (!producer.breaks_the_rule && !consumer.breaks_the_rule) {
        EXPECT_TRUE(produced) << outcome.produced.error().message();
        EXPECT_TRUE(outcome.consumed) << outcome.consumed.error().message();
      } else if (!producer.breaks_the_rule) {
        EXPECT_FALSE(outcome.consumed);
      } else if (!consumer.breaks_the_rule) {
        EXPECT_FALSE(outcome.produced);
      } else {
        EXPECT_FALSE(outcome.produced && outcome.consumed);
      }
    });
    if (!works) GTEST_SKIP() << "this system has no such mechanism";
    if (HasFailure()) return;
  }
}

// For producers that load, and streams that are not strict, bytes are not checked, but both sides end.
TEST_P(StreamOrders, DrawnOrdersEndInAnyCase) {
  const uint64_t first = seed_of_run();
  for (uint64_t seed = first; seed < first + trials(300); ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random(seed);
    const Shape shape = draw_shape(random);
    const bool strict = random.below(2) == 0;
    const auto draw = [&](bool loads) {
      return draw_walk(random, {.comeback = 0,
                                .step_bytes_max = 1 + random.below(block << random.below(4)),
                                .backs = uint64_t{3} << random.below(5),
                                .loads = loads});
    };
    const Walk producer = draw(random.below(2) == 0);
    const Walk consumer = draw(false);
    const bool works = with_stream(GetParam(), shape, strict, [&](auto& stream) {
      const Watchdog watchdog(fmt::format("seed {}", seed));
      (void)run(stream, producer, consumer);
    });
    if (!works) GTEST_SKIP() << "this system has no such mechanism";
  }
}

// ---- streams with one pointer

class OneSideOrders : public testing::TestWithParam<Mechanism> {};
INSTANTIATE_TEST_SUITE_P(Mechanisms, OneSideOrders,
                         testing::Values(Mechanism::shared, Mechanism::mremap,
                                         Mechanism::uffd_move),
                         [](const auto& it) { return std::string(text_of(it.param)); });

TEST_P(OneSideOrders, DrawnLoadsOfAPullStreamAreRightOrAnError) {
  const uint64_t first = seed_of_run();
  for (uint64_t seed = first; seed < first + trials(200); ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random(seed);
    const auto comeback = static_cast<uint32_t>(random.below(4));
    const Walk walk = draw_walk(random, {.comeback = comeback,
                                         .step_bytes_max = 1 + random.below(3 * block),
                                         .backs = uint64_t{3} << random.below(6)});
    auto stream = PullStream::open({.bytes = capacity,
                                    .block_bytes = block,
                                    .comeback_blocks = comeback,
                                    .policy = ErrorPolicy::recover,
                                    .mechanism = GetParam()},
                                   [](std::span<std::byte> to, uint64_t offset) -> Result<size_t> {
                                     std::memcpy(to.data(), text().data() + offset, to.size());
                                     return to.size();
                                   });
    if (!stream && stream.error().code == ErrorCode::unsupported)
      GTEST_SKIP() << "this system has no such mechanism";
    ASSERT_TRUE(stream);
    uint64_t wrong = 0;
    const Status read = RecoveryPoint::run([&] {
      for (const Access& access : walk.accesses)
        wrong += load(stream->begin<std::byte>() + access.at) != word_at(access.at);
    });
    EXPECT_EQ(wrong, 0u);
    EXPECT_EQ(read.has_value(), !walk.breaks_the_rule);
  }
}

TEST_P(OneSideOrders, DrawnStoresToAVanishingArrayAreRight) {
  auto pool =
      BlockPool::open({.block_bytes = block, .blocks = blocks + 1, .mechanism = GetParam()});
  if (!pool && pool.error().code == ErrorCode::unsupported)
    GTEST_SKIP() << "this system has no such mechanism";
  ASSERT_TRUE(pool);
  const uint64_t first = seed_of_run();
  for (uint64_t seed = first; seed < first + trials(100); ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random(seed);
    const auto comeback = static_cast<uint32_t>(random.below(3));
    auto array = VanishingArray::open(
        *pool, {.bytes = capacity, .comeback_blocks = comeback, .policy = ErrorPolicy::recover});
    ASSERT_TRUE(array);
    const Walk writer = draw_walk(random, {.comeback = comeback,
                                           .step_bytes_max = 1 + random.below(block),
                                           .backs = uint64_t{3} << random.below(6)});
    const Walk reader = draw_walk(random, {.comeback = comeback,
                                           .step_bytes_max = 1 + random.below(block),
                                           .backs = uint64_t{3} << random.below(6)});
    std::set<uint64_t> words;
    auto* const at = array->begin<std::byte>();
    ASSERT_TRUE(RecoveryPoint::run([&] {
      for (const Access& access : writer.accesses) store(at + access.at, word_at(access.at));
    }));
    for (const Access& access : writer.accesses) words.insert(access.at);
    // A load of vanished data is an error; a second pass may begin after it.
    uint64_t wrong = 0;
    (void)RecoveryPoint::run([&] {
      for (const Access& access : reader.accesses) {
        const auto word = words.lower_bound(access.at);
        if (word != words.end()) wrong += load(at + *word) != word_at(*word);
      }
    });
    EXPECT_EQ(wrong, 0u);
  }
}

// ---- sinks

// The text written to a sink, and whether it was closed.
struct Kept {
  std::string text;
  bool closed = false;
};
class KeepingSink final : public Sink {
 public:
  explicit KeepingSink(Kept& kept) : kept_(kept) {}
  Status write(std::span<const std::byte> from) override {
    kept_.text.append(reinterpret_cast<const char*>(from.data()), from.size());
    return {};
  }
  Status close() override {
    kept_.closed = true;
    return {};
  }

 private:
  Kept& kept_;
};

// Whether each byte is right, or was not yet stored when its block was written out.
bool is_text_with_holes(std::string_view bytes) {
  for (size_t i = 0; i < bytes.size(); ++i) {
    const auto byte = static_cast<std::byte>(bytes[i]);
    if (i >= capacity || (byte != text()[i] && byte != std::byte{0})) return false;
  }
  return true;
}
bool is_text(std::string_view bytes) {
  return is_text_with_holes(bytes) && bytes.find('\0') == bytes.npos;
}

// The policy `zeros` lets the writer run to its end, and finish() returns the error.
TEST(SinkStreamOrders, AStoreThatComesBackTooFarMeetsThePolicy) {
  for (const ErrorPolicy policy : {ErrorPolicy::zeros, ErrorPolicy::recover}) {
    for (const Copy wrong : wrong_copies) {
      for (const uint64_t bytes : sizes) {
        for (const uint64_t offset : offsets) {
          SCOPED_TRACE(testing::Message() << bytes << " bytes from " << offset);
          const Watchdog watchdog(fmt::format("{} bytes from {}", bytes, offset));
          Kept kept;
          auto stream = SinkStream::open(std::make_unique<KeepingSink>(kept), "the sink",
                                         {.block_bytes = block, .policy = policy});
          ASSERT_TRUE(stream);
          const Status stored = RecoveryPoint::run([&] {
            penstock::copy(stream->begin(), text().data(), offset);
            wrong(stream->begin() + offset, text().data() + offset, bytes);
          });
          EXPECT_TRUE(policy == ErrorPolicy::recover || stored);
          if (!stored) continue;
          const Status finished = stream->finish(offset + bytes);
          EXPECT_EQ(kept.closed, finished.has_value());
          EXPECT_TRUE(is_text_with_holes(kept.text));
          if (finished) {
            EXPECT_TRUE(is_text(kept.text));
            EXPECT_EQ(kept.text.size(), offset + bytes);
          } else {
            EXPECT_NE(finished.error().message().find("comeback"), std::string::npos)
                << finished.error().message();
          }
          if (offset % block + bytes <= 2 * block) {
            EXPECT_TRUE(finished);
          }
          if (bytes == 20 * block) {
            EXPECT_FALSE(finished);
          }
        }
      }
    }
  }
}

TEST(SinkStreamOrders, AStoreBeyondTheMostMeetsThePolicy) {
  Kept kept;
  auto stream = SinkStream::open(std::make_unique<KeepingSink>(kept), "the sink",
                                 {.block_bytes = block, .bytes_max = 4 * block});
  ASSERT_TRUE(stream);
  penstock::copy(stream->begin(), text().data(), 4 * block + 100);
  const Status finished = stream->finish(4 * block + 100);
  ASSERT_FALSE(finished);
  EXPECT_NE(finished.error().message().find("opened for"), std::string::npos)
      << finished.error().message();
  EXPECT_FALSE(kept.closed);
  EXPECT_TRUE(is_text(kept.text));
}

TEST(SinkStreamOrders, DrawnStoresAreRightOrAnErrorOfFinish) {
  const uint64_t first = seed_of_run();
  for (uint64_t seed = first; seed < first + trials(200); ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const Watchdog watchdog(fmt::format("seed {}", seed));
    Random random(seed);
    const auto comeback = static_cast<uint32_t>(random.below(4));
    const Walk walk = draw_walk(random, {.comeback = comeback,
                                         .step_bytes_max = 1 + random.below(2 * block),
                                         .backs = uint64_t{3} << random.below(6)});
    Kept kept;
    auto stream =
        SinkStream::open(std::make_unique<KeepingSink>(kept), "the sink",
                         {.block_bytes = block,
                          .write_behind_blocks = static_cast<uint32_t>(1 + random.below(3)),
                          .comeback_blocks = comeback});
    ASSERT_TRUE(stream);
    for (const Access& access : walk.accesses)
      store(stream->begin() + access.at, word_at(access.at));
    const Status finished = stream->finish(capacity);
    EXPECT_EQ(finished.has_value(), !walk.breaks_the_rule);
    EXPECT_EQ(kept.closed, finished.has_value());
    if (!finished) continue;
    ASSERT_EQ(kept.text.size(), capacity);
    uint64_t wrong = 0;
    for (const Access& access : walk.accesses)
      wrong += std::memcmp(kept.text.data() + access.at, text().data() + access.at,
                           sizeof(uint64_t)) != 0;
    EXPECT_EQ(wrong, 0u);
  }
}

TEST(FileWriterOrders, AFileIsRightForAnyOrder) {
  const std::string path = testing::TempDir() + fmt::format("penstock-orders-{}", getpid());
  for (const Copy wrong : wrong_copies) {
    for (const uint64_t bytes : sizes) {
      for (const uint64_t offset : offsets) {
        SCOPED_TRACE(testing::Message() << bytes << " bytes from " << offset);
        auto writer = FileWriter::open(path, {.block_bytes = block, .sync = false});
        ASSERT_TRUE(writer);
        penstock::copy(writer->begin(), text().data(), offset);
        wrong(writer->begin() + offset, text().data() + offset, bytes);
        ASSERT_TRUE(writer->finish(offset + bytes));
        const std::string got = io::read_whole(path);
        EXPECT_EQ(got.size(), offset + bytes);
        EXPECT_TRUE(is_text(got));
      }
    }
  }
  std::filesystem::remove(path);
}

TEST(FileWriterOrders, APipeIsRightOrAnError) {
  for (const Copy wrong : wrong_copies) {
    for (const uint64_t bytes : sizes) {
      SCOPED_TRACE(testing::Message() << bytes << " bytes");
      const Watchdog watchdog(fmt::format("{} bytes to a pipe", bytes));
      int ends[2];
      ASSERT_EQ(pipe(ends), 0);
      std::string got;
      std::jthread reader([&] {
        char buffer[4096];
        for (ssize_t some; (some = read(ends[0], buffer, sizeof buffer)) > 0;)
          got.append(buffer, static_cast<size_t>(some));
      });
      bool wrote = false;
      {
        auto writer = FileWriter::open(fmt::format("/dev/fd/{}", ends[1]),
                                       {.block_bytes = block, .policy = ErrorPolicy::recover});
        close(ends[1]);
        ASSERT_TRUE(writer);
        const Status stored =
            RecoveryPoint::run([&] { wrong(writer->begin(), text().data(), bytes); });
        wrote = stored && writer->finish(bytes);
      }
      reader.join();
      close(ends[0]);
      EXPECT_TRUE(is_text_with_holes(got));
      EXPECT_TRUE(!wrote || (is_text(got) && got.size() == bytes));
      if (bytes <= 2 * block) {
        EXPECT_TRUE(wrote);
      }
      if (bytes == 20 * block) {
        EXPECT_FALSE(wrote);
      }
    }
  }
}

// ---- recovery

TEST(Copy, GoesForwardAtEveryAlignmentWithoutComeback) {
  const uint64_t bytes = 10 * block + 1234;
  for (const uint64_t offset : {0, 1, 63, 4095, 5000}) {
    RemapStream::Options options;
    options.bytes = capacity;
    options.block_bytes = 4 * KiB;
    options.producer_comeback_blocks = options.consumer_comeback_blocks = 0;
    auto stream = RemapStream::open(options);
    ASSERT_TRUE(stream);
    std::jthread producer([&] {
      EXPECT_EQ(penstock::copy(stream->writer(), text().data() + offset, bytes),
                stream->writer<std::byte>() + bytes);
      EXPECT_TRUE(stream->finish(bytes));
    });
    std::vector<std::byte> got(bytes + offset);
    penstock::copy(got.data() + offset, stream->reader(), bytes);
    EXPECT_TRUE(std::equal(got.begin() + static_cast<ptrdiff_t>(offset), got.end(),
                           text().begin() + static_cast<ptrdiff_t>(offset)));
  }
}

}  // namespace
}  // namespace penstock
