// Schedule tests of a stream in two processes, either of which dies between any two steps: the stream's own code, with
// two threads of the scheduler for the processes. Their memory is real; the scheduler says whether a process still runs.

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstddef>
#include <memory>
#include <optional>

#include "memory/fault/registry.h"
#include "memory/stream/process_stream.h"
#include "os/memfd.h"
#include "os/memory.h"
#include "os/process.h"
#include "schedules/expectations.h"

namespace {
penstock::schedules::Run* processes = nullptr;  // a process's number is its thread's plus 1
int process_now = 0;

// The descriptor of the first mapped file, which another process may use without waiting for it.
class Descriptor {
 public:
  [[gnu::no_sanitize_thread, gnu::noinline]] void set(int fd) {
    if (fd_ < 0) fd_ = fd;
  }
  [[gnu::no_sanitize_thread, gnu::noinline]] int now() const { return fd_; }

 private:
  int fd_ = -1;
} first_mapped;
}  // namespace

// ---- in place of os/process_linux.cc

namespace penstock::os {

Result<ProcessId> ProcessId::self() {
  return ProcessId{.pid = process_now, .start_ticks = 1};
}
int ProcessWatch::watch(const ProcessId& process) noexcept {
  process_ = process;
  return processes->is_dead(process.pid - 1) ? ESRCH : 0;
}
bool ProcessWatch::is_running() noexcept {
  schedules::point();
  return !processes->is_dead(process_.pid - 1);
}

}  // namespace penstock::os

// Tells the scheduler that all mappings of a file are the same memory.
extern "C" int __real__ZNK8penstock2os10MemoryFile3mapEPSt4bytemmNS_10ProtectionEb(
    const penstock::os::MemoryFile*, std::byte*, size_t, uint64_t, penstock::Protection, bool);
extern "C" int __wrap__ZNK8penstock2os10MemoryFile3mapEPSt4bytemmNS_10ProtectionEb(
    const penstock::os::MemoryFile* file, std::byte* at, size_t bytes, uint64_t offset,
    penstock::Protection access, bool populate) {
  struct stat status = {};
  fstat(file->fd(), &status);
  first_mapped.set(file->fd());
  penstock::schedules::same_memory(at, bytes, status.st_ino, offset);
  return __real__ZNK8penstock2os10MemoryFile3mapEPSt4bytemmNS_10ProtectionEb(
      file, at, bytes, offset, access, populate);
}

namespace penstock::schedules {
namespace {

constexpr size_t block = os::page_bytes;
constexpr uint64_t blocks = 2;

enum class Ending { finishes, fails };
struct SideResult {  // the end of the stream, as a side sees it
  std::optional<ErrorCode> error;
  bool is_done = false;
};

ProcessStream::Options options(uint32_t read_ahead) {
  return {.bytes = 2 * blocks * block,
          .block_bytes = block,
          .read_ahead_blocks = read_ahead,
          .producer_comeback_blocks = 0,
          .consumer_comeback_blocks = 0,
          .policy = ErrorPolicy::recover,
          .attach_ms_max = 0};
}

std::unique_ptr<stream::ProcessStreamCore> process(
    int number, Result<std::unique_ptr<stream::ProcessStreamCore>> core) {
  require(core.has_value() && number == process_now, "a stream cannot be opened");
  return std::move(*core);
}

// The producer is thread 0, the consumer thread 1.
struct Pair {
  explicit Pair(Run& run, uint32_t read_ahead) {
    processes = &run;
    process_now = 1;
    producer = process(1, stream::ProcessStreamCore::create(options(read_ahead), Side::producer));
    process_now = 2;
    consumer = process(2, stream::ProcessStreamCore::attach(producer->fd(), Side::consumer,
                                                            {.policy = ErrorPolicy::recover}));
  }

  void produce(Ending ending) {
    for (uint64_t i = 0; i < blocks; ++i) {
      std::byte* const at = producer->writer() + i * block;
      if (const Status status = producer->prepare(Side::producer, at, block); !status)
        return end(produced, status);
      *reinterpret_cast<uint64_t*>(at) = i + 1;
      *reinterpret_cast<uint64_t*>(at + block - 8) = i + 1;
    }
    if (ending == Ending::fails)
      return producer->fail(Side::producer, Error{ErrorCode::io, "read the sensor"});
    end(produced, producer->finish(blocks * block));
  }

  void consume() {
    for (uint64_t at = 0;;) {
      const auto ready = consumer->wait_ready(at);
      if (!ready) return end(consumed, std::unexpected(ready.error()));
      if (*ready <= at) break;
      require(*ready % block == 0 && *ready <= blocks * block, "more is ready than was written");
      std::byte* const here = consumer->reader() + at;
      if (const Status status = consumer->prepare(Side::consumer, here, block); !status)
        return end(consumed, status);
      at += block;
      require(*reinterpret_cast<uint64_t*>(here) == at / block, "a block is not what was written");
      require(*reinterpret_cast<uint64_t*>(here + block - 8) == at / block,
              "a block is not what was written");
      ++seen;
    }
    end(consumed, {});
  }

