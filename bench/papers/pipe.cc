// How fast do bytes go from one thread to another through a plain pointer?
//
// One thread fills with 64-bit numbers, the other sums them up: the paper's experiment
// (section 6.4, tables 4 and 5), with its 16-byte items, and with the widest registers, where the
// loops themselves cost next to nothing. Through
//   the ceiling     a ring of plain blocks, handed over with two counters and a spin: no stream can
//                   be faster;
//   the streams     RemapStream on every mechanism, GuardStream, ProcessStream between two
//                   processes;
//   rivals          a queue of the same blocks, behind an iterator and by a tight loop per block;
//                   boost's lock-free queue, of items and of blocks; a POSIX pipe; timely dataflow.
// The ratios are of streams with a user's options, in their 20 MiB (between processes 16). All
// others have 12 MiB of blocks; streams also have a second row without comebacks (aligned loops
// need none), and a third one also without the moves by which a stream finds every breach. The runs
// of all contenders are interleaved, and the first touch of the memory is not timed. Apache Storm,
// of the paper's table 4, is quoted there: 2.4 GB/s on one pipe.

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <sstream>
#include <thread>
#include <vector>

#if __has_include(<boost/lockfree/spsc_queue.hpp>)
#include <boost/lockfree/spsc_queue.hpp>
#define PENSTOCK_HAVE_BOOST 1
#endif

#include "bench/harness/bench.h"
#include "bench/harness/child.h"
#include "bench/harness/instructions.h"
#include "bench/harness/loops.h"
#include "bench/harness/pages.h"
#include "bench/rivals/block_queue.h"
#include "os/futex.h"
#include "os/memory.h"
#include "penstock/base.h"
#include "penstock/stream.h"

namespace penstock::bench {
namespace {

struct Shape {
  uint64_t bytes;
  size_t block_bytes;
  uint32_t blocks;
  uint64_t memory_bytes() const { return block_bytes * blocks; }
};

// One pipe, between its opening and its end: the work of the two threads.
struct Pipe {
  virtual ~Pipe() = default;
  virtual void produce() = 0;
  virtual uint64_t consume() = 0;
};
using Opener = std::function<Result<std::unique_ptr<Pipe>>()>;

// Touched huge pages, reserved instead of allocated, so that all contenders have the same kind.
Result<os::Reservation> plain_memory(uint64_t bytes) {
  return anonymous_memory(bytes, true, true);
}

// The common part of contenders with blocks of plain memory.
class PlainPipe : public Pipe {
 public:
  PlainPipe(const Shape& shape, const Loops& loops, os::Reservation memory)
      : shape_(shape), loops_(loops), memory_(std::move(memory)) {}

 protected:
  uint64_t blocks() const { return shape_.bytes / shape_.block_bytes; }
  std::byte* block(uint64_t i) const {
    return memory_.begin() + i % shape_.blocks * shape_.block_bytes;
  }
  void fill(std::byte* to, uint64_t i) const {
    loops_.fill(to, shape_.block_bytes, i * shape_.block_bytes / sizeof(uint64_t));
  }
  uint64_t sum(const std::byte* from) const { return loops_.sum(from, shape_.block_bytes); }

  const Shape shape_;
  const Loops& loops_;
  const os::Reservation memory_;
};

template <class SomePipe>
Opener plain(const Shape& shape, const Loops& loops) {
  return [shape, &loops]() -> Result<std::unique_ptr<Pipe>> {
    auto memory = plain_memory(shape.memory_bytes());
    if (!memory) return std::unexpected(memory.error());
    return std::make_unique<SomePipe>(shape, loops, std::move(*memory));
  };
}

struct alignas(128) Counter {
  // Release by the counting side pairs with acquire by the waiting side.
  std::atomic<uint64_t> blocks{0};
};

// Spins, and yields only if the other side seems to have lost its processor.
void wait_for(const Counter& counter, uint64_t blocks) {
  for (int spins = 0; counter.blocks.load(std::memory_order_acquire) < blocks; ++spins) {
    if (spins < 2000) {
      os::spin_pause();
    } else {
      std::this_thread::yield();
    }
  }
}

class SpinPipe final : public PlainPipe {
 public:
  using PlainPipe::PlainPipe;
  void produce() override {
    for (uint64_t i = 0; i < blocks(); ++i) {
      wait_for(emptied_, i + 1 - std::min(i + 1, uint64_t{shape_.blocks}));
      fill(block(i), i);
      filled_.blocks.store(i + 1, std::memory_order_release);
    }
  }
  uint64_t consume() override {
    uint64_t total = 0;
    for (uint64_t i = 0; i < blocks(); ++i) {
      wait_for(filled_, i + 1);
      total += sum(block(i));
      emptied_.blocks.store(i + 1, std::memory_order_release);
    }
    return total;
  }

