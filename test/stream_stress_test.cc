// Test labels: threads, nobody, loops, templates

// Runs random schedules of a producer and a consumer on one stream, of every kind and
// mechanism, and compares them with a plain array.
//
// A seed decides everything except timing: block size, N, L, M, the pieces that the producer
// writes (tiny, huge, skipping blocks, coming back, overlapping), where it finishes or fails, the
// pieces that the consumer reads (jumps, comebacks, past the end), where it cancels, and where each
// side pauses. So the model knows every byte that a read must return. To repeat a failure:
// PENSTOCK_STRESS_SEED=<the printed seed>; PENSTOCK_STRESS_TRIALS says how many schedules run per
// kind, from PENSTOCK_STRESS_FIRST on. (tools/soak.py runs them for any length of time.)

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/bits.h"
#include "base/random.h"
#include "base/trials.h"
#include "os/limits.h"
#include "penstock/stream.h"

namespace penstock {
namespace {

enum class Kind {
  remap_mremap,
  remap_uffd_move,
  remap_shared,
  remap_system_calls,  // faults are served by threads, through a privileged userfaultfd
  guard,
  process,  // both sides in this process; process_stream_test.cc has two, and kills them
};
constexpr Kind all_kinds[] = {Kind::remap_mremap,       Kind::remap_uffd_move, Kind::remap_shared,
                              Kind::remap_system_calls, Kind::guard,           Kind::process};
const char* name_of(Kind kind) {
  constexpr const char* names[] = {"RemapStream_mremap", "RemapStream_uffd_move",
                                   "RemapStream_shared", "RemapStream_system_calls",
                                   "GuardStream",        "ProcessStream"};
  return names[static_cast<size_t>(kind)];
}

struct Piece {
  uint64_t offset, bytes;
};

constexpr size_t never = ~size_t{0};

struct Schedule {
  Kind kind;
  RemapStream::Options options;  // the other kinds use the fields that they have
  std::vector<Piece> writes, reads;
  size_t fails_after = never;    // writes before the producer fails; never: it finishes
  size_t cancels_after = never;  // reads before the consumer cancels
  bool prepares = false;  // the sides call prepare_*() for each piece that fits, before touching it
  uint64_t end_bytes = 0;  // length at which the producer finishes
  uint64_t seed = 0;
};

uint8_t value_at(uint64_t seed, uint64_t offset) {
  return static_cast<uint8_t>(1 + mix64(seed + offset) %
                                      255);  // never zero, the value of unwritten memory
}

// The bytes that a reader must see.
class Model {
 public:
  explicit Model(const Schedule& schedule) : schedule_(schedule) {
    uint64_t block_bytes = schedule.options.block_bytes;
    written_.resize(schedule.options.bytes);
    touched_.resize(ceil_div(schedule.options.bytes, block_bytes) + 1);
    int64_t head = -1;
    for (size_t i = 0; i < schedule.writes.size() && i < schedule.fails_after; ++i) {
      auto [offset, bytes] = schedule.writes[i];
      std::fill_n(written_.begin() + offset, bytes, true);
      uint64_t last = (offset + bytes - 1) / block_bytes;
      for (uint64_t block = offset / block_bytes; block <= last; ++block) touched_[block] = true;
      head = std::max(head, static_cast<int64_t>(last));
    }
    released_blocks_ = static_cast<uint64_t>(std::max<int64_t>(
        0, head - static_cast<int64_t>(schedule.options.producer_comeback_blocks)));
  }

  // Whether a read of this piece meets the producer's failure.
  bool fails(const Piece& piece) const {
    return schedule_.fails_after != never &&
           (piece.offset + piece.bytes - 1) / schedule_.options.block_bytes >= released_blocks_;
  }
  bool agrees(uint64_t offset, uint8_t value) const {
    uint64_t block = offset / schedule_.options.block_bytes;
    bool there =
        schedule_.fails_after != never ? block < released_blocks_ : offset < schedule_.end_bytes;
    if (!there || !touched_[block]) return value == 0;
    return !written_[offset] || value == value_at(schedule_.seed, offset);
  }
  uint64_t released_blocks() const { return released_blocks_; }

