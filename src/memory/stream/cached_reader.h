#pragma once

// A file in the page cache as one plain pointer: its own pages, mapped stretch by stretch.
//
// FileReaderCore would copy each block out of the page cache, which takes longer than most code
// takes to read it. Here a fault maps the block in place; when memory_blocks are mapped, those
// mapped first are unmapped. So no more of the file is resident than a FileReaderCore would hold,
// and none of it is memory of this process. The kernel reads pages that have left the page cache.
//
// Each fault with its system calls takes about as long as reading 200 KiB. So a reader that
// continues where the last stretch ended gets twice as many blocks each time, up to all but the one
// that it comes from, and their pages are entered into the page table together, which takes half as
// long as a fault for every huge page. A reader of several places gets single blocks.
//
// Unlike a copy, a mapping shows what others write to the file meanwhile. A page that cannot be
// read, because the file is shorter now or its disk fails, is a SIGBUS: with ErrorPolicy::zeros it
// reads as zeros, and so do everything behind it in its stretch and all blocks first touched after
// it. The consumer may write; what it writes is lost with its block.
//
// Thread safety: any number of threads may read by the pointer; all members may be called from any
// thread. Invariants: the blocks of stretches_ are mapped, and no others. The bytes behind the last
// whole page, and the zeros behind those, are always memory.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/mutex.h"
#include "io/file.h"
#include "memory/fault/registry.h"
#include "memory/pool/page_tables.h"
#include "memory/stream/recovery.h"
#include "memory/stream/stream_handler.h"
#include "os/memory.h"

namespace penstock::stream {

class CachedReader final : public StreamHandler {
 public:
  struct Options {
    size_t block_bytes = 2 * MiB;
    uint32_t memory_blocks = 2;  // at least 2: a load may reach into two blocks
    ErrorPolicy policy = ErrorPolicy::zeros;
  };
  // Opens the first `bytes` of the file. REQUIRES: bytes > 0; the file outlives the reader. Errors:
  // unsupported, if its file system has no mappings.
  static Result<std::unique_ptr<CachedReader>> open(const io::File& file, uint64_t bytes,
                                                    const Options& options);
  ~CachedReader();

  const std::byte* begin() const { return range_.begin(); }
  uint64_t bytes() const { return bytes_; }
  // Returns the first error if the policy is zeros; ok otherwise.
  Status status() const;

  fault::Outcome on_fault(const fault::Fault& fault) noexcept override;
  Result<size_t> prepare(std::byte* address, size_t bytes, fault::Access access) override;

 private:
  Label label() const noexcept override { return {file_.path().c_str(), options_.policy}; }

  struct MappedStretch {
    uint64_t begin, end;  // indices of blocks
  };
  enum class Served : uint8_t { yes, no, refused };

  CachedReader(const io::File& file, uint64_t bytes, const Options& options);
  // Address at which the whole pages of `block` and those behind it begin; pages_end_ at most.
  std::byte* begin_of(uint64_t block) const {
    return range_.begin() + std::min(block * options_.block_bytes, pages_end_);
  }
  // `faults`: a thread has just faulted there. Sets `ahead` to its next read, if known.
  Served serve(const std::byte* address, bool faults, WrittenFailure& refusal,
               std::span<std::byte>& ahead) noexcept EXCLUDES_LOCK(mutex_);
  Served look_again(const MappedStretch& stretch, const std::byte* address,
                    WrittenFailure& refusal) noexcept REQUIRES_LOCK(mutex_);
  Served show(const MappedStretch& stretch, WrittenFailure& refusal) noexcept REQUIRES_LOCK(mutex_);
  MappedStretch next_at(uint64_t block, bool faults) noexcept REQUIRES_LOCK(mutex_);
  void drop_first(uint64_t blocks) noexcept REQUIRES_LOCK(mutex_);
  void note(ErrorCode code, int system_errno, const char* what, uint64_t offset) noexcept
      REQUIRES_LOCK(mutex_);

  const io::File& file_;
  const Options options_;
  const uint64_t bytes_;
  const uint64_t pages_end_;  // end of the whole pages, which are mapped; behind them is memory
  os::Reservation range_;

  // Held while a fault is served, which is a few system calls; no user code runs under it.
  mutable Mutex mutex_;
  // Mapped stretches, in the order of mapping; capacity for memory_blocks is reserved.
  std::vector<MappedStretch> stretches_ GUARDED_BY(mutex_);
  uint64_t shown_blocks_ GUARDED_BY(mutex_) = 0;
  uint64_t step_blocks_ GUARDED_BY(mutex_) = 1;  // blocks that the last fault mapped
  uint32_t idle_faults_ GUARDED_BY(mutex_) = 0;  // faults since then on pages that are mapped
  pool::PassedPageTables passed_ GUARDED_BY(mutex_);
  std::optional<WrittenFailure> failed_ GUARDED_BY(mutex_);  // the first one
};

}  // namespace penstock::stream
