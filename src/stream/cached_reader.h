#pragma once

// A file that lies in the page cache as one plain pointer: its own pages, mapped piece by piece.
//
// FileReaderCore would copy each block out of the page cache, which takes longer than most code takes
// to read it. Here a fault maps a whole piece of the file (half of the memory) at its place, and when more
// than memory_blocks are mapped, the piece that came first goes. So no more of the file is resident
// than a FileReaderCore would hold, and none of it is memory of this process. What has left the page
// cache by then the kernel reads, as for any mapping.
//
// Unlike a copy a mapping shows what others write to the file meanwhile. A place that cannot be read, as
// the file is shorter now or its disk fails, is a SIGBUS: with ErrorPolicy::zeros it and everything
// behind it in its piece, and what is touched for the first time after it, reads as zeros. The consumer
// may write; what it writes is gone with its piece.
//
// Thread safety: any number of threads may read by the pointer; all members from any thread.
// Invariants: the pieces in pieces_ are mapped, and no others. What is behind the last whole page, and the
// zeros behind that, are memory, always.

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/mutex.h"
#include "fault/registry.h"
#include "file/file.h"
#include "os/memory.h"
#include "pool/page_tables.h"
#include "stream/recovery.h"
#include "stream/stream_handler.h"

namespace penstock::stream {

class CachedReader final : public StreamHandler {
 public:
  struct Options {
    size_t block_bytes = 2 * MiB;
    uint32_t memory_blocks = 2;  // at least 2: a load may reach into two pieces
    ErrorPolicy policy = ErrorPolicy::zeros;
  };
  // The first `bytes` of the file. REQUIRES: bytes > 0; the file outlives the reader. Errors:
  // unsupported, where its file system has no mappings.
  static Result<std::unique_ptr<CachedReader>> open(const file::File& file, uint64_t bytes,
                                                    const Options& options);
  ~CachedReader();

  const std::byte* begin() const { return range_.begin(); }
  uint64_t bytes() const { return bytes_; }
  // The first error, when the policy is zeros; ok otherwise.
  Status status() const;

  fault::Outcome on_fault(const fault::Fault& fault) noexcept override;
  Result<size_t> prepare(std::byte* address, size_t bytes, fault::Access access) override;

 private:
  Label label() const noexcept override { return {file_.path().c_str(), options_.policy}; }

  struct Piece {
    uint64_t number;
    uint32_t idle_faults = 0;  // since it is mapped, of pages that are there
  };
  enum class Served : uint8_t { yes, no, refused };
  // `text` is what failure.attempted points to, if it is of this access.
  struct Refusal {
    Failure failure;
    char text[160];
  };

  CachedReader(const file::File& file, uint64_t bytes, const Options& options);
  // The whole pages of the file in a piece.
  std::byte* begin_of(uint64_t piece) const { return range_.begin() + piece * piece_bytes_; }
  size_t bytes_of(uint64_t piece) const;
  // `faults`: a thread has just done so there.
  Served serve(const std::byte* address, bool faults, Refusal& refusal) noexcept
      EXCLUDES_LOCK(mutex_);
  Served look_again(Piece& piece, const std::byte* address, Refusal& refusal) noexcept
      REQUIRES_LOCK(mutex_);
  bool goes_back_often(uint64_t piece) noexcept REQUIRES_LOCK(mutex_);
  void show_blocks() noexcept REQUIRES_LOCK(mutex_);
  Served show(uint64_t piece, Refusal& refusal) noexcept REQUIRES_LOCK(mutex_);
  void drop_first() noexcept REQUIRES_LOCK(mutex_);
  void note(ErrorCode code, int system_errno, const char* what, uint64_t offset) noexcept
      REQUIRES_LOCK(mutex_);

  const file::File& file_;
  const Options options_;
  const uint64_t bytes_;
  const uint64_t pages_end_;  // of the whole pages, which are mapped; what is behind them is memory
  // Changed under the lock, once, to a block.
  std::atomic<uint64_t> piece_bytes_;
  size_t pieces_max_ GUARDED_BY(mutex_);
  os::Reservation range_;
  fault::Registration registration_;

  // Held while a fault is served, which is a few system calls; nobody's code runs under it.
  mutable Mutex mutex_;
  std::vector<Piece> pieces_
      GUARDED_BY(mutex_);  // that came first, first; room for all is reserved
  // While pieces are large: behind the last that was ever mapped, and the one that was mapped last.
  uint64_t next_ GUARDED_BY(mutex_) = 0;
  uint64_t last_ GUARDED_BY(mutex_) = 0;
  uint32_t returns_ GUARDED_BY(mutex_) = 0;
  pool::PassedPageTables passed_ GUARDED_BY(mutex_);
  bool failed_ GUARDED_BY(mutex_) = false;
  Failure failure_ GUARDED_BY(mutex_);  // stays as it is once it is set
  char attempted_[160] = {};
};

}  // namespace penstock::stream
