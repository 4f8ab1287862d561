#pragma once

// A user's function between many files, each possibly larger than memory. The function sees
// contiguous bytes. The schedules of the Tuxedo paper (docs/bowtie.md) decide what the disk reads
// and writes, in which order and how much at a time, so that a seeking disk seeks as rarely as the
// memory allows.
//
//   auto done = penstock::bowtie::run(
//       {.inputs = {"events"}, .outputs = {"small", "large"}, .memory_bytes = 1 * penstock::GiB},
//       [&](penstock::bowtie::Streams& streams) -> penstock::Status {
//         penstock::bowtie::InputStream& in = streams.input(0);
//         for (;;) {
//           auto window = in.window(sizeof(Event));  // waits; short only at the end
//           if (window.size() < sizeof(Event)) return in.status();
//           const auto* event = reinterpret_cast<const Event*>(window.data());
//           if (!streams.output(event->size > limit).append(event, sizeof(Event))) return in.status();
//           in.advance(sizeof(Event));
//         }
//       });
//
// examples/many_files.cc is a whole program. penstock/files.h merges, partitions, groups and joins.
//
// The computation knows nothing of devices, blocks or seeks: each stream is a range of contiguous
// addresses. It waits when it needs bytes or room that are not there yet; upon this event the
// schedule decides what the device does next. Memory is one pool of blocks, which all streams
// share: a stream that often makes the computation wait has few blocks, one that was just read has
// many.
//
// Each stream is used in one of two ways:
//
// - Windows (window / room, and advance): the fast and careful way. There are no faults, memory is
//   freed to the byte, and after an error a window is empty, so that a loop ends by itself.
// - The plain pointer (begin), for code that knows nothing else. A touch of a missing block faults,
//   and the fault waits. A block is finished when the pointer is `comeback_blocks` blocks further,
//   or when advance_to() says so. Options::policy decides what a touch after an error does.
//
// The computation and all its streams belong to the thread that called run(). Other threads may
// work on bytes that a window has shown. The computation never sees bytes of a block that it did
// not wait for, and must not keep pointers to bytes that it has advanced over.

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

// The length of an input that does not report one (a pipe).
inline constexpr uint64_t unknown_bytes = ~uint64_t{0};

namespace internal {
class Execution;
}
class Loan;

// An input of the computation. Thread safety: the computation's thread only.
class InputStream {
 public:
  // Returns at least `bytes_min` bytes from the current position on, mostly the rest of a block.
  // Fewer (possibly none) only if the input ends before, or after an error or a cancel, which
  // status() reports. Nothing moves until advance() passes it. Waits.
  // REQUIRES: bytes_min <= streams().window_bytes_max().
  std::span<const std::byte> window(size_t bytes_min = 1) {
    const std::byte* at = position_.load(std::memory_order_relaxed);
    if (static_cast<size_t>(visible_end_ - at) < bytes_min) [[unlikely]] {
      fetch(bytes_min);
      at = position_.load(std::memory_order_relaxed);  // fetch() may have opened the input
    }
    return {at, visible_end_};
  }
  // Consumes the next `bytes` of the window: their memory becomes free, and their addresses must
  // not be touched again. REQUIRES: no more bytes than window() has shown.
  void advance(size_t bytes) { advance_to(position_.load(std::memory_order_relaxed) + bytes); }
  // Consumes everything before an address; also for the plain pointer.
  void advance_to(const std::byte* position) {
    // Relaxed: the device's thread reads the position only to estimate the levels, and reads
    // nothing behind it. Blocks change hands in release().
    position_.store(position, std::memory_order_relaxed);
    if (position >= release_at_) [[unlikely]]
      release();
  }
  const std::byte* position() const { return position_.load(std::memory_order_relaxed); }

  // Returns the plain pointer. The rest of the last block behind the end reads as zeros.
  template <class T = std::byte>
  const T* begin() const {
    return reinterpret_cast<const T*>(begin_);
  }
  // Returns unknown_bytes for an input that comes in order and was not read to its end.
  uint64_t bytes() const;
  // REQUIRES: bytes() is known.
  const std::byte* end() const { return begin_ + bytes(); }

  // Returns whether the last window is short because the memory has no room for more of it. Only a
  // run of penstock/files.h shows windows of more than window_bytes_max().
  bool is_full() const { return is_full_; }
  // Returns the run's first error so far, which explains a short window.
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
  const std::byte* visible_end_ = nullptr;  // end of the mapped bytes that belong to the input
  const std::byte* release_at_ = nullptr;   // end of the first block that is held
  bool is_full_ = false;
};

