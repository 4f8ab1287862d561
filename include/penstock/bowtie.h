#pragma once

// A function of your own between many files, all of them larger than memory if need be. It sees bytes in a row; what the
// disk reads and writes, in which order and how much at a time, is decided by the schedules of the Tuxedo paper
// (docs/bowtie.md), so that a disk which has to seek does so as rarely as the memory allows.
//
//   auto done = penstock::bowtie::run(
//       {.inputs = {"events"}, .outputs = {"small", "large"}, .memory_bytes = 1 * penstock::GiB},
//       [&](penstock::bowtie::Streams& streams) -> penstock::Status {
//         penstock::bowtie::InputStream& in = streams.input(0);
//         for (;;) {
//           auto window = in.window(sizeof(Event));  // waits; short at the end alone
//           if (window.size() < sizeof(Event)) return in.status();
//           const auto* event = reinterpret_cast<const Event*>(window.data());
//           if (!streams.output(event->size > limit).append(event, sizeof(Event))) return in.status();
//           in.advance(sizeof(Event));
//         }
//       });
//
// examples/many_files.cc is a whole program. Merging, partitioning, grouping and joining are there already: penstock/files.h.
//
// The computation knows nothing of devices, blocks or seeks: each stream is bytes in a row at
// contiguous addresses. When it asks for bytes that are not there, or for room that is not there,
// it waits; that is the event upon which the schedule says what the device does next. Memory is one
// pool of blocks, which all streams share: a stream that is waited for often has few of them, one
// that was just read has many.
//
// Two ways to use a stream; each stream is used in one of them:
//
// - Windows (window / room, and advance): the fast way, and the careful one. No faults, memory is given
//   back to the byte, and after an error a window is empty, so that a loop ends by itself.
// - The plain pointer (begin), for code that knows nothing else. A touch of a block that is not there
//   faults, and the fault waits. A block counts as done when the pointer is `comeback_blocks` blocks
//   further, or when advance_to() says so. What becomes of a touch after an error is said by
//   Options::policy.
//
// The computation and all its streams belong to one thread: the one that called run(). It may use
// other threads for work on bytes that a window has shown. It never sees bytes of a block that it
// did not wait for, and must not keep pointers behind what it has advanced over.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "penstock/base.h"
#include "penstock/disk.h"
#include "penstock/source.h"

namespace penstock::bowtie {

// Of an input that does not say how long it is (a pipe).
inline constexpr uint64_t unknown_bytes = ~uint64_t{0};

namespace internal {
class Execution;
}

// What the computation reads.
//
// Thread safety: the computation's thread alone.
class InputStream {
 public:
  // At least `bytes_min` bytes from the present position on; fewer (perhaps none) only where the
  // input ends before, or after an error or a cancel, which status() tells. There are more at hand
  // than asked for, mostly the rest of a block; nothing moves until advance() passes it. Waits.
  // REQUIRES: bytes_min <= streams().window_bytes_max().
  std::span<const std::byte> window(size_t bytes_min = 1) {
    const std::byte* at = position_.load(std::memory_order_relaxed);
    if (static_cast<size_t>(visible_end_ - at) < bytes_min) [[unlikely]] {
      fetch(bytes_min);
      at = position_.load(std::memory_order_relaxed);  // what comes in order is opened by now
    }
    return {at, visible_end_};
  }
  // The next `bytes` of the window are consumed: their memory is free, their addresses must not be
  // touched again. REQUIRES: no more than window() has shown.
  void advance(size_t bytes) { advance_to(position_.load(std::memory_order_relaxed) + bytes); }
  // The same with an address; on a plain pointer, what lies before it is done with.
  void advance_to(const std::byte* position) {
    // Relaxed: the device's thread looks at it for its picture of the levels, and at nothing
    // behind it. Blocks change hands in release().
    position_.store(position, std::memory_order_relaxed);
    if (position >= release_at_) [[unlikely]]
      release();
  }
  const std::byte* position() const { return position_.load(std::memory_order_relaxed); }

  // The plain pointer. Past the end the rest of the last block reads as zeros.
  template <class T = std::byte>
  const T* begin() const {
    return reinterpret_cast<const T*>(begin_);
  }
  // unknown_bytes for what comes in order and was not read to its end.
  uint64_t bytes() const;
  // REQUIRES: bytes() is known.
  const std::byte* end() const { return begin_ + bytes(); }

  // The run's first error so far: why a window was short.
  Status status() const;
  uint32_t index() const { return index_; }

 private:
  friend class internal::Execution;
  void fetch(size_t bytes_min);
  void release();

