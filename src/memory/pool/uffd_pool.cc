// Anonymous pages, moved by UFFDIO_MOVE between ranges that stay mapped all the time.
//
// Arena and ranges are plain readable and writable mappings, watched by the process's userfaultfd:
// a missing page raises SIGBUS. Moving pages changes no mapping, so vm.max_map_count does not bound
// the blocks that are out, and the kernel's lock on the address space is taken only for reading.
//
// The kernel's conditions, and how they are met:
//   pages of this process only     MADV_DONTFORK on arena and ranges
//   the same protection on both    all are readable and writable; homes that were never used are
//                                  inaccessible
//   nothing at the destination     a block is at exactly one address, and its pages always move
//                                  together
//   pages, not holes               take() populates a block before its home is watched: a watched
//                                  range cannot be populated
//
// Ranges are writable, hence under vm.overcommit_memory=2 they are charged in full, and the system
// may refuse large ones.
//
// Huge pages: a block of 2 MiB moves as one huge page in about a microsecond, if there is no page
// table at the destination. But a fault in a range that allows huge pages first clears a whole new
// one, and only then finds that the fault is ours; and a fault in a range that does not allow them
// leaves a page table behind, for which the huge page is split. The former is the lesser evil (see
// pool.cc): ranges of huge blocks allow huge pages, and users move blocks ahead of faults.
//
// A page that is pinned, by I/O in flight or as a registered buffer, does not move: EBUSY (see
// os::Userfault::move()). This is right: the I/O would continue in a block that the other side has.
//
// PoolOptions::system_calls gives each range a privileged userfaultfd of its own, and some thread
// reads its faults. One for all would not do: serving a fault may wait for a block that becomes
// free by another range's fault. The kernel moves pages only into ranges that are watched by the
// userfaultfd of the call. So a move to a range uses that range's, and the way back from a move
// that failed halfway uses the source's.

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <utility>

#include "base/check.h"
#include "memory/pool/arena_pool.h"
#include "os/userfault.h"

namespace penstock::pool {
namespace {

class UffdPool final : public ArenaPool {
 public:
  UffdPool(const PoolOptions& options, PageKind pages, os::Reservation arena,
           os::Userfault& userfault)
      : ArenaPool(options, pages, std::move(arena)),
        userfault_(userfault),
        system_calls_(options.system_calls) {}

  static Result<std::unique_ptr<Pool>> open(const PoolOptions& options) {
    auto userfault = os::Userfault::of_process();
    if (!userfault) return std::unexpected(userfault.error());
    auto arena = reserve_arena(options);
    if (!arena) return std::unexpected(arena.error());
    const bool huge = wants_huge_pages(options);
    const bool advised = os::advise_huge(arena->begin(), arena->bytes(), huge) == 0;
    if (const int error = os::exclude_from_fork(arena->begin(), arena->bytes()))
      return system_error(error, "keep a pool out of child processes", "uffd_move pool");
    return std::make_unique<UffdPool>(options, huge && advised ? PageKind::huge : PageKind::small,
                                      std::move(*arena), **userfault);
  }

  Mechanism mechanism() const override { return Mechanism::uffd_move; }
  int fault_signal() const override { return SIGBUS; }

  Result<os::Reservation> reserve(uint64_t bytes) override {
    auto range = reserve_range(bytes);
    if (!range) return range;
    if (system_calls_) {
      if (auto added = add_events(*range); !added) return std::unexpected(added.error());
    }
    if (const int error = prepare(range->begin(), range->bytes()); error != 0) {
      release(*range);
      return system_error(error,
                          "reserve " + std::to_string(bytes) + " bytes watched by userfaultfd",
                          "uffd_move pool", "the mechanism mremap or shared");
    }
    return range;
  }
  void release(os::Reservation& range) override {
    (void)mover_to(range.begin()).unwatch(range.begin(), range.bytes());
    for (WatchedRange& watched : watched_) {
      // Relaxed: later reservations are ordered after this call by other means.
      if (watched.begin.load(std::memory_order_relaxed) == range.begin())
        watched.begin.store(nullptr, std::memory_order_relaxed);
    }
  }
  // Watches the piece again, because its new mapping lost the old one's properties with the tables.
  int free_page_tables(std::span<std::byte> piece) noexcept override {
    if (is_inherited()) return 0;
    if (const int error = Pool::free_page_tables(piece); error != 0) return error;
    return prepare(piece.data(), piece.size());
  }
  os::Userfault* events_of(const os::Reservation& range) noexcept override {
    return system_calls_ ? &mover_to(range.begin()) : nullptr;
  }