 private:
  const Schedule& schedule_;
  std::vector<bool> written_, touched_;
  uint64_t released_blocks_;
};

uint64_t random_length(Random& random, uint64_t block_bytes) {
  switch (random.below(4)) {
    case 0:
      return 1 + random.below(16);
    case 1:
      return 1 + random.below(block_bytes);
    case 2:
      return block_bytes;
    default:
      return 1 + random.below(6 * block_bytes);
  }
}

// Pieces of [0, limit_bytes): mostly forward from where the last one ended, at times a jump (of at
// most jump_blocks_max whole blocks), at times back by at most `comeback` blocks from the furthest
// block. REQUIRES: limit_bytes > 0.
std::vector<Piece> random_pieces(Random& random, uint64_t limit_bytes, uint64_t block_bytes,
                                 uint64_t comeback, uint64_t jump_blocks_max = 5) {
  std::vector<Piece> pieces;
  uint64_t furthest = 0;  // the end of the furthest piece
  uint64_t jumps_one_in = 2 + random.below(40), comebacks_one_in = 2 + random.below(10);
  bool tiny = random.below(4) == 0;
  while (furthest < limit_bytes && pieces.size() < 400) {
    uint64_t offset = furthest;
    if (random.below(jumps_one_in) == 0 && jump_blocks_max > 0)
      offset += random.below(jump_blocks_max * block_bytes);
    if (furthest > 0 && random.below(comebacks_one_in) == 0) {
      uint64_t head = (furthest - 1) / block_bytes;
      uint64_t lowest = (head - std::min(head, comeback)) * block_bytes;
      offset = lowest + random.below(furthest - lowest);
    }
    if (offset >= limit_bytes) break;
    uint64_t bytes = tiny ? 1 + random.below(200) : random_length(random, block_bytes);
    pieces.push_back({offset, std::min(bytes, limit_bytes - offset)});
    furthest = std::max(furthest, pieces.back().offset + pieces.back().bytes);
  }
  return pieces;
}

Schedule random_schedule(uint64_t seed, Kind kind) {
  Random random(seed);
  Schedule schedule;
  schedule.seed = seed;
  schedule.kind = kind;
  auto& options = schedule.options;
  options.block_bytes = 4 * KiB << random.below(random.below(4) == 0 ? 7 : 3);
  options.read_ahead_blocks = static_cast<uint32_t>(random.below(4));
  options.producer_comeback_blocks = static_cast<uint32_t>(random.below(4));
  options.consumer_comeback_blocks = static_cast<uint32_t>(random.below(4));
  if (kind == Kind::guard) ++options.read_ahead_blocks;  // a GuardStream needs one
  options.strict = random.below(3) == 0;
  options.policy = random.below(2) == 0 ? ErrorPolicy::zeros : ErrorPolicy::recover;
  options.bytes = 1 + random.below(30 * options.block_bytes - 1);
  if (random.below(8) == 0)
    options.bytes = std::max(options.block_bytes, round_down(options.bytes, options.block_bytes));

  uint64_t block_bytes = options.block_bytes;
  if (random.below(20) != 0) {
    uint64_t limit = random.below(4) == 0 ? 1 + random.below(options.bytes) : options.bytes;
    schedule.writes = random_pieces(random, limit, block_bytes, options.producer_comeback_blocks);
  }
  if (random.below(4) == 0) schedule.fails_after = random.below(schedule.writes.size() + 1);
  uint64_t end_min =
      schedule.fails_after == never ? Model(schedule).released_blocks() * block_bytes : 0;
  schedule.end_bytes = end_min + random.below(options.bytes - end_min + 1);
  if (random.below(4) == 0)
    schedule.end_bytes = std::min(options.bytes, round_up(schedule.end_bytes, block_bytes));

  // A reader may always read one block of zeros; with the policy zeros it may read to the end of the capacity.
  uint64_t read_limit = round_up(schedule.end_bytes, block_bytes) + block_bytes;
  if (options.policy == ErrorPolicy::zeros)
    read_limit = round_up(options.bytes, block_bytes) + block_bytes;
  // A GuardStream's consumer may not skip a whole block: it could reach one that is being
  // filled, and no guard would stop it.
  schedule.reads = random_pieces(random, read_limit, block_bytes, options.consumer_comeback_blocks,
                                 kind == Kind::guard ? 0 : 5);
  if (random.below(4) == 0) schedule.cancels_after = random.below(schedule.reads.size() + 1);
  schedule.prepares = random.below(4) == 0;
  return schedule;
}

// A stream of any kind.
class AnyStream {
 public:
  virtual ~AnyStream() = default;
  virtual uint8_t* writer() = 0;
  virtual uint8_t* reader() = 0;
  virtual Status prepare_write(const void* address, size_t bytes) = 0;
  virtual Status prepare_read(const void* address, size_t bytes) = 0;
  virtual Status finish(uint64_t bytes) = 0;
  virtual void fail(Error error) = 0;
  virtual void cancel() = 0;

