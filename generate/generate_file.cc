#include "generate/generate_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "base/bits.h"
#include "base/mutex.h"
#include "base/thread.h"
#include "io/request_ring.h"
#include "penstock/base.h"

// Threads take block numbers from a counter and make their blocks side by side. A block's offset is
// the sum of the lengths before it, which for lines are known only when they are made. So each
// block waits for its turn, takes the running offset, and passes the turn on: at once for a file,
// after its write for a pipe, whose bytes must arrive in order. All blocks take about the same
// time, so threads hardly wait.

namespace penstock::generate {

using namespace items;
namespace {

constexpr uint64_t block_bytes_wanted = 2 * MiB;
constexpr unsigned writes_in_flight = 4;

// Items of a block: a multiple of the sector's bytes, so that blocks of fixed items are whole
// sectors.
uint64_t block_items_of(const Generator& generator) {
  return std::max<uint64_t>(
      round_down(block_bytes_wanted / generator.item_bytes_max(), io::sector_bytes),
      io::sector_bytes);
}

// Thread safety: work() runs in any number of threads, finish() after all of them. Invariants:
// blocks before turn_ have their place, and offset_ is the sum of their bytes; once failure_ is set
// nobody waits for a turn.
class Generation {
 public:
  Generation(const Generator& generator, const io::File& file, const std::atomic<bool>* stop)
      : generator_(generator),
        file_(file),
        stop_(stop),
        block_items_(block_items_of(generator)),
        blocks_(ceil_div(generator.options().count, block_items_)) {}

  void work() {
    if (auto done = make_blocks(); !done) fail(done.error());
  }

  Result<uint64_t> finish() {
    MutexLock lock(mutex_);
    if (failure_) return std::unexpected(*failure_);
    return offset_;
  }

 private:
  Status make_blocks() {
    io::RequestRing ring;
    if (auto opened = ring.open({.depth = writes_in_flight,
                                 .buffer_bytes = block_items_ * generator_.item_bytes_max(),
                                 .total_bytes = generator_.total_bytes()});
        !opened)
      return opened;
    // Relaxed: the counter only hands out numbers.
    for (uint64_t block = next_block_.fetch_add(1, std::memory_order_relaxed); block < blocks_;
         block = next_block_.fetch_add(1, std::memory_order_relaxed)) {
      if (auto made = make_block(ring, block); !made) return made;
    }
    return ring.wait_all();
  }

  Status make_block(io::RequestRing& ring, uint64_t block) {
    // Relaxed: pairs with the store of the signal handler or the test; it publishes nothing.
    if (stop_ != nullptr && stop_->load(std::memory_order_relaxed)) {
      return failure(ErrorCode::interrupted, "write all items", file_.path());
    }
    if (ring.full()) (void)ring.wait_oldest();
    if (auto written = ring.status(); !written) return written;
    const uint64_t first = block * block_items_;
    const size_t bytes = generator_.fill(
        first, std::min(block_items_, generator_.options().count - first), ring.next_buffer());
    const auto offset = await_turn(block);
    if (!offset) return {};  // another thread has failed
    if (file_.seekable()) pass_turn(bytes);
    ring.submit({.operation = io::Operation::write,
                 .file = &file_,
                 .offset = *offset,
                 .data = ring.next_buffer(),
                 .bytes = bytes});
    if (file_.seekable()) return {};
    Status written = ring.wait_all();
    if (written) pass_turn(bytes);
    return written;
  }

  std::optional<uint64_t> await_turn(uint64_t block) {
    MutexLock lock(mutex_);
    while (turn_ != block && !failure_) turn_passed_.wait(mutex_);
    if (failure_) return std::nullopt;
    return offset_;
  }

  void pass_turn(size_t bytes) {
    MutexLock lock(mutex_);
    ++turn_;
    offset_ += bytes;
    turn_passed_.notify_all();
  }

  void fail(const Error& error) {
    // Relaxed: the counter only hands out numbers. From here on there are none left.
    next_block_.store(blocks_, std::memory_order_relaxed);
    MutexLock lock(mutex_);
    if (!failure_) failure_ = error;
    turn_passed_.notify_all();
  }

  const Generator& generator_;
  const io::File& file_;
  const std::atomic<bool>* const stop_;
  const uint64_t block_items_;
  const uint64_t blocks_;
  std::atomic<uint64_t> next_block_{0};
  Mutex mutex_;
  Condition turn_passed_;
  uint64_t turn_ GUARDED_BY(mutex_) = 0;
  uint64_t offset_ GUARDED_BY(mutex_) = 0;
  std::optional<Error> failure_ GUARDED_BY(mutex_);
};

// Checks that the file system of the new file has room for it.
Status check_space(const io::File& file, uint64_t bytes) {
  if (file.kind() != io::Kind::regular) return {};
  // The file has no name yet, and its path may be a link to elsewhere.
  const auto space = io::space_of(file);
  if (!space || space->free_bytes >= bytes) return {};
  return failure(ErrorCode::out_of_space, fmt::format("write {} bytes", bytes), file.path(),
                 fmt::format("another disk: here {} bytes are free", space->free_bytes));
}

}  // namespace

Result<uint64_t> generate_file(const Generator& generator, const std::string& path,
                               const GenerateOptions& options) {
  // Lines begin anywhere, not at sectors: direct writes would be split.
  const bool direct = generator.options().format.fixed();
  auto file = io::File::create_output(
      path, {.caching = direct ? io::Caching::direct : io::Caching::buffered,
             .rules = options.output_rules,
             .bytes = generator.total_bytes()});
  if (!file) return std::unexpected(file.error());
  if (auto room = check_space(*file, generator.total_bytes()); !room) {
    return std::unexpected(room.error());
  }
  Generation generation(generator, *file, options.stop);
  in_threads(std::max(options.threads, 1u), [&](size_t) { generation.work(); });
  auto bytes = generation.finish();
  if (!bytes) return bytes;
  if (auto published = file->publish(); !published) return std::unexpected(published.error());
  return bytes;
}

}  // namespace penstock::generate
