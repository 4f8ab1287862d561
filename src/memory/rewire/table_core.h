#pragma once

// The body of penstock::RewiredTable (see include/penstock/rewire.h for use, table_core.cc
// for how it works).

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "memory/fault/registry.h"
#include "memory/pool/page_store.h"
#include "memory/rewire/gate.h"
#include "memory/rewire/range.h"
#include "memory/stream/stream_handler.h"
#include "os/semaphore.h"
#include "penstock/rewire.h"

namespace penstock::rewire {

class SnapshotCore;
class TableImage;

// Pages reserved for copies, so that no write finds the pool empty (guarantee_copies). Thread
// safety: take() and put_back() from any thread, on the fault path, on which they wait for no
// memory; the others from one thread at a time, beside those.
class CopyReserve {
 public:
  CopyReserve(pool::PageStore& store, uint64_t pages_max);
  ~CopyReserve();

  // Reserves at least that many pages, or adds none and returns false.
  [[nodiscard]] bool fill(uint64_t pages) noexcept;
  // Returns pages beyond that number to the store.
  void shrink(uint64_t pages) noexcept;
  // Returns no_page if it is empty.
  PageId take() noexcept;
  // Puts back an unused page; the store gets it if fill() has replaced it meanwhile.
  void put_back(PageId page) noexcept;

 private:
  uint64_t missing_to(uint64_t pages) noexcept;

  pool::PageStore& store_;
  const uint64_t pages_max_;
  const std::unique_ptr<PageId[]> pages_;  // descending, so that neighbours are taken in order
  os::Semaphore mutex_{1};                 // guards the pages and their count
  uint64_t count_ = 0;
};

// Thread safety: all members from any thread; on_fault() and prepare() on the fault path, the
// others not. Order of locks: mutex_ (one snapshot, merge, apply at a time; never on the fault
// path), then gate_ (closed, or passed by a handler), then a stripe, then the range's lock, then
// the store's. A holder of one of them takes only later ones.
// Invariants: every slot of live_ shows a page. A slot that is read_write shows a page that no
// snapshot shows and no other slot. Slots become read only behind a closed gate. With
// guarantee_copies there are never fewer reserved pages than read-only slots.
class TableCore final : public stream::StreamHandler,
                        public std::enable_shared_from_this<TableCore> {
 public:
  using Options = RewiredTable::Options;

  static Result<std::shared_ptr<TableCore>> open(const std::shared_ptr<pool::PageStore>& store,
                                                 const Options& options);
  ~TableCore();
  // Ends the table; its snapshots stay. REQUIRES: nobody uses its pointer any more.
  void close() EXCLUDES_LOCK(mutex_);

  const Options& options() const { return options_; }
  pool::PageStore& store() const { return *store_; }
  uint64_t slots() const { return slots_; }
  size_t page_bytes() const { return store_->page_bytes(); }
  std::byte* begin() const { return begin_; }
  uint64_t bytes() const { return slots_ * page_bytes(); }
  // REQUIRES: not closed.
  const Range& live() const { return *live_; }
  // Errors: unsupported, in a forked child.
  Status check_owned(const char* attempted) const;

  Result<std::shared_ptr<SnapshotCore>> snapshot() EXCLUDES_LOCK(mutex_) {
    return take_snapshot(true);
  }
  std::shared_ptr<SnapshotCore> latest() const EXCLUDES_LOCK(mutex_);
  uint64_t epoch() const { return epoch_.load(std::memory_order_relaxed); }
  Result<RewiredTable::Merged> merge_equal_pages() EXCLUDES_LOCK(mutex_);

  struct Change {
    uint64_t slot;
    PageId page;                // carries a reference of the caller's, which the slot takes over
    PageId expected = no_page;  // the page that the slot must still show; no_page: any
  };
  // Number of changes applied, from the first on; all of them, unless `status` is an error.
  // REQUIRES: sorted by slot.
  struct Applied {
    size_t count;
    Status status;
  };
  Applied apply(std::span<const Change> changes) EXCLUDES_LOCK(mutex_);

  // For tests: from now on the table is made read-only one slot after the other, with a call of
  // `pause` in between: as slowly as a kernel may.
  void slow_down_cuts(void (*pause)()) { pause_in_cut_.store(pause); }

  Status prepare_write(void* address, size_t bytes) const;
  RewiredTable::Counts counts() const;

  fault::Outcome on_fault(const fault::Fault& fault) noexcept override;
  Result<size_t> prepare(std::byte* address, size_t bytes, fault::Access access) override;

 private:
  Label label() const noexcept override { return {options_.name.c_str(), options_.policy}; }

  friend class SnapshotCore;

  // Result of a write to a slot.
  struct Served {
    enum { writable, pool_empty, unmapped } verdict = writable;
    int error = 0;
  };

  TableCore(std::shared_ptr<pool::PageStore> store, const Options& options, uint64_t slots);
  Status fill();

  Served make_writable(uint64_t slot, size_t touched) noexcept;
  Served copy_apart(uint64_t slot, PageId shared, size_t touched) noexcept;
  PageId take_page(PageId after) noexcept;
  stream::WrittenFailure refusal_of(const Served& served, uint64_t slot) const noexcept;
  // Maps a page, and excludes it from forked children.
  int show(uint64_t slot, std::span<const PageId> pages, Protection access) noexcept;

  // A snapshot that is not `published` is internal: it has no epoch, and latest() ignores it.
  Result<std::shared_ptr<SnapshotCore>> take_snapshot(bool published) EXCLUDES_LOCK(mutex_);
  Status freeze(std::span<PageId> pages) REQUIRES_LOCK(mutex_);
  Status freeze_by_signal(std::span<PageId> pages) REQUIRES_LOCK(mutex_);
  Status freeze_image(std::span<PageId> pages) REQUIRES_LOCK(mutex_);
  Status make_read_only() REQUIRES_LOCK(mutex_);
  Status reserve_copies() REQUIRES_LOCK(mutex_);
  int replace_equal(uint64_t slot, PageId page, PageId equal) noexcept;

  void snapshot_ended() noexcept EXCLUDES_LOCK(mutex_);
  void lift_protection() noexcept REQUIRES_LOCK(mutex_);

  os::Semaphore& stripe_of(uint64_t slot) noexcept { return stripes_[slot % stripes_.size()]; }

  const Options options_;
  const std::shared_ptr<pool::PageStore> store_;
  const uint64_t slots_;
  std::byte* begin_ = nullptr;
  std::unique_ptr<Range> live_;
  std::unique_ptr<CopyReserve> reserve_;  // for guarantee_copies
  std::unique_ptr<TableImage> image_;     // for asynchronous detection

  mutable Mutex mutex_;
  // Changed under the mutex; read without it, as a forked child must.
  std::atomic<uint64_t> epoch_{0};
  std::atomic<uint64_t> alive_{0};  // number of snapshots
  std::weak_ptr<SnapshotCore> latest_ GUARDED_BY(mutex_);

  Gate gate_;
  // Locks by slot: the holder decides what the slot shows next. They start at 1, as locks that may
  // be taken on the fault path.
  std::array<os::Semaphore, 64> stripes_;

  std::atomic<void (*)()> pause_in_cut_{nullptr};
  std::atomic<uint64_t> pages_copied_{0};
  std::atomic<uint64_t> pages_unshared_{0};
  std::atomic<uint64_t> writes_waited_{0};
};

}  // namespace penstock::rewire