 private:
  Counter filled_, emptied_;
};

class TightQueuePipe final : public PlainPipe {
 public:
  TightQueuePipe(const Shape& shape, const Loops& loops, os::Reservation memory)
      : PlainPipe(shape, loops, std::move(memory)),
        queue_(memory_.begin(), shape.block_bytes, shape.blocks) {}
  void produce() override {
    for (uint64_t i = 0; i < blocks(); ++i) {
      fill(queue_.take_empty(i), i);
      queue_.give_full();
    }
  }
  uint64_t consume() override {
    uint64_t total = 0;
    for (uint64_t i = 0; i < blocks(); ++i) {
      total += sum(queue_.take_full(i));
      queue_.give_empty();
    }
    return total;
  }

 private:
  BlockQueue queue_;
};

// Algorithm 3. Not inlined, so that the iterator is what the paper's threads have: a pointer.
[[gnu::noinline]] void produce_items(Iterator* iterator, uint64_t items) {
  Iterator::Item value = {0, 1};
  for (uint64_t i = 0; i < items; ++i, value += 2) iterator->write(value);
}
[[gnu::noinline]] uint64_t consume_items(Iterator* iterator, uint64_t items) {
  Iterator::Item total = {};
  for (uint64_t i = 0; i < items; ++i) total += iterator->read();
  return total[0] + total[1];
}

class IteratorPipe final : public PlainPipe {
 public:
  IteratorPipe(const Shape& shape, const Loops& loops, os::Reservation memory)
      : PlainPipe(shape, loops, std::move(memory)),
        queue_(memory_.begin(), shape.block_bytes, shape.blocks),
        iterator_(queue_, shape.block_bytes) {}
  void produce() override {
    produce_items(&iterator_, shape_.bytes / sizeof(Item));
    iterator_.close();
  }
  uint64_t consume() override { return consume_items(&iterator_, shape_.bytes / sizeof(Item)); }

 private:
  BlockQueue queue_;
  Iterator iterator_;
};

#ifdef PENSTOCK_HAVE_BOOST
template <class T>
void push(boost::lockfree::spsc_queue<T>& queue, const T& item) {
  for (int spins = 0; !queue.push(item); ++spins) {
    if (spins < 2000) {
      os::spin_pause();
    } else {
      std::this_thread::yield();
    }
  }
}
template <class T>
T pop(boost::lockfree::spsc_queue<T>& queue) {
  T item;
  for (int spins = 0; !queue.pop(item); ++spins) {
    if (spins < 2000) {
      os::spin_pause();
    } else {
      std::this_thread::yield();
    }
  }
  return item;
}

class BoostItemPipe final : public PlainPipe {
 public:
  BoostItemPipe(const Shape& shape, const Loops& loops, os::Reservation memory)
      : PlainPipe(shape, loops, std::move(memory)), queue_(shape.block_bytes / sizeof(Number)) {}
  void produce() override {
    for (Number number{0, 1}; number.low < shape_.bytes / sizeof(uint64_t);
         number.low += 2, number.high += 2)
      push(queue_, number);
  }
  uint64_t consume() override {
    uint64_t total = 0;
    for (uint64_t i = 0; i < shape_.bytes / sizeof(Number); ++i) {
      const Number number = pop(queue_);
      total += number.low + number.high;
    }
    return total;
  }