  static Result<std::unique_ptr<AnyStream>> open(Kind kind, const RemapStream::Options& shape);
};

template <class Stream>
class TwoThreads final : public AnyStream {
 public:
  explicit TwoThreads(Stream stream) : stream_(std::move(stream)) {}
  uint8_t* writer() override { return stream_.template writer<uint8_t>(); }
  uint8_t* reader() override { return stream_.template reader<uint8_t>(); }
  Status prepare_write(const void* address, size_t bytes) override {
    return stream_.prepare_write(address, bytes);
  }
  Status prepare_read(const void* address, size_t bytes) override {
    return stream_.prepare_read(address, bytes);
  }
  Status finish(uint64_t bytes) override { return stream_.finish(bytes); }
  void fail(Error error) override { stream_.fail(Side::producer, std::move(error)); }
  void cancel() override { stream_.cancel(Side::consumer); }

 private:
  Stream stream_;
};

class TwoEnds final : public AnyStream {
 public:
  TwoEnds(ProcessStream from, ProcessStream to) : from_(std::move(from)), to_(std::move(to)) {}
  uint8_t* writer() override { return from_.writer<uint8_t>(); }
  uint8_t* reader() override { return to_.reader<uint8_t>(); }
  Status prepare_write(const void* address, size_t bytes) override {
    return from_.prepare_write(address, bytes);
  }
  Status prepare_read(const void* address, size_t bytes) override {
    return to_.prepare_read(address, bytes);
  }
  Status finish(uint64_t bytes) override { return from_.finish(bytes); }
  void fail(Error error) override { from_.fail(std::move(error)); }
  void cancel() override { to_.cancel(); }

 private:
  ProcessStream from_, to_;
};

template <class Stream>
Result<std::unique_ptr<AnyStream>> open_as(const typename Stream::Options& options) {
  auto stream = Stream::open(options);
  if (!stream) return std::unexpected(stream.error());
  return std::make_unique<TwoThreads<Stream>>(std::move(*stream));
}

Result<std::unique_ptr<AnyStream>> AnyStream::open(Kind kind, const RemapStream::Options& shape) {
  RemapStream::Options remap = shape;
  switch (kind) {
    case Kind::guard:
      return open_as<GuardStream>({.bytes = shape.bytes,
                                   .block_bytes = shape.block_bytes,
                                   .read_ahead_blocks = shape.read_ahead_blocks,
                                   .producer_comeback_blocks = shape.producer_comeback_blocks,
                                   .consumer_comeback_blocks = shape.consumer_comeback_blocks,
                                   .policy = shape.policy,
                                   .strict = shape.strict});
    case Kind::process: {
      auto from = ProcessStream::open({.bytes = shape.bytes,
                                       .block_bytes = shape.block_bytes,
                                       .read_ahead_blocks = shape.read_ahead_blocks,
                                       .producer_comeback_blocks = shape.producer_comeback_blocks,
                                       .consumer_comeback_blocks = shape.consumer_comeback_blocks,
                                       .policy = shape.policy,
                                       .strict = shape.strict},
                                      Side::producer);
      if (!from) return std::unexpected(from.error());
      auto to = ProcessStream::attach(from->fd(), Side::consumer,
                                      {.policy = shape.policy, .strict = shape.strict});
      if (!to) return std::unexpected(to.error());
      return std::make_unique<TwoEnds>(std::move(*from), std::move(*to));
    }
    case Kind::remap_mremap:
      remap.mechanism = Mechanism::mremap;
      break;
    case Kind::remap_uffd_move:
      remap.mechanism = Mechanism::uffd_move;
      break;
    case Kind::remap_shared:
      remap.mechanism = Mechanism::shared;
      break;
    case Kind::remap_system_calls:
      remap.system_calls = true;
      break;
  }
  return open_as<RemapStream>(remap);
}

// The pace of both sides: sometimes neither waits, sometimes one is slow, sometimes both at
// random places.
class Dawdler {
 public:
  explicit Dawdler(uint64_t seed) : random_(seed), one_in_(random_.below(3) == 0 ? 4 : 100) {}
  void step() {
    if (random_.below(one_in_) != 0) return;
    std::this_thread::sleep_for(std::chrono::microseconds(random_.below(200)));
  }