  internal::Execution* execution_ = nullptr;
  uint32_t index_ = 0;
  const std::byte* begin_ = nullptr;
  std::atomic<const std::byte*> position_{nullptr};
  const std::byte* visible_end_ = nullptr;  // of what is mapped, and belongs to the input
  const std::byte* release_at_ = nullptr;   // the end of the first block that is held
};

// What the computation writes.
//
// Thread safety: the computation's thread alone.
class OutputStream {
 public:
  // Room for at least `bytes_min` bytes; empty after an error or a cancel, which status() tells.
  // Waits. What is in it is undefined. REQUIRES: bytes_min <= streams().window_bytes_max().
  std::span<std::byte> room(size_t bytes_min = 1) {
    std::byte* at = position_.load(std::memory_order_relaxed);
    if (static_cast<size_t>(visible_end_ - at) < bytes_min) [[unlikely]] {
      if (!make_room(bytes_min)) return {};
    }
    return {at, visible_end_};
  }
  // The next `bytes` of the room are written.
  void advance(size_t bytes) { advance_to(position_.load(std::memory_order_relaxed) + bytes); }
  // The same with an address; on a plain pointer, how far it has come: to be called at least once,
  // with the output's end, before the computation returns.
  void advance_to(std::byte* position) {
    position_.store(position, std::memory_order_relaxed);  // as in InputStream
    if (position >= release_at_) [[unlikely]]
      release();
  }
  std::byte* position() const { return position_.load(std::memory_order_relaxed); }

  // The plain pointer.
  template <class T = std::byte>
  T* begin() const {
    return reinterpret_cast<T*>(begin_);
  }
  // Copies through room(), piece by piece. False after an error.
  bool append(const void* data, size_t bytes);

  uint64_t bytes() const { return static_cast<uint64_t>(position() - begin_); }
  Status status() const;
  uint32_t index() const { return index_; }

 private:
  friend class internal::Execution;
  bool make_room(size_t bytes_min);
  void release();

  internal::Execution* execution_ = nullptr;
  uint32_t index_ = 0;
  std::byte* begin_ = nullptr;
  std::atomic<std::byte*> position_{nullptr};
  std::byte* visible_end_ = nullptr;
  std::byte* release_at_ = nullptr;
};

// All streams of a run.
class Streams {
 public:
  uint32_t inputs() const { return static_cast<uint32_t>(inputs_.size()); }
  uint32_t outputs() const { return static_cast<uint32_t>(outputs_.size()); }
  InputStream& input(uint32_t i) { return inputs_[i]; }
  OutputStream& output(uint32_t j) { return outputs_[j]; }
  size_t block_bytes() const { return block_bytes_; }
  // The largest window or room that can be asked for: comeback_blocks whole blocks, or where that
  // is 0, one item of a size that divides the block.
  size_t window_bytes_max() const { return window_bytes_max_; }
  // ok, or the first error of any stream, or `cancelled`: for computations that go on for long
  // without asking for anything.
  Status status() const;

 private:
  friend class internal::Execution;
  internal::Execution* execution_ = nullptr;
  std::vector<InputStream> inputs_;
  std::vector<OutputStream> outputs_;
  size_t block_bytes_ = 0;
  size_t window_bytes_max_ = 0;
};

// Called once. What it returns ends the run: an error is the run's error (unless a stream had one
// before), and nothing gets a name. It need not read its inputs to their ends.
using Computation = std::function<Status(Streams&)>;

struct Options {
  // Paths. An input that comes in order alone, such as a pipe, is read by a thread of its own, in
  // blocks beside memory_bytes, and can be used in windows alone; so is a compressed one, if `source`
  // says that it is to be decompressed. Files are opened when the disk comes to them: there may be
  // more of them than descriptors.
  std::vector<std::string> inputs = {};
  // Paths. They appear together when the function has returned and all is written.
  std::vector<std::string> outputs = {};
  // Blocks of all streams together. A run needs some MiB beside it, and 16 bytes a block.
  uint64_t memory_bytes = 256 * MiB;
  // A power of two from 4 KiB to 4 MiB. 0: as large as leaves each stream many of them.
  size_t block_bytes = 0;
  // How far behind a plain pointer may come back, and how many blocks an item may be long that lies
  // across the border of two. Each stream has so many and one more, at any time.
  uint32_t comeback_blocks = 1;
  // Bytes read over bytes read and written, where that is known better than by default.
  double input_share = 0.5;
  // For the prediction in the statistics.
  std::shared_ptr<const DeviceProfile> device = {};
  SourceOptions source = SourceOptions{false};  // compressed inputs come as they are
  // What a touch through a plain pointer meets after an error. (Windows are empty instead.)
  ErrorPolicy policy = ErrorPolicy::zeros;
  const std::atomic<bool>* cancel = nullptr;  // set it, and the run ends: ErrorCode::cancelled
};

struct Stats {
  uint64_t bytes_read = 0;
  uint64_t bytes_written = 0;
  uint64_t switches = 0;  // how often the device went on to another stream
  double run_bytes = 0;   // between two such times, mean
  double seconds = 0;
  // Of these: the device worked, and the function waited; both worked; the function worked alone.
  double seconds_device_alone = 0;
  double seconds_overlapped = 0;
  double seconds_function_alone = 0;
  uint64_t memory_peak_bytes = 0;  // of blocks
  size_t block_bytes = 0;
  std::vector<uint64_t> output_bytes;
  std::optional<double> predicted_seconds;  // of the disk alone, by Options::device
  std::string emulated;  // the emulated device on which this happened; empty: none
};

// Calls the function once, in this thread. After an error no output has its name. Errors:
// out_of_memory where the memory has no room for so many streams (the hint tells what to try); what
// opening, reading and writing say; corrupt where a file is shorter than it was; what the function
// returned; cancelled. Thread safety: several runs at the same time.
Result<Stats> run(const Options& options, const Computation& function);

}  // namespace penstock::bowtie
