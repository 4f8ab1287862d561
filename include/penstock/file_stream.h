#pragma once

// Files as plain pointers: direct I/O and a few blocks of memory, whatever the size of the file.
//
//   auto file = penstock::FileReader::open("huge.u64");
//   if (!file) return report(file.error());
//   uint64_t total = std::reduce(file->begin<uint64_t>(), file->end<uint64_t>());
//
//   auto copy = penstock::FileWriter::open("copy.u64");
//   std::copy(file->begin<uint64_t>(), file->end<uint64_t>(), copy->begin<uint64_t>());
//   penstock::Status done = copy->finish(file->bytes());
//
// Both are fast when used almost sequentially: after touching a block, code may come back to the
// comeback_blocks before it, and a reader may jump forward. If a reader goes further back, the
// blocks still in its memory are served from there and the others are read again; a writer also
// reads blocks back. (A pipe cannot be read back, and a writer's step too far back is an error:
// copy() of penstock/stream.h goes from front to back, which a large memcpy() may not.) An access
// that breaks a rule (far behind the end, beyond bytes_max, after finish()) stops or recovers, as
// the policy says, and never reads as zeros. SourceStream (penstock/source.h) reads data that only
// come in order, such as a pipe or compressed data. A system call with such a pointer fails with
// EFAULT if the memory is not ready.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "penstock/base.h"

namespace penstock {

namespace io {
class File;
}

struct FileReaderOptions {
  size_t block_bytes = 2 * MiB;  // a power of two, 4 KiB to 1 GiB
  // Requests in flight while the code computes (one more while it waits); at least 1. A single
  // request of 2 MiB keeps a local disk busy (`bench file-io`); arrays and networks need more.
  uint32_t read_ahead_blocks = 1;
  uint32_t comeback_blocks = 1;
  // The most blocks in memory. A block stays until its place is needed; then the block whose first
  // touch is longest ago is evicted. 0, or too few: read_ahead_blocks + comeback_blocks + 1, which
  // is also what each thread needs that reads in a place of its own.
  uint32_t memory_blocks = 0;
  ErrorPolicy policy = ErrorPolicy::stop;
  // Called with a sentence when the reader ends, if blocks had to be read again.
  std::function<void(const std::string&)> notice = {};
};

// Reads a file through a plain pointer. If the page cache holds nearly all of a file when it is
// opened, the reader maps the cached pages: nothing is read or copied, reads() stays 0, and writes
// by others show up. Otherwise the reader bypasses the page cache.
//
// Memory: memory_blocks * block_bytes, and a bit for each block of the file; for a mapped file as
// much is resident.
//
// Thread safety: any number of threads may read by the pointer, each at its own place, and call all
// members but the move and the destructor. A system call on the pointer needs memory that no other
// thread's reads evict meanwhile (penstock::system_calls takes care of that).
class FileReader {
 public:
  using Options = FileReaderOptions;

  static Result<FileReader> open(const std::string& path, const Options& options = {});

  template <class T = std::byte>
  const T* begin() const {
    return reinterpret_cast<const T*>(data());
  }
  // Returns the end of the last whole T.
  template <class T = std::byte>
  const T* end() const {
    return begin<T>() + bytes() / sizeof(T);
  }
  uint64_t bytes() const;
  // Returns the first error, with ErrorPolicy::zeros.
  Status status() const;
  // Counts of blocks read so far, including those read ahead.
  struct Reads {
    uint64_t blocks = 0;
    uint64_t again = 0;  // blocks among these that had been read before
  };
  Reads reads() const;

 private:
  friend struct internal::Access;
  struct State;
  // Opens a reader on an open file.
  static Result<FileReader> open(io::File&& file, const Options& options);
  explicit FileReader(internal::Owner<State> state) : state_(std::move(state)) {}
  const std::byte* data() const;
  internal::Owner<State> state_;
};

struct FileWriterOptions {
  // Address space to reserve, which limits the file's length. If a limit (ulimit -v) leaves less, a
  // quarter of what it leaves.
  uint64_t bytes_max = TiB;
  size_t block_bytes = 2 * MiB;      // a power of two, 4 KiB to 1 GiB
  uint32_t write_behind_blocks = 8;  // requests in flight
  uint32_t comeback_blocks = 1;      // 0 is for loops over aligned items
  ErrorPolicy policy = ErrorPolicy::zeros;
  // Makes finish() return only when the file and its name are on the disk.
  bool sync = true;
  bool overwrite_device = false;  // otherwise a block device is refused
};

// Writes a file through a plain pointer. The file appears under its name when finish() has
// succeeded, and not before; a writer that ends without it leaves no file. Memory:
// (write_behind_blocks + comeback_blocks + 2) * block_bytes. Thread safety: one thread at a time.
class FileWriter {
 public:
  using Options = FileWriterOptions;

  static Result<FileWriter> open(const std::string& path, const Options& options = {});

  // Returns the address for the file's bytes, to be stored in order without leaving out blocks.
  template <class T = std::byte>
  T* begin() const {
    return reinterpret_cast<T*>(data());
  }
  // Completes the file with a length of `bytes`. Errors: those of the writes; invalid_argument for
  // more than bytes_max or less than what is written already, after which the writer can continue.
  Status finish(uint64_t bytes);

 private:
  struct State;
  explicit FileWriter(internal::Owner<State> state) : state_(std::move(state)) {}
  std::byte* data() const;
  internal::Owner<State> state_;
};

}  // namespace penstock