 private:
  // Makes inaccessible addresses a part of a range. They are watched before they become accessible:
  // a thread that touches them in between would get a page of zeros instead of a fault.
  int prepare(std::byte* begin, size_t bytes) noexcept {
    int error = os::exclude_from_fork(begin, bytes);
    (void)os::advise_huge(begin, bytes, pages() == PageKind::huge);
    if (error == 0) error = mover_to(begin).watch(begin, bytes);
    if (error == 0) error = os::protect(begin, bytes, Protection::read_write);
    return error;
  }

  int commit_home(BlockId block) noexcept override {
    std::byte* const at = home(block);
    int error = os::protect(at, block_bytes(), Protection::read_write);
    if (error == 0) error = os::populate(at, block_bytes());
    if (error == 0) error = userfault_.watch(at, block_bytes());
    if (error != 0) (void)os::discard(at, block_bytes());
    return error;
  }
  int discard_home(BlockId block) noexcept override {
    if (const int error = userfault_.unwatch(home(block), block_bytes())) return error;
    const int error = os::discard(home(block), block_bytes());
    if (error != 0) (void)userfault_.watch(home(block), block_bytes());
    return error;
  }
  int leave_home(BlockId block, std::byte* to) noexcept override { return move(home(block), to); }
  int move_on(BlockId, std::byte* from, std::byte* to) noexcept override { return move(from, to); }
  int go_home(BlockId block, std::byte* from) noexcept override { return move(from, home(block)); }

  // UFFDIO_MOVE needs a writable source, and a store in that moment would go unnoticed. So the
  // mapping itself moves with its protection. The mapping left at `from` is empty and watched as
  // before, and becomes writable only when the block is away: until then a store faults.
  int go_home_in_use(BlockId block, std::byte* from, Protection protection) noexcept override {
    if (protection == Protection::read_write) return go_home(block, from);
    std::byte* const at = home(block);
    if (const int error = os::move_pages_leaving_source(from, at, block_bytes())) return error;
    // These calls need the mappings that mremap() leaves of the four that it needs (see
    // os::move_pages()).
    PENSTOCK_CHECK(os::protect(at, block_bytes(), Protection::read_write) == 0 &&
                       userfault_.watch(at, block_bytes()) == 0 &&
                       os::protect(from, block_bytes(), Protection::read_write) == 0,
                   "the process ran out of mappings in the middle of a move (vm.max_map_count)");
    return 0;
  }

  int move(std::byte* from, std::byte* to) noexcept {
    const auto move_once = [&] {
      return mover_to(to).move(from, to, block_bytes(), mover_to(from));
    };
    const int error = move_once();
    if (error != EEXIST || !system_calls_) return error;
    // No block is at `to`, so it holds the poison of a fault that was declined before (see
    // memory/fault/event_server.h), perhaps for a page that is no longer pinned.
    if (const int kept = os::discard(to, block_bytes())) return kept;
    return move_once();
  }

  // A range with a userfaultfd of its own. `begin` is stored last (release) and read first
  // (acquire), without a lock, because this is the fault path.
  struct WatchedRange {
    std::atomic<std::byte*> begin = nullptr;
    std::byte* end = nullptr;
    os::Userfault events;
  };

  Status add_events(const os::Reservation& range) {
    auto events = os::Userfault::open_privileged();
    if (!events) return std::unexpected(events.error());
    auto free = std::find_if(watched_.begin(), watched_.end(),
                             [](const WatchedRange& watched) { return watched.begin == nullptr; });
    if (free == watched_.end())
      return failure(ErrorCode::unsupported, "serve system calls in more ranges", "uffd_move pool");
    free->end = range.end();
    free->events = std::move(*events);
    free->begin.store(range.begin(), std::memory_order_release);
    return {};
  }
  os::Userfault& mover_to(const std::byte* to) noexcept {
    if (!system_calls_) return userfault_;
    for (WatchedRange& watched : watched_) {
      const std::byte* begin = watched.begin.load(std::memory_order_acquire);
      if (begin != nullptr && to >= begin && to < watched.end) return watched.events;
    }
    return userfault_;  // an address of the arena
  }

  os::Userfault& userfault_;
  const bool system_calls_;
  std::array<WatchedRange, 2> watched_;  // a stream has at most two
};

}  // namespace

Result<std::unique_ptr<Pool>> open_uffd_pool(const PoolOptions& options) {
  return UffdPool::open(options);
}

}  // namespace penstock::pool