 private:
  struct Number {
    uint64_t low, high;
  };
  boost::lockfree::spsc_queue<Number> queue_;
};

class BoostBlockPipe final : public PlainPipe {
 public:
  BoostBlockPipe(const Shape& shape, const Loops& loops, os::Reservation memory)
      : PlainPipe(shape, loops, std::move(memory)), full_(shape.blocks), empty_(shape.blocks) {
    for (uint64_t i = 0; i < shape.blocks; ++i) push(empty_, block(i));
  }
  void produce() override {
    for (uint64_t i = 0; i < blocks(); ++i) {
      std::byte* at = pop(empty_);
      fill(at, i);
      push(full_, at);
    }
  }
  uint64_t consume() override {
    uint64_t total = 0;
    for (uint64_t i = 0; i < blocks(); ++i) {
      std::byte* at = pop(full_);
      total += sum(at);
      push(empty_, at);
    }
    return total;
  }

 private:
  boost::lockfree::spsc_queue<std::byte*> full_, empty_;
};
#endif

// The kernel's pipe, which copies in and out of a buffer.
class PosixPipe final : public PlainPipe {
 public:
  PosixPipe(const Shape& shape, const Loops& loops, os::Reservation memory)
      : PlainPipe(shape, loops, std::move(memory)) {
    if (::pipe(ends_) != 0) ends_[0] = ends_[1] = -1;
    (void)fcntl(ends_[1], F_SETPIPE_SZ, static_cast<int>(chunk_bytes));
  }
  ~PosixPipe() override {
    for (int end : ends_) ::close(end);
  }
  void produce() override {
    for (uint64_t at = 0; at < shape_.bytes; at += chunk_bytes) {
      loops_.fill(memory_.begin(), chunk_bytes, at / sizeof(uint64_t));
      for (size_t done = 0; done < chunk_bytes;) {
        const ssize_t some = ::write(ends_[1], memory_.begin() + done, chunk_bytes - done);
        if (some <= 0) return;
        done += static_cast<size_t>(some);
      }
    }
  }
  uint64_t consume() override {
    uint64_t total = 0;
    std::byte* const buffer = memory_.begin() + chunk_bytes;
    for (uint64_t at = 0; at < shape_.bytes; at += chunk_bytes) {
      for (size_t done = 0; done < chunk_bytes;) {
        const ssize_t some = ::read(ends_[0], buffer + done, chunk_bytes - done);
        if (some <= 0) return 0;
        done += static_cast<size_t>(some);
      }
      total += loops_.sum(buffer, chunk_bytes);
    }
    return total;
  }

 private:
  static constexpr size_t chunk_bytes = 64 * KiB;
  int ends_[2];
};

// The streams: both loops run once, over the whole pointer.
template <class Stream>
class StreamPipe final : public Pipe {
 public:
  StreamPipe(Stream stream, uint64_t bytes, const Loops& loops)
      : stream_(std::move(stream)), bytes_(bytes), loops_(loops) {}
  void produce() override {
    loops_.fill(stream_.writer(), bytes_, 0);
    keep(stream_.finish(bytes_));
  }
  uint64_t consume() override { return loops_.sum(stream_.reader(), bytes_); }

 private:
  Stream stream_;
  const uint64_t bytes_;
  const Loops& loops_;
};

template <class Stream>
Opener stream(const Shape& shape, const Loops& loops, typename Stream::Options options) {
  options.bytes = shape.bytes;
  options.block_bytes = shape.block_bytes;
  return [shape, &loops, options]() -> Result<std::unique_ptr<Pipe>> {
    auto opened = Stream::open(options);
    if (!opened) return std::unexpected(opened.error());
    return std::make_unique<StreamPipe<Stream>>(std::move(*opened), shape.bytes, loops);
  };
}

// A pipe whose producer is another process.
class TwoProcessPipe final : public Pipe {
 public:
  TwoProcessPipe(ProcessStream stream, uint64_t bytes, const Loops& loops, bool strict)
      : stream_(std::move(stream)), bytes_(bytes), loops_(loops) {
    child_ = fork();
    if (child_ != 0) return;
    auto mine = ProcessStream::attach(stream_.fd(), Side::producer, {.strict = strict});
    if (!mine) _exit(1);
    loops_.fill(mine->writer(), bytes_, 0);
    _exit(mine->finish(bytes_) ? 0 : 1);
  }
  ~TwoProcessPipe() override { waitpid(child_, nullptr, 0); }
  void produce() override {}
  uint64_t consume() override { return loops_.sum(stream_.reader(), bytes_); }

