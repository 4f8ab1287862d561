#pragma once

// A file, or pieces of files, as one plain pointer: direct I/O with read-ahead behind it, in a few
// blocks of memory.
//
// The consumer reads almost sequentially: after touching block x it may come back to blocks >= x -
// comeback_blocks; it may jump forward. Its fault in block y waits for block y's read, maps it at
// y, releases what lies behind y - comeback_blocks or in front of passed(), and starts reads up to
// y + read_ahead_blocks. Reads go to blocks that are at home, never to addresses that the consumer
// could see. Going further back works in files and costs another read: any pattern of access gives
// the right bytes, an almost sequential one is fast. (Libraries do that unasked: glibc's memcpy may
// load the last bytes of a large copy first.) Input that only comes in order, such as a pipe, is
// read by SourceStream.
//
// Options::keeps_blocks: no block is released before its memory is wanted; then the block whose
// last fault is longest ago is recycled. So code that comes back finds the blocks that memory had
// room for, and several threads may read at the same time, each at any place.
//
// REQUIRES of the pool: read_ahead_blocks + comeback_blocks + 1 blocks for each open reader; with
// fewer a reader gives up read-ahead first and comeback blocks second. (At least two, because one
// load may reach into two blocks.) Errors: ErrorPolicy. After the first one nothing more is read.
// The rest of the last block and one more page read as zeros; an access past those stops or
// recovers, and never reads as zeros. The consumer may also write: what it writes stays in its
// block and is lost with it. Thread safety: any number of threads may read by the pointer if this
// reader has the pool and the engine for itself (keeps_blocks); otherwise one. prepare() and
// status(): as the pointer.

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/mutex.h"
#include "memory/fault/registry.h"
#include "memory/pool/page_tables.h"
#include "memory/stream/block_io.h"
#include "memory/stream/recovery.h"
#include "memory/stream/stream_handler.h"
#include "os/memory.h"

namespace penstock::stream {

// The place of a stream's block in a file. All extents of a stream but the last have block_bytes.
struct Extent {
  const io::File* file = nullptr;
  uint64_t offset = 0;
  uint32_t bytes = 0;
};

class FileReaderCore final : public StreamHandler {
 public:
  struct Options {
    uint32_t read_ahead_blocks = 4;  // at least 1
    uint32_t comeback_blocks = 0;
    ErrorPolicy policy = ErrorPolicy::zeros;
    // The pool belongs to this reader alone, and blocks stay until their memory is wanted.
    bool keeps_blocks = false;
  };
  // Opens the file's bytes [offset, offset + bytes). The pointer has the same offset within a
  // sector as `offset`, so that requests stay aligned. REQUIRES of both: `io` and the files outlive
  // the reader.
  static Result<std::unique_ptr<FileReaderCore>> open(BlockIo& io, const io::File& file,
                                                      uint64_t offset, uint64_t bytes,
                                                      const Options& options);
  // Opens the concatenation of extents.
  static Result<std::unique_ptr<FileReaderCore>> open(BlockIo& io, std::vector<Extent> extents,
                                                      const Options& options);
  ~FileReaderCore();

  const std::byte* begin() const { return begin_; }
  const std::byte* end() const { return begin_ + bytes_; }
  uint64_t bytes() const { return bytes_; }
  // Returns the first error if the policy is zeros; ok otherwise. A file that ended early is an
  // error (corrupt).
  Status status() const;
  // Counts of blocks read, and of those read before; kept with keeps_blocks only.
  struct Reads {
    uint64_t blocks = 0;
    uint64_t again = 0;
  };
  Reads reads() const;
  // Makes [address, address + bytes) readable without faults, for a system call or a section
  // without a fault handler. REQUIRES: it spans at most comeback_blocks + 1 blocks.
  void prepare(const void* address, size_t bytes);
  // Promises that nobody comes back to bytes in front of `address`: their memory may be released
  // before comeback_blocks have passed. Thread safety: any thread.
  void passed(const void* address) {
    passed_by_consumer_.store(static_cast<const std::byte*>(address), std::memory_order_relaxed);
  }

  fault::Outcome on_fault(const fault::Fault& fault) noexcept override;
  Result<size_t> prepare(std::byte* address, size_t bytes, fault::Access access) override;