  [[gnu::no_sanitize_thread]] static void end(SideResult& result, const Status& status) {
    if (!status) result.error = status.error().code;
    result.is_done = true;
  }

  std::unique_ptr<stream::ProcessStreamCore> producer, consumer;
  SideResult produced, consumed;
  uint64_t seen = 0;
};

void both_live(Run& run, uint32_t read_ahead) {
  Pair pair(run, read_ahead);
  run.thread([&] { pair.produce(Ending::finishes); });
  run.thread([&] { pair.consume(); });
  run.go();
  require(pair.produced.is_done && !pair.produced.error, "the producer was refused");
  require(pair.consumed.is_done && !pair.consumed.error, "the consumer was refused");
  require(pair.seen == blocks, "blocks were lost");
}
void without_read_ahead(Run& run) {
  both_live(run, 0);
}
void with_read_ahead(Run& run) {
  both_live(run, 1);
}

void producer_dies(Run& run, Ending ending) {
  Pair pair(run, 1);
  run.thread([&] { pair.produce(ending); });
  run.thread([&] { pair.consume(); });
  run.thread([&] { run.kill(0); });
  run.go();
  require(pair.consumed.is_done, "the consumer does not come to an end");
  if (pair.produced.is_done && !pair.produced.error) {
    require(!pair.consumed.error && pair.seen == blocks, "what was finished did not all arrive");
  } else if (pair.consumed.error) {
    require(pair.consumed.error == ErrorCode::cancelled ||
                (ending == Ending::fails && pair.consumed.error == ErrorCode::io),
            "the consumer hears another reason than the end of the producer");
  } else {
    require(run.is_dead(0) && ending == Ending::finishes && pair.seen == blocks,
            "an end was seen that nobody made");
  }
  run.bury();
}
void dies_at_work(Run& run) {
  producer_dies(run, Ending::finishes);
}
void dies_while_it_fails(Run& run) {
  producer_dies(run, Ending::fails);
}

void consumer_dies(Run& run) {
  Pair pair(run, 0);
  run.thread([&] { pair.produce(Ending::finishes); });
  run.thread([&] { pair.consume(); });
  run.thread([&] { run.kill(1); });
  run.go();
  require(pair.produced.is_done, "the producer does not come to an end");
  require(!pair.produced.error || run.is_dead(1), "the producer was refused");
  run.bury();
}

// A process that attaches while the stream is being created is refused, or finds it complete.
void attaching(Run& run) {
  processes = &run;
  process_now = 1;
  first_mapped = {};
  require(fault::install().has_value(), "no handler");  // creates the registry before the threads
  std::unique_ptr<stream::ProcessStreamCore> producer, consumer;
  run.thread([&] {
    producer = process(1, stream::ProcessStreamCore::create(options(0), Side::producer));
  });
  run.thread([&] {
    while (!consumer) {
      sched_yield();
      if (first_mapped.now() < 0) continue;
      auto core = stream::ProcessStreamCore::attach(first_mapped.now(), Side::consumer,
                                                    {.policy = ErrorPolicy::recover});
      if (core) consumer = std::move(*core);
      require(core || core.error().hint == "what ProcessStream::open() of this version made",
              "a stream was taken for one that is complete");
    }
  });
  run.go();
}

const Case waits{
    "process_stream.without_read_ahead", without_read_ahead, {.deviations = 2, .random = 300}};
const Case reads_ahead{
    "process_stream.with_read_ahead", with_read_ahead, {.deviations = 2, .random = 300}};
const Case producer_ends{
    "process_stream.producer_dies", dies_at_work, {.deviations = 2, .random = 300}};
const Case failing_ends{
    "process_stream.dies_while_it_fails", dies_while_it_fails, {.deviations = 1, .random = 300}};
const Case attaches{"process_stream.attaching", attaching, {.deviations = 2, .random = 300}};
const Case consumer_ends{
    "process_stream.consumer_dies", consumer_dies, {.deviations = 1, .random = 300}};

class ProcessStreamSchedules : public testing::TestWithParam<Case> {};

INSTANTIATE_TEST_SUITE_P(Orders, ProcessStreamSchedules,
                         testing::Values(waits, reads_ahead, producer_ends, failing_ends,
                                         consumer_ends, attaches),
                         name_of_case);

TEST_P(ProcessStreamSchedules, EverythingArrivesOrIsAnError) {
  expect_right(GetParam());
}

class ProcessStreamFaults : public testing::TestWithParam<Planted> {};
INSTANTIATE_TEST_SUITE_P(Planted, ProcessStreamFaults,
                         testing::Values(Planted{41, &failing_ends}, Planted{42, &producer_ends},
                                         Planted{43, &reads_ahead}, Planted{44, &waits},
                                         Planted{45, &waits}, Planted{46, &waits},
                                         Planted{47, &waits}, Planted{48, &waits},
                                         Planted{49, &attaches}),
                         name_of_planted);

TEST_P(ProcessStreamFaults, AreFound) {
  expect_found(GetParam().fault, *GetParam().found_by);
}

}  // namespace
}  // namespace penstock::schedules
