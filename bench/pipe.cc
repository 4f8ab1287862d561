// How fast do bytes go from one thread to another through two plain pointers?
//
// The same two loops, a fill with 64-bit numbers and their sum, over
//   ceiling        a ring of plain blocks, handed over with two counters and a spin: no stream can
//   be faster; RemapStream    on every mechanism, with the blocks and the memory of the ceiling;
//   with the default options; iterator       a queue of the same blocks behind an iterator, with
//   16-byte items as in the paper (sections 2.2 and 6.4).
// The runs of all contenders are interleaved, and the first touch of the memory is not timed.
// Source: table 4 of the paper.

#include <fmt/format.h>

#include <atomic>
#include <bit>
#include <memory>
#include <thread>
#include <vector>

#include "bench/bench.h"
#include "os/futex.h"
#include "os/memory.h"
#include "os/semaphore.h"
#include "penstock/remap_stream.h"
#include "penstock/units.h"

namespace penstock::bench {
namespace {

#if defined(__x86_64__)
#define PENSTOCK_WIDEST [[gnu::target_clones("avx512f", "avx2", "default")]]
#else
#define PENSTOCK_WIDEST
#endif

using Wide [[gnu::vector_size(64)]] =
    uint64_t;  // the compiler splits it where registers are narrower
using Item [[gnu::vector_size(16)]] = uint64_t;  // an iterator's item

// REQUIRES of both: 64-byte alignment, `bytes` a multiple of 128.
PENSTOCK_WIDEST void fill(void* to, uint64_t bytes, uint64_t first) {
  auto data = static_cast<Wide*>(to);
  Wide value = {first, first + 1, first + 2, first + 3, first + 4, first + 5, first + 6, first + 7};
  for (uint64_t i = 0; i < bytes / sizeof(Wide); i += 2) {
    data[i] = value;
    data[i + 1] = value + 8;
    value += 16;
  }
}

PENSTOCK_WIDEST uint64_t sum(const void* from, uint64_t bytes) {
  auto data = static_cast<const Wide*>(from);
  Wide sums[4] = {};
  for (uint64_t i = 0; i < bytes / sizeof(Wide); i += 2) {
    sums[0] += data[i];
    sums[1] += data[i + 1];
  }
  uint64_t total = 0;
  for (int i = 0; i < 8; ++i) total += sums[0][i] + sums[1][i];
  return total;
}

struct Shape {
  uint64_t bytes;
  size_t block_bytes;
  uint32_t blocks;
};

struct Measured {
  double gigabytes_per_s;
  uint64_t total;
};

template <class Produce, class Consume>
Measured time_both(uint64_t bytes, Produce&& produce, Consume&& consume) {
  Measured measured{};
  double seconds = seconds_of([&] {
    std::jthread producer(produce);
    measured.total = consume();
  });
  measured.gigabytes_per_s = static_cast<double>(bytes) / seconds / 1e9;
  return measured;
}

// Huge pages that have been touched. Reserved rather than allocated, so that every contender stands
// on the same pages.
Result<os::Reservation> plain_memory(uint64_t bytes) {
  auto memory = os::Reservation::reserve(bytes);
  if (!memory) return memory;
  int error = os::commit(memory->begin(), bytes);
  if (error == 0) error = os::advise_huge(memory->begin(), bytes, true);
  if (error == 0) error = os::populate(memory->begin(), bytes);
  if (error != 0) return system_error(error, "get memory", "bench");
  return memory;
}

struct alignas(64) Counter {
  std::atomic<uint64_t> blocks{
      0};  // release by the side that counts pairs with acquire by the one that waits
};

// Spins, and gives way only where the other side seems to have lost its processor.
void wait_for(const Counter& counter, uint64_t blocks) {
  for (int spins = 0; counter.blocks.load(std::memory_order_acquire) < blocks; ++spins) {
    if (spins < 2000) {
      os::spin_pause();
    } else {
      std::this_thread::yield();
    }
  }
}

Result<Measured> run_ceiling(const Shape& shape) {
  auto memory = plain_memory(shape.block_bytes * shape.blocks);
  if (!memory) return std::unexpected(memory.error());
  Counter filled, emptied;
  const uint64_t blocks = shape.bytes / shape.block_bytes;
  auto block = [&](uint64_t i) { return memory->begin() + i % shape.blocks * shape.block_bytes; };
  return time_both(
      shape.bytes,
      [&] {
        for (uint64_t i = 0; i < blocks; ++i) {
          wait_for(emptied, i + 1 - std::min(i + 1, uint64_t{shape.blocks}));
          fill(block(i), shape.block_bytes, i * shape.block_bytes / 8);
          filled.blocks.store(i + 1, std::memory_order_release);
        }
      },
      [&] {
        uint64_t total = 0;
        for (uint64_t i = 0; i < blocks; ++i) {
          wait_for(filled, i + 1);
          total += sum(block(i), shape.block_bytes);
          emptied.blocks.store(i + 1, std::memory_order_release);
        }
        return total;
      });
}

Result<Measured> run_stream(uint64_t bytes, const RemapStream::Options& options) {
  auto pipe = RemapStream::open(options);
  if (!pipe) return std::unexpected(pipe.error());
  return time_both(
      bytes,
      [&] {
        fill(pipe->writer(), bytes, 0);
        keep(pipe->finish(bytes));
      },
      [&] { return sum(pipe->reader(), bytes); });
}

// Algorithms 3 and 4: each item asks whether its block is at an end.
class BlockQueue {
 public:
  BlockQueue(std::byte* memory, const Shape& shape)
      : memory_(memory), shape_(shape), empty_(shape.blocks) {}