 private:
  ProcessStream stream_;
  const uint64_t bytes_;
  const Loops& loops_;
  pid_t child_;
};

Opener two_processes(const Shape& shape, const Loops& loops, ProcessStream::Options options) {
  options.bytes = shape.bytes;
  options.block_bytes = shape.block_bytes;
  return [shape, &loops, options]() -> Result<std::unique_ptr<Pipe>> {
    auto opened = ProcessStream::open(options, Side::consumer);
    if (!opened) return std::unexpected(opened.error());
    return std::make_unique<TwoProcessPipe>(std::move(*opened), shape.bytes, loops, options.strict);
  };
}

struct Contender {
  std::string name;
  Opener open;
  std::vector<double> samples = {};
};

// Runs `pipes` of them at once. Returns GB/s of all together; nullopt without the contender.
Result<std::optional<double>> run_once(const Contender& contender, const Shape& shape,
                                       unsigned pipes) {
  std::vector<std::unique_ptr<Pipe>> open;
  double seconds = 0;
  bool right = true;
  for (unsigned i = 0; i < pipes; ++i) {
    auto pipe = contender.open();
    if (!pipe && pipe.error().code == ErrorCode::unsupported) return std::nullopt;
    if (!pipe) return std::unexpected(pipe.error());
    open.push_back(std::move(*pipe));
  }
  seconds = seconds_of([&] {
    std::vector<uint64_t> totals(pipes);
    {
      std::vector<std::jthread> threads;
      for (unsigned i = 0; i < pipes; ++i) {
        threads.emplace_back([&, i] { open[i]->produce(); });
        if (i > 0) threads.emplace_back([&, i] { totals[i] = open[i]->consume(); });
      }
      totals[0] = open[0]->consume();
    }
    for (uint64_t total : totals) right = right && total == sum_of_numbers(shape.bytes);
  });
  if (!right) return failure(ErrorCode::corrupt, "sum what went through", contender.name);
  return static_cast<double>(shape.bytes * pipes) / seconds / 1e9;
}

// The medians, in the order of the contenders; 0 if the system lacks one.
Result<std::vector<double>> run_all(std::vector<Contender> contenders, const Shape& shape,
                                    unsigned pipes, unsigned runs, const std::string& suffix,
                                    Report& report) {
  for (unsigned run = 0; run < runs; ++run) {
    for (Contender& contender : contenders) {
      auto speed = run_once(contender, shape, pipes);
      if (!speed) return std::unexpected(speed.error());
      if (*speed) contender.samples.push_back(**speed);
    }
  }
  std::vector<double> medians;
  for (Contender& contender : contenders) {
    medians.push_back(contender.samples.empty() ? 0
                                                : report.add(contender.name + suffix, "GB/s",
                                                             std::move(contender.samples)));
  }
  return medians;
}

// Options for aligned loops, without comebacks: all memory but the reader's block is read-ahead.
template <class Options>
Options aligned(const Shape& shape, bool strict = true) {
  Options options;
  options.read_ahead_blocks = shape.blocks - 1;
  options.producer_comeback_blocks = 0;
  options.consumer_comeback_blocks = 0;
  options.strict = strict;
  return options;
}
RemapStream::Options aligned(const Shape& shape, Mechanism mechanism, bool strict = true) {
  auto options = aligned<RemapStream::Options>(shape, strict);
  options.mechanism = mechanism;
  return options;
}

// Timely dataflow, built by cargo the first time.
Result<std::optional<double>> run_timely(uint64_t bytes) {
  namespace fs = std::filesystem;
  const fs::path source = PENSTOCK_SOURCE_DIR "/bench/rivals/timely";
  const fs::path target = fs::path(PENSTOCK_BINARY_DIR) / "timely";
  const fs::path program = target / "release/timely_pipe";
  if (!fs::exists(program)) {
    if (std::system("cargo --version >/dev/null 2>&1") != 0) return std::nullopt;
    auto built = run_child({"cargo", "build", "--release", "--quiet", "--locked", "--manifest-path",
                            (source / "Cargo.toml").string(), "--target-dir", target.string()});
    if (!built || built->exit_code != 0) return std::nullopt;
  }
  auto child = run_child({program.string(), std::to_string(bytes)});
  if (!child) return std::unexpected(child.error());
  std::istringstream words(child->output);
  double bytes_per_s = 0;
  uint64_t total = 0;
  words >> bytes_per_s >> total;
  if (total != sum_of_numbers(bytes)) return failure(ErrorCode::corrupt, "sum", "timely dataflow");
  return bytes_per_s / 1e9;
}

// Instructions per item, compared with those without blocks: a store or a load and an addition, and
// the counting of the loop (table 5).
Status count_instructions(Report& report) {
  constexpr uint64_t items_max = 8192;
  std::vector<Item> memory(items_max);
  auto add = [&](const char* what, const std::function<void(uint64_t)>& work) -> Status {
    auto count = instructions_per_item(work);
    if (!count && count.error().code == ErrorCode::unsupported) return {};
    if (!count) return std::unexpected(count.error());
    report.add(what, "instructions/item", {*count});
    return {};
  };
  auto* bytes = reinterpret_cast<std::byte*>(memory.data());
  Status added = add("stream's producer, the same loop as plain memory's", [&](uint64_t items) {
    items_of_16_bytes.fill(bytes, items * sizeof(Item), 0);
  });
  if (added)
    added = add("stream's consumer, the same loop as plain memory's",
                [&](uint64_t items) { keep(items_of_16_bytes.sum(bytes, items * sizeof(Item))); });
  if (added)
    added = add("iterator's producer", [&](uint64_t items) {
      BlockQueue queue(bytes, items_max * sizeof(Item), 1);
      Iterator iterator(queue, items_max * sizeof(Item));
      produce_items(&iterator, items);
    });
  if (added)
    added = add("iterator's consumer", [&](uint64_t items) {
      BlockQueue queue(bytes, items_max * sizeof(Item), 1);
      Iterator iterator(queue, items_max * sizeof(Item));
      queue.give_full();
      keep(consume_items(&iterator, items));
    });
  return added;
}

Result<Report> run_pipe(const Options& options) {
  // The quick form shrinks the blocks as well: it is for correctness.
  const size_t block_bytes = options.quick ? 64 * KiB : 4 * MiB;
  const Shape shape{
      .bytes = options.quick ? 64 * MiB : 8 * GiB, .block_bytes = block_bytes, .blocks = 3};
  const Shape shape_of_slow{.bytes = shape.bytes / 8, .block_bytes = block_bytes, .blocks = 3};
  const unsigned runs = options.runs_or(5);
  Report report;
  report.hash(sum_of_numbers(shape.bytes));

  using enum Mechanism;
  double iterator_gb_per_s = 0;
  for (const Loops* loops : {&items_of_16_bytes, &items_of_64_bytes}) {
    const bool paper = loops == &items_of_16_bytes;
    std::vector<Contender> fast{
        {"ceiling: plain blocks, spin", plain<SpinPipe>(shape, *loops)},
        {"RemapStream, default options (20 MiB)", stream<RemapStream>(shape, *loops, {})},
        {"ProcessStream, two processes, default options (16 MiB)",
         two_processes(shape, *loops, {})},
        {"queue of blocks, tight loop", plain<TightQueuePipe>(shape, *loops)},
        {"RemapStream, shared", stream<RemapStream>(shape, *loops, aligned(shape, shared))},
        {"RemapStream, mremap", stream<RemapStream>(shape, *loops, aligned(shape, mremap))},
        {"RemapStream, uffd_move", stream<RemapStream>(shape, *loops, aligned(shape, uffd_move))},
        {"RemapStream, shared, not strict",
         stream<RemapStream>(shape, *loops, aligned(shape, shared, false))},
        {"RemapStream, mremap, not strict",
         stream<RemapStream>(shape, *loops, aligned(shape, mremap, false))},
        {"RemapStream, uffd_move, not strict",
         stream<RemapStream>(shape, *loops, aligned(shape, uffd_move, false))},
        {"ProcessStream, two processes",
         two_processes(shape, *loops, aligned<ProcessStream::Options>(shape))},
        {"ProcessStream, two processes, not strict",
         two_processes(shape, *loops, aligned<ProcessStream::Options>(shape, false))}};
    if (paper) fast.push_back({"queue of blocks, iterator", plain<IteratorPipe>(shape, *loops)});
    const std::string suffix = fmt::format(", {}", loops->name);
    auto medians = run_all(fast, shape, 1, runs, suffix, report);
    if (!medians) return std::unexpected(medians.error());
    const std::string name = paper ? "" : "_64_byte_items";
    report.ratio("vs_ceiling_1pipe" + name, (*medians)[1] / (*medians)[0]);
    report.ratio("vs_ceiling_2processes" + name, (*medians)[2] / (*medians)[0]);
    if (!paper) {
      // The gain of code that a compiler can optimize, which an iterator's item prevents.
      report.ratio("vs_per_item_iterator" + name, (*medians)[1] / iterator_gb_per_s);
      continue;
    }
    iterator_gb_per_s = medians->back();
    report.ratio("vs_per_item_iterator", (*medians)[1] / iterator_gb_per_s);
    report.ratio("vs_tight_loop_per_block", (*medians)[1] / (*medians)[3]);

    auto doubled = run_all({fast[0], fast[1], fast.back()}, shape, 2, runs, ", two pipes", report);
    if (!doubled) return std::unexpected(doubled.error());
    report.ratio("vs_ceiling_2pipes", (*doubled)[1] / (*doubled)[0]);
  }

  const Loops& loops = items_of_16_bytes;
  std::vector<Contender> slow{
      {"GuardStream, default options (20 MiB)", stream<GuardStream>(shape_of_slow, loops, {})},
      {"GuardStream",
       stream<GuardStream>(shape_of_slow, loops, aligned<GuardStream::Options>(shape_of_slow))},
      {"POSIX pipe, 64 KiB", plain<PosixPipe>(shape_of_slow, loops)}};
#ifdef PENSTOCK_HAVE_BOOST
  slow.push_back({"boost spsc_queue, blocks", plain<BoostBlockPipe>(shape_of_slow, loops)});
  slow.push_back({"boost spsc_queue, items", plain<BoostItemPipe>(shape_of_slow, loops)});
#endif
  if (auto medians = run_all(std::move(slow), shape_of_slow, 1, runs, "", report); !medians)
    return std::unexpected(medians.error());
  if (!options.quick) {
    auto timely = run_timely(shape_of_slow.bytes);
    if (!timely) return std::unexpected(timely.error());
    if (*timely) report.add("timely dataflow", "GB/s", {**timely});
  }

  RemapStream::Options as_measured;
  as_measured.bytes = shape.bytes;
  as_measured.block_bytes = shape.block_bytes;
  auto opened = RemapStream::open(as_measured);
  if (!opened) return std::unexpected(opened.error());
  report.add("memory of the RemapStream", "MiB",
             {static_cast<double>(opened->memory_bytes()) / static_cast<double>(MiB)});
  if (auto counted = count_instructions(report); !counted) return std::unexpected(counted.error());
  return report;
}

const Registration registration{
    "pipe", "bytes between two threads, beside plain blocks, an iterator, and others", run_pipe};

}  // namespace
}  // namespace penstock::bench
