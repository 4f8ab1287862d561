#pragma once

// Files as plain pointers: direct I/O behind them, a few blocks of memory, whatever the size of the
// file.
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
// comeback_blocks before it; a reader may jump forward. Further back a reader has what its memory has
// room for, and reads the rest again; a writer does both (of a pipe, which cannot be read back, it is an
// error: copy() of penstock/stream.h goes from front to back, which a large memcpy() may not). An
// access that breaks a rule (far behind the end, beyond bytes_max, after finish()) stops or
// recovers, as the policy says, and never reads as zeros. What comes in order alone, such as a pipe
// or compressed data, is read by a SourceStream (penstock/source.h). A system call that is given such a pointer fails with EFAULT where the memory is not ready.

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
  // Requests in flight while the code computes (one more while it waits); at least 1. One of 2 MiB
  // keeps a local disk busy (`bench file-io`); arrays and networks want more.
  uint32_t read_ahead_blocks = 1;
  uint32_t comeback_blocks = 1;
  // Blocks in memory, at most. What was read stays until its place is wanted: then the block goes
  // that was touched first longest ago. 0, or too few: read_ahead_blocks + comeback_blocks + 1, which
  // is what each thread wants that reads in a place of its own.
  uint32_t memory_blocks = 0;
  ErrorPolicy policy = ErrorPolicy::stop;
  // Told when the reader ends, in a sentence, if blocks had to be read again.
  std::function<void(const std::string&)> notice = {};
};

// A file of which the page cache holds nearly all when it is opened is shown by its own pages: nothing is
// read or copied, reads() stays 0, and what others write to it meanwhile is seen. Of others the page
// cache learns nothing.
// Memory: memory_blocks * block_bytes, and a bit for each block of the file; of what is shown as much is
// resident.
// Thread safety: any number of threads may read by the pointer, each where it likes, and call all
// members, but for a move and the end. A system call that is given the pointer needs memory that no
// other thread's reads take away meanwhile (penstock::system_calls looks after that).
class FileReader {
 public:
  using Options = FileReaderOptions;

  static Result<FileReader> open(const std::string& path, const Options& options = {});

  template <class T = std::byte>
  const T* begin() const {
    return reinterpret_cast<const T*>(data());
  }
  // The end of the last whole T.
  template <class T = std::byte>
  const T* end() const {
    return begin<T>() + bytes() / sizeof(T);
  }
  uint64_t bytes() const;
  // With ErrorPolicy::zeros: the first error.
  Status status() const;
  // What was read so far, ahead of its use, too.
  struct Reads {
    uint64_t blocks = 0;
    uint64_t again = 0;  // of these, blocks that had been read before
  };
  Reads reads() const;

 private:
  friend struct internal::Access;
  struct State;
  // Of what is open already.
  static Result<FileReader> open(io::File&& file, const Options& options);
  explicit FileReader(internal::Owner<State> state) : state_(std::move(state)) {}
  const std::byte* data() const;
  internal::Owner<State> state_;
};

struct FileWriterOptions {
  // Address space to reserve: the most that can be written. Where a limit (ulimit -v) leaves less, a
  // quarter of what it leaves.
  uint64_t bytes_max = TiB;
  size_t block_bytes = 2 * MiB;      // a power of two, 4 KiB to 1 GiB
  uint32_t write_behind_blocks = 8;  // requests in flight
  uint32_t comeback_blocks = 1;      // 0 is for loops over aligned items
  ErrorPolicy policy = ErrorPolicy::zeros;
  // finish() returns when the file and its name are on the disk.
  bool sync = true;
  bool overwrite_device = false;  // or a block device is refused
};

// The file appears under its name when finish() has succeeded, and not before. A writer that ends without it leaves none.
// Memory: (write_behind_blocks + comeback_blocks + 2) * block_bytes. Thread safety: one thread at a
// time.
class FileWriter {
 public:
  using Options = FileWriterOptions;

  static Result<FileWriter> open(const std::string& path, const Options& options = {});

  // Where the file's bytes are to be stored, from the first one on, without leaving blocks out.
  template <class T = std::byte>
  T* begin() const {
    return reinterpret_cast<T*>(data());
  }
  // The file is `bytes` long and complete. Errors: invalid_argument for more than bytes_max or less
  // than what is written already, and the writer goes on; those of the writes.
  Status finish(uint64_t bytes);

 private:
  struct State;
  explicit FileWriter(internal::Owner<State> state) : state_(std::move(state)) {}
  std::byte* data() const;
  internal::Owner<State> state_;
};

}  // namespace penstock