 private:
  Label label() const noexcept override { return {subject(), options_.policy}; }

  // A block of the stream that has memory.
  struct Slot {
    uint64_t block;
    pool::BlockId id;
    bool mapped;
    bool reading;              // started, and not waited for
    uint64_t wanted_at;        // number of the last fault whose window contained the block
    uint32_t idle_faults = 0;  // faults in this block since it was mapped
    int stuck = 0;  // errno of the failed unmapping, after which it may be inaccessible; 0: none
  };
  struct Window {
    uint64_t first, last;
    bool holds(uint64_t block) const { return block >= first && block <= last; }
  };

  explicit FileReaderCore(BlockIo& io) : io_(io), block_bytes_(io.pool().block_bytes()) {}
  static Result<std::unique_ptr<FileReaderCore>> open_range(std::unique_ptr<FileReaderCore> reader,
                                                            uint64_t blocks,
                                                            const Options& options);
  Extent extent_of(uint64_t block) const noexcept;
  const char* subject() const noexcept;
  Slot* find(uint64_t block) noexcept REQUIRES_LOCK(mutex_);
  enum class Served : uint8_t {
    yes,
    no,       // it is mapped and still faults: not this handler's to mend
    refused,  // for the reason in `refusal`
  };
  Served serve(uint64_t block, WrittenFailure& refusal) noexcept EXCLUDES_LOCK(mutex_);
  Served serve_locked(uint64_t block, WrittenFailure& refusal) noexcept REQUIRES_LOCK(mutex_);
  Served refuse_failed(WrittenFailure& refusal) noexcept REQUIRES_LOCK(mutex_);
  Slot* slot_for(uint64_t block, const Window& window) noexcept REQUIRES_LOCK(mutex_);
  Slot* add(uint64_t block, pool::BlockId id) noexcept REQUIRES_LOCK(mutex_);
  bool drop(Slot& slot) noexcept REQUIRES_LOCK(mutex_);
  void drop_outside(const Window& window) noexcept REQUIRES_LOCK(mutex_);
  void touch(const Window& window) noexcept REQUIRES_LOCK(mutex_);
  void free_page_tables_of(uint64_t block) noexcept REQUIRES_LOCK(mutex_);
  pool::BlockId recycle(const Window& window) noexcept REQUIRES_LOCK(mutex_);
  pool::BlockId sacrifice(uint64_t wanted) noexcept REQUIRES_LOCK(mutex_);
  void read_ahead(uint64_t block, const Window& window) noexcept REQUIRES_LOCK(mutex_);
  size_t wait_for(Slot& slot) noexcept REQUIRES_LOCK(mutex_);
  Served show(Slot& slot, size_t valid_bytes, WrittenFailure& refusal) noexcept
      REQUIRES_LOCK(mutex_);
  int add_zero_page() noexcept;
  void count(uint64_t block) noexcept REQUIRES_LOCK(mutex_);
  void note(ErrorCode code, int system_errno, const Extent& extent, const char* what) noexcept
      REQUIRES_LOCK(mutex_);

  BlockIo& io_;
  const size_t block_bytes_;
  Options options_;
  os::Reservation range_;
  std::vector<Extent> extents_;  // empty: one file
  const io::File* file_ = nullptr;
  uint64_t file_offset_ = 0;  // offset of block 0, whole sectors
  const std::byte* begin_ = nullptr;
  uint64_t bytes_ = 0;
  uint64_t range_bytes_ =
      0;  // from the range's begin: bytes_ and what lies in front within the sector
  uint64_t blocks_ = 0;

  std::atomic<const std::byte*> passed_by_consumer_ = nullptr;

  // Held while a fault is served; no user code runs under it.
  mutable Mutex mutex_;
  pool::PassedPageTables passed_ GUARDED_BY(mutex_);
  std::vector<Slot> slots_ GUARDED_BY(mutex_);  // capacity for all blocks of the pool is reserved
  uint64_t faults_ GUARDED_BY(mutex_) = 0;
  Reads reads_ GUARDED_BY(mutex_);
  std::vector<uint64_t> was_read_ GUARDED_BY(mutex_);        // a bit for each block
  std::optional<WrittenFailure> failed_ GUARDED_BY(mutex_);  // the first one
};

}  // namespace penstock::stream