  class Writer {
   public:
    explicit Writer(BlockQueue& queue) : queue_(queue) { next_block(); }
    void put(Item item) {
      if (at_ == end_) [[unlikely]] {
        queue_.full_.release();
        next_block();
      }
      *at_++ = item;
    }
    void close() {
      queue_.full_.release();
      queue_.full_.close();
    }

   private:
    void next_block() {
      keep(queue_.empty_.acquire());
      at_ = queue_.block(block_++);
      end_ = at_ + queue_.shape_.block_bytes / sizeof(Item);
    }
    BlockQueue& queue_;
    Item* at_ = nullptr;
    Item* end_ = nullptr;
    uint64_t block_ = 0;
  };

  class Reader {
   public:
    explicit Reader(BlockQueue& queue) : queue_(queue) { next_block(); }
    Item get() {
      if (at_ == end_) [[unlikely]] {
        queue_.empty_.release();
        next_block();
      }
      return *at_++;
    }

   private:
    void next_block() {
      keep(queue_.full_.acquire());
      at_ = queue_.block(block_++);
      end_ = at_ + queue_.shape_.block_bytes / sizeof(Item);
    }
    BlockQueue& queue_;
    const Item* at_ = nullptr;
    const Item* end_ = nullptr;
    uint64_t block_ = 0;
  };

 private:
  Item* block(uint64_t i) {
    return reinterpret_cast<Item*>(memory_ + i % shape_.blocks * shape_.block_bytes);
  }

  std::byte* memory_;
  Shape shape_;
  os::Semaphore full_, empty_;
};

Result<Measured> run_iterator(const Shape& shape) {
  auto memory = plain_memory(shape.block_bytes * shape.blocks);
  if (!memory) return std::unexpected(memory.error());
  BlockQueue queue(memory->begin(), shape);
  const uint64_t items = shape.bytes / sizeof(Item);
  return time_both(
      shape.bytes,
      [&] {
        BlockQueue::Writer writer(queue);
        Item value = {0, 1};
        for (uint64_t i = 0; i < items; ++i, value += 2) writer.put(value);
        writer.close();
      },
      [&] {
        BlockQueue::Reader reader(queue);
        Item total = {};
        for (uint64_t i = 0; i < items; ++i) total += reader.get();
        return total[0] + total[1];
      });
}

struct Contender {
  std::string name;
  std::function<Result<Measured>()> run;
  std::vector<double> samples = {};
};

Result<Report> run_pipe(const Options& options) {
  // The quick form shrinks the blocks as well: it is for correctness.
  const size_t block_bytes = options.quick ? 64 * KiB : RemapStream::Options{}.block_bytes;
  const Shape shape{
      .bytes = options.quick ? 64 * MiB : 8 * GiB, .block_bytes = block_bytes, .blocks = 5};
  auto stream = [&](RemapStream::Options with) {
    with.bytes = shape.bytes;
    with.block_bytes = block_bytes;
    return [bytes = shape.bytes, with] { return run_stream(bytes, with); };
  };
  // Aligned loops need no comebacks: all memory but the reader's block is read-ahead.
  auto aligned = [&](RemapStream::Mechanism mechanism, bool strict) {
    return stream({.read_ahead_blocks = shape.blocks - 1,
                   .producer_comeback_blocks = 0,
                   .consumer_comeback_blocks = 0,
                   .mechanism = mechanism,
                   .strict = strict});
  };
  using enum RemapStream::Mechanism;
  std::vector<Contender> contenders;
  contenders.push_back({"ceiling: plain blocks, spin", [&] { return run_ceiling(shape); }});
  contenders.push_back({"RemapStream, default options", stream({})});
  contenders.push_back({"RemapStream, no comebacks, shared", aligned(shared, false)});
  contenders.push_back({"RemapStream, no comebacks, shared, strict", aligned(shared, true)});
  contenders.push_back({"RemapStream, no comebacks, mremap", aligned(mremap, false)});
  contenders.push_back({"RemapStream, no comebacks, uffd_move", aligned(uffd_move, false)});
  contenders.push_back({"iterator over a queue of blocks", [&] { return run_iterator(shape); }});

  Report report;
  const uint64_t items = shape.bytes / sizeof(uint64_t);
  const uint64_t expected = items / 2 * (items - 1);  // 0 + 1 + ... + items - 1
  report.hash(expected);
  const unsigned runs = options.runs_or(7);
  for (unsigned run = 0; run < runs; ++run) {
    for (Contender& contender : contenders) {
      auto measured = contender.run();
      if (!measured && measured.error().code == ErrorCode::unsupported) continue;
      if (!measured) return std::unexpected(measured.error());
      if (measured->total != expected) {
        return failure(ErrorCode::corrupt, "sum what went through", contender.name);
      }
      contender.samples.push_back(measured->gigabytes_per_s);
    }
  }
  std::vector<double> medians;
  for (const Contender& contender : contenders) {
    medians.push_back(
        contender.samples.empty() ? 0 : report.add(contender.name, "GB/s", contender.samples));
  }
  double best_stream = std::max(medians[1], medians[2]);
  report.ratio("vs_ceiling_1pipe", best_stream / medians[0]);
  report.ratio("vs_ceiling_1pipe_default", medians[1] / medians[0]);
  report.ratio("vs_per_item_iterator", best_stream / medians.back());
  return report;
}

const Registration registration{
    "pipe", "bytes between two threads, beside plain blocks and an iterator", run_pipe};

}  // namespace
}  // namespace penstock::bench