// An output of the computation. Thread safety: the computation's thread only.
class OutputStream {
 public:
  // Returns room for at least `bytes_min` bytes with undefined contents; empty after an error or a
  // cancel, which status() reports. Waits. REQUIRES: bytes_min <= streams().window_bytes_max().
  std::span<std::byte> room(size_t bytes_min = 1) {
    std::byte* at = position_.load(std::memory_order_relaxed);
    if (static_cast<size_t>(visible_end_ - at) < bytes_min) [[unlikely]] {
      if (!make_room(bytes_min)) return {};
    }
    return {at, visible_end_};
  }
  // Commits the next `bytes` of the room as written.
  void advance(size_t bytes) { advance_to(position_.load(std::memory_order_relaxed) + bytes); }
  // Commits everything before an address. A computation that writes by the plain pointer calls it
  // at least once, with the output's end, before it returns.
  void advance_to(std::byte* position) {
    position_.store(position, std::memory_order_relaxed);  // see InputStream
    if (position >= release_at_) [[unlikely]]
      release();
  }
  std::byte* position() const { return position_.load(std::memory_order_relaxed); }

  // Returns the plain pointer.
  template <class T = std::byte>
  T* begin() const {
    return reinterpret_cast<T*>(begin_);
  }
  // Copies through room(), piece by piece. Returns false after an error.
  bool append(const void* data, size_t bytes);

  uint64_t bytes() const { return static_cast<uint64_t>(position() - begin_); }
  Status status() const;
  uint32_t index() const { return index_; }

 private:
  friend class internal::Execution;
  friend class Loan;
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
  // The largest window or room: comeback_blocks whole blocks; if that is 0, one item of a size that
  // divides the block.
  size_t window_bytes_max() const { return window_bytes_max_; }
  // No item of an input is longer: window_bytes_max(), or all blocks if the run shows wider windows.
  size_t item_bytes_max() const { return item_bytes_max_; }
  // Returns ok, the first error of any stream, or `cancelled`. A computation that runs for long
  // without a window or room should check it.
  Status status() const;

 private:
  friend class internal::Execution;
  friend class Loan;
  internal::Execution* execution_ = nullptr;
  std::vector<InputStream> inputs_;
  std::vector<OutputStream> outputs_;
  size_t block_bytes_ = 0;
  size_t window_bytes_max_ = 0;
  size_t item_bytes_max_ = 0;
};

// The user's function, called once. Its result ends the run: an error is the run's (unless a stream
// failed before), and no output gets its name. It need not read its inputs to their ends.
using Computation = std::function<Status(Streams&)>;

struct Options {
  // Paths. An input that only comes in order, such as a pipe, or a compressed file if `source` asks
  // for decompression, is read by a thread of its own, in blocks outside of memory_bytes, and can
  // be used with windows only. Files are opened when the disk comes to them: there may be more
  // files than descriptors.
  std::vector<std::string> inputs = {};
  // Paths. All outputs appear together when the function has returned and everything is written.
  std::vector<std::string> outputs = {};
  // Blocks of all streams together. A run needs some MiB besides, and 16 bytes per block.
  uint64_t memory_bytes = 256 * MiB;
  // A power of two from 4 KiB to 4 MiB. 0: the largest size that leaves each stream many blocks.
  size_t block_bytes = 0;
  // The distance that a plain pointer may come back, and the length of an item across a block
  // border, in blocks. Each stream always has this many blocks and one more.
  uint32_t comeback_blocks = 1;
  // Bytes read / (bytes read + bytes written), if the caller knows it better than the default.
  double input_share = 0.5;
  // Device for the prediction in the statistics.
  std::shared_ptr<const DeviceProfile> device = {};
  SourceOptions source = SourceOptions{false};  // compressed inputs are not decompressed
  // Reaction to a touch through a plain pointer after an error. (Windows are empty instead.)
  ErrorPolicy policy = ErrorPolicy::zeros;
  const std::atomic<bool>* cancel = nullptr;  // ends the run with ErrorCode::cancelled when set
};

struct Stats {
  uint64_t bytes_read = 0;
  uint64_t bytes_written = 0;
  uint64_t switches = 0;  // times that the device went on to another stream
  double run_bytes = 0;   // mean bytes between two switches
  double seconds = 0;
  // Parts of `seconds`: the device worked while the function waited; both worked; only the function
  // did.
  double seconds_device_alone = 0;
  double seconds_overlapped = 0;
  double seconds_function_alone = 0;
  uint64_t memory_peak_bytes = 0;  // peak memory of blocks
  size_t block_bytes = 0;
  std::vector<uint64_t> output_bytes;
  std::optional<double> predicted_seconds;  // disk time predicted by Options::device
  std::string emulated;                     // the emulated device that ran this; empty: none
};

// Calls the function once, in the calling thread. After an error no output has its name. Errors:
// out_of_memory if the memory has no room for so many streams (the hint says what to try); errors
// of opening, reading and writing; corrupt if a file became shorter; the function's error;
// cancelled. Thread safety: several runs may proceed at the same time.
Result<Stats> run(const Options& options, const Computation& function);

}  // namespace penstock::bowtie