 private:
  Random random_;
  uint64_t one_in_;
};

bool one_window(const Piece& piece, uint64_t block_bytes, uint32_t comeback) {
  return (piece.offset + piece.bytes - 1) / block_bytes - piece.offset / block_bytes <= comeback;
}

void produce(const Schedule& schedule, AnyStream& pipe) {
  const bool may_be_cancelled = schedule.cancels_after != never;
  Dawdler dawdler(schedule.seed * 3 + 1);
  uint8_t* data = pipe.writer();
  auto written = RecoveryPoint::run([&] {
    for (size_t i = 0; i < schedule.writes.size() && i < schedule.fails_after; ++i) {
      auto [offset, bytes] = schedule.writes[i];
      if (schedule.prepares && one_window(schedule.writes[i], schedule.options.block_bytes,
                                          schedule.options.producer_comeback_blocks)) {
        Status prepared = pipe.prepare_write(data + offset, bytes);
        if (!prepared && may_be_cancelled) return;
        if (!prepared) ADD_FAILURE() << prepared.error().message();
      }
      for (uint64_t k = offset; k < offset + bytes; ++k) data[k] = value_at(schedule.seed, k);
      dawdler.step();
    }
  });
  if (!written) {
    EXPECT_TRUE(may_be_cancelled) << written.error().message();
    EXPECT_EQ(written.error().code, ErrorCode::cancelled);
    return;
  }
  if (schedule.fails_after != never) return pipe.fail(Error{ErrorCode::io, "produce"});
  Status finished = pipe.finish(schedule.end_bytes);
  if (!finished) {
    EXPECT_TRUE(may_be_cancelled) << finished.error().message();
    EXPECT_EQ(finished.error().code, ErrorCode::cancelled);
  }
}

void consume(const Schedule& schedule, const Model& model, AnyStream& pipe) {
  Dawdler dawdler(schedule.seed * 3 + 2);
  const uint8_t* data = pipe.reader();
  const bool recovers = schedule.options.policy == ErrorPolicy::recover;
  size_t done = 0;  // outside the callable, because it must survive the jump
  uint64_t wrong = 0, first_wrong = 0;
  auto read = RecoveryPoint::run([&] {
    for (; done < schedule.reads.size() && done < schedule.cancels_after; ++done) {
      auto [offset, bytes] = schedule.reads[done];
      if (schedule.prepares && one_window(schedule.reads[done], schedule.options.block_bytes,
                                          schedule.options.consumer_comeback_blocks)) {
        Status prepared = pipe.prepare_read(data + offset, bytes);
        EXPECT_EQ(!prepared, recovers && model.fails(schedule.reads[done]));
        if (!prepared) return;
      }
      for (uint64_t k = offset; k < offset + bytes; ++k) {
        if (!model.agrees(k, data[k]) && wrong++ == 0) first_wrong = k;
      }
      dawdler.step();
    }
  });
  if (!read) {
    EXPECT_TRUE(recovers && model.fails(schedule.reads[done])) << read.error().message();
    EXPECT_EQ(read.error().code, ErrorCode::io);
  }
  EXPECT_EQ(wrong, 0u) << "first at byte " << first_wrong << " of block "
                       << first_wrong / schedule.options.block_bytes;
  pipe.cancel();
}

void run(const Schedule& schedule) {
  Model model(schedule);
  auto pipe = AnyStream::open(schedule.kind, schedule.options);
  ASSERT_TRUE(pipe) << pipe.error().message();
  // A consumer that leaves early may cancel while the producer still runs, also if the schedule
  // says otherwise.
  Schedule producing = schedule;
  producing.cancels_after = std::min(producing.cancels_after, schedule.reads.size());
  std::jthread producer([&] { produce(producing, **pipe); });
  consume(schedule, model, **pipe);
}

// A schedule that hangs is a failure like any other, and must print its seed.
char hang_text[128];
int hang_text_length = 0;
void on_alarm(int) {
  [[maybe_unused]] auto written =
      ::write(STDERR_FILENO, hang_text, static_cast<size_t>(hang_text_length));
  std::abort();
}

// The reason why this system lacks that kind; nullopt if it has it.
std::optional<Error> lacking(Kind kind) {
  auto probe = AnyStream::open(kind, {.bytes = 1});
  if (probe) return {};
  return probe.error();
}

class StreamStress : public ::testing::TestWithParam<Kind> {};

INSTANTIATE_TEST_SUITE_P(Kinds, StreamStress, ::testing::ValuesIn(all_kinds),
                         [](const auto& test) { return name_of(test.param); });

TEST_P(StreamStress, RandomSchedulesAgreeWithThePlainArray) {
  if (auto error = lacking(GetParam())) {
    ASSERT_TRUE(error->code == ErrorCode::unsupported || error->code == ErrorCode::permission)
        << error->message();
    GTEST_SKIP() << error->message();
  }

  const Seeds seeds = stress_seeds(trials(600));
  std::signal(SIGALRM, on_alarm);
  run(random_schedule(seeds.first, GetParam()));  // fills the C library's own caches
  uint64_t mappings_before = os::mappings().used;
  for (uint64_t seed = seeds.first; seed < seeds.end && !HasFailure(); ++seed) {
    SCOPED_TRACE("PENSTOCK_STRESS_SEED=" + std::to_string(seed));
    hang_text_length =
        std::snprintf(hang_text, sizeof hang_text, "a schedule hangs: PENSTOCK_STRESS_SEED=%llu\n",
                      static_cast<unsigned long long>(seed));
    alarm(60);
    run(random_schedule(seed, GetParam()));
  }
  alarm(0);
  EXPECT_LE(os::mappings().used, mappings_before + 20) << "streams left mappings behind";
}

// The schedules of a batch run in parallel, each on a random kind of stream.
TEST(StreamStressMixed, ManyStreamsOfAllKindsRunSideBySide) {
  std::vector<Kind> available;
  for (Kind kind : all_kinds) {
    if (!lacking(kind)) available.push_back(kind);
  }
  ASSERT_FALSE(available.empty());
  uint64_t seed = 100'000 + number_from_environment("PENSTOCK_STRESS_FIRST", 0);
  std::signal(SIGALRM, on_alarm);
  for (int batch = 0; batch < 12 && !HasFailure(); ++batch) {
    hang_text_length =
        std::snprintf(hang_text, sizeof hang_text, "a batch hangs: first seed %llu\n",
                      static_cast<unsigned long long>(seed));
    alarm(60);
    std::vector<std::jthread> threads;
    for (int stream = 0; stream < 16; ++stream, ++seed) {
      threads.emplace_back([seed, kind = available[seed % available.size()]] {
        SCOPED_TRACE("PENSTOCK_STRESS_SEED=" + std::to_string(seed));
        run(random_schedule(seed, kind));
      });
    }
  }
  alarm(0);
}

}  // namespace
}  // namespace penstock
