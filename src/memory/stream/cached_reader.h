#pragma once

// A file that lies in the page cache as one plain pointer: its own pages, mapped stretch by stretch.
//
// FileReaderCore would copy each block out of the page cache, which takes longer than most code takes
// to read it. Here a fault maps the block at its place, and when memory_blocks are mapped, those that came
// first go. So no more of the file is resident than a FileReaderCore would hold, and none of it is
// memory of this process. What has left the page cache by then the kernel reads, as for any mapping.
//
// Each fault and its system calls take about as long as reading 200 KiB. So a reader that goes on where the last
// stretch ended gets twice as many blocks each time, up to all but the one that it comes from, and their pages are
// entered into the page table together, which takes half of what a fault for every huge page takes. Who reads at
// three places in turn, or at random, gets single blocks.
//
// Unlike a copy a mapping shows what others write to the file meanwhile. A place that cannot be read, as
// the file is shorter now or its disk fails, is a SIGBUS: with ErrorPolicy::zeros it and everything
// behind it in its stretch, and what is touched for the first time after it, reads as zeros. The consumer
// may write; what it writes is gone with its block.
//
// Thread safety: any number of threads may read by the pointer; all members from any thread.
// Invariants: the blocks of stretches_ are mapped, and no others. What is behind the last whole page, and the
// zeros behind that, are memory, always.

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
  // The first `bytes` of the file. REQUIRES: bytes > 0; the file outlives the reader. Errors:
  // unsupported, where its file system has no mappings.
  static Result<std::unique_ptr<CachedReader>> open(const io::File& file, uint64_t bytes,
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

  struct Stretch {
    uint64_t begin, end;  // blocks
  };
  enum class Served : uint8_t { yes, no, refused };

  CachedReader(const io::File& file, uint64_t bytes, const Options& options);
  // Where the whole pages of the file begin that are in blocks from that one on.
  std::byte* begin_of(uint64_t block) const {
    return range_.begin() + std::min(block * options_.block_bytes, pages_end_);
  }
  // `faults`: a thread has just done so there. `ahead` is what it will read next, if anything is known.
  Served serve(const std::byte* address, bool faults, WrittenFailure& refusal,
               std::span<std::byte>& ahead) noexcept EXCLUDES_LOCK(mutex_);
  Served look_again(const Stretch& stretch, const std::byte* address,
                    WrittenFailure& refusal) noexcept REQUIRES_LOCK(mutex_);
  Served show(const Stretch& stretch, WrittenFailure& refusal) noexcept REQUIRES_LOCK(mutex_);
  Stretch next_at(uint64_t block, bool faults) noexcept REQUIRES_LOCK(mutex_);
  void drop_first(uint64_t blocks) noexcept REQUIRES_LOCK(mutex_);
  void note(ErrorCode code, int system_errno, const char* what, uint64_t offset) noexcept
      REQUIRES_LOCK(mutex_);

  const io::File& file_;
  const Options options_;
  const uint64_t bytes_;
  const uint64_t pages_end_;  // of the whole pages, which are mapped; what is behind them is memory
  os::Reservation range_;

  // Held while a fault is served, which is a few system calls; nobody's code runs under it.
  mutable Mutex mutex_;
  // That came first, first; room for as many as there are blocks is reserved.
  std::vector<Stretch> stretches_ GUARDED_BY(mutex_);
  uint64_t shown_blocks_ GUARDED_BY(mutex_) = 0;
  uint64_t step_blocks_ GUARDED_BY(mutex_) = 1;  // that the last fault brought
  uint32_t idle_faults_ GUARDED_BY(mutex_) = 0;  // since then, of pages that are there
  pool::PassedPageTables passed_ GUARDED_BY(mutex_);
  std::optional<WrittenFailure> failed_ GUARDED_BY(mutex_);  // the first one
};

}  // namespace penstock::stream
