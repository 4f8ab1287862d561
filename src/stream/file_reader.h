#pragma once

// A file, or pieces of files, as one plain pointer: direct I/O with read-ahead behind it, a few
// blocks of memory.
//
// The consumer reads almost sequentially: after touching block x it may come back to blocks >= x -
// comeback_blocks; it may jump forward. Its fault in block y waits for block y's read, maps it at
// y, gives back what lies behind y - comeback_blocks and starts reads up to y + read_ahead_blocks.
// Reads go to blocks that are at home, never where the consumer could see them. Going further back
// works in files and costs another read: any pattern of access gives the right bytes, an almost
// sequential one is fast. (Libraries do that unasked: glibc's memcpy may load the last bytes of a
// large copy first.) What comes in order alone, such as a pipe, is read by SourceStream.
//
// REQUIRES of the pool: read_ahead_blocks + comeback_blocks + 1 blocks for each reader that is open
// on it; with fewer a reader gives up read-ahead first and comeback blocks second. (Two at least,
// or one load may not reach into two blocks.) Errors: ErrorPolicy. After the first one nothing more
// is read. An access past what follows the end stops or recovers, and never reads as zeros. Past the
// end the rest of the last block, and one more page,
// reads as zeros. The consumer may also write: what it writes stays in its block and is gone with
// it. Thread safety: one consumer thread.

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "fault/registry.h"
#include "os/memory.h"
#include "pool/page_tables.h"
#include "stream/block_io.h"
#include "stream/recovery.h"
#include "stream/stream_handler.h"

namespace penstock::stream {

// Where one block of a stream lies. Extents of one stream all have block_bytes but the last.
struct Extent {
  const file::File* file = nullptr;
  uint64_t offset = 0;
  uint32_t bytes = 0;
};

class FileReaderCore final : public StreamHandler {
 public:
  struct Options {
    uint32_t read_ahead_blocks = 4;  // at least 1
    uint32_t comeback_blocks = 0;
    ErrorPolicy policy = ErrorPolicy::zeros;
  };
  // The file's bytes [offset, offset + bytes). The pointer starts at the sector that holds
  // `offset`, plus the rest, so that requests stay aligned. REQUIRES of both: `io` and the files
  // outlive the reader.
  static Result<std::unique_ptr<FileReaderCore>> open(BlockIo& io, const file::File& file,
                                                      uint64_t offset, uint64_t bytes,
                                                      const Options& options);
  // The concatenation of extents.
  static Result<std::unique_ptr<FileReaderCore>> open(BlockIo& io, std::vector<Extent> extents,
                                                      const Options& options);
  ~FileReaderCore();

  const std::byte* begin() const { return begin_; }
  const std::byte* end() const { return begin_ + bytes_; }
  uint64_t bytes() const { return bytes_; }
  // The first error, when the policy is zeros; ok otherwise. A file that ended early is an error
  // (corrupt).
  Status status() const;
  // Makes [address, address + bytes) readable without faults, for a system call or a handler-free
  // section. REQUIRES: it spans at most comeback_blocks + 1 blocks.
  void prepare(const void* address, size_t bytes);

  fault::Outcome on_fault(const fault::Fault& fault) noexcept override;
  Result<size_t> prepare(std::byte* address, size_t bytes, fault::Access access) override;

 private:
  Label label() const noexcept override { return {subject(), options_.policy}; }

  // A block of the stream that has memory.
  struct Slot {
    uint64_t block;
    pool::BlockId id;
    bool mapped;
    bool reading;  // started, and not waited for
  };

  explicit FileReaderCore(BlockIo& io) : io_(io), block_bytes_(io.pool().block_bytes()) {}
  static Result<std::unique_ptr<FileReaderCore>> open_range(std::unique_ptr<FileReaderCore> reader,
                                                            uint64_t blocks,
                                                            const Options& options);
  Extent extent_of(uint64_t block) const noexcept;
  const char* subject() const noexcept;
  Slot* find(uint64_t block) noexcept;
  enum class Served : uint8_t {
    yes,
    no,       // it is there and still faults: not for us to mend
    refused,  // refusal_ says why
  };
  Served serve(uint64_t block) noexcept;
  Served refuse(uint64_t block, const char* why, uint64_t number) noexcept;
  Served refuse_failed() noexcept;
  Slot* slot_for(uint64_t block) noexcept;
  Slot* add(uint64_t block, pool::BlockId id) noexcept;
  bool drop(Slot& slot) noexcept;
  void drop_outside(uint64_t first, uint64_t last) noexcept;
  pool::BlockId sacrifice(uint64_t wanted) noexcept;
  void read_ahead(uint64_t block) noexcept;
  size_t wait_for(Slot& slot) noexcept;
  Served show(Slot& slot, size_t valid_bytes) noexcept;
  int add_zero_page() noexcept;
  void note(ErrorCode code, int system_errno, const Extent& extent, const char* what) noexcept;

  BlockIo& io_;
  const size_t block_bytes_;
  Options options_;
  os::Reservation range_;
  fault::Registration registration_;
  std::vector<Extent> extents_;  // empty: one file
  const file::File* file_ = nullptr;
  uint64_t file_offset_ = 0;  // of block 0, whole sectors
  const std::byte* begin_ = nullptr;
  uint64_t bytes_ = 0;
  uint64_t range_bytes_ =
      0;  // from the range's begin: bytes_ and what lies in front within the sector
  uint64_t blocks_ = 0;
  pool::PassedPageTables passed_;
  std::vector<Slot> slots_;  // room for all blocks of the pool is reserved
  bool failed_ = false;
  Failure failure_;
  char attempted_[160] = {};
  Failure refusal_;  // of the last access that was refused: failure_, or a breach of the rules
  char breach_[160] = {};
};

}  // namespace penstock::stream
