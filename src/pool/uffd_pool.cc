// Anonymous pages, moved by UFFDIO_MOVE between ranges that stay mapped all the time.
//
// Arena and ranges are plain readable and writable mappings, watched by one userfaultfd: a page
// that is not there raises SIGBUS. Moving pages changes no mapping, so the number of blocks that
// are out is not bounded by vm.max_map_count, and the kernel's lock on the address space is taken
// for reading only.
//
// What the kernel wants, and how it gets it:
//   pages of this process alone    MADV_DONTFORK on arena and ranges
//   the same protection on both    all are readable and writable; homes that were never used are
//   inaccessible nothing at the destination     a block is at exactly one address, and its pages
//   always move together pages, not holes               take() populates a block before its home is
//   watched: a watched range cannot be populated
//
// Ranges are writable, hence under vm.overcommit_memory=2 they are charged in full, and the system
// may refuse large ones.
//
// Huge pages: a block of 2 MiB moves as one huge page in about a microsecond, when no page table
// stands at the destination. But a fault in a range that allows huge pages first clears a whole new
// one, and only then finds that the fault is ours; and a fault in a range that does not allow them
// leaves a page table behind, for which the huge page is split. The former is the lesser evil (see
// pool.cc): ranges of huge blocks allow huge pages, and whoever can moves blocks ahead of the
// faults.
//
// A page that is pinned, by I/O in flight, does not move: EBUSY.

#include <csignal>
#include <utility>

#include "os/userfault.h"
#include "pool/arena_pool.h"

namespace penstock::pool {
namespace {

class UffdPool final : public ArenaPool {
 public:
  UffdPool(const PoolOptions& options, Pages pages, os::Reservation arena, os::Userfault userfault)
      : ArenaPool(options, pages, std::move(arena)), userfault_(std::move(userfault)) {}

  static Result<std::unique_ptr<Pool>> open(const PoolOptions& options) {
    auto userfault = os::Userfault::open();
    if (!userfault) return std::unexpected(userfault.error());
    auto arena = reserve_arena(options);
    if (!arena) return std::unexpected(arena.error());
    const bool huge = wants_huge_pages(options);
    const bool advised = os::advise_huge(arena->begin(), arena->bytes(), huge) == 0;
    if (const int error = os::exclude_from_fork(arena->begin(), arena->bytes()))
      return system_error(error, "keep a pool out of child processes", "uffd_move pool");
    return std::make_unique<UffdPool>(options, huge && advised ? Pages::huge : Pages::small,
                                      std::move(*arena), std::move(*userfault));
  }

  Mechanism mechanism() const override { return Mechanism::uffd_move; }
  int fault_signal() const override { return SIGBUS; }

  Result<os::Reservation> reserve(uint64_t bytes) override {
    auto range = reserve_blocks(bytes, block_bytes());
    if (!range) return range;
    int error = os::exclude_from_fork(range->begin(), range->bytes());
    (void)os::advise_huge(range->begin(), range->bytes(), pages() == Pages::huge);
    if (error == 0) error = os::protect(range->begin(), range->bytes(), os::Access::read_write);
    if (error == 0) error = userfault_.watch(range->begin(), range->bytes());
    if (error != 0)
      return system_error(error,
                          "reserve " + std::to_string(bytes) + " bytes watched by userfaultfd",
                          "uffd_move pool", "the mechanism mremap or shared");
    return range;
  }
  void release(os::Reservation& range) override {
    (void)userfault_.unwatch(range.begin(), range.bytes());
  }

 private:
  int commit_home(BlockId block) noexcept override {
    std::byte* const at = home(block);
    int error = os::protect(at, block_bytes(), os::Access::read_write);
    if (error == 0) error = os::populate(at, block_bytes());
    if (error == 0) error = userfault_.watch(at, block_bytes());
    return error;
  }
  int discard_home(BlockId block) noexcept override {
    if (const int error = userfault_.unwatch(home(block), block_bytes())) return error;
    return os::discard(home(block), block_bytes());
  }
  int leave_home(BlockId block, std::byte* to) noexcept override {
    return userfault_.move(home(block), to, block_bytes());
  }
  int move_on(BlockId, std::byte* from, std::byte* to) noexcept override {
    return userfault_.move(from, to, block_bytes());
  }
  int go_home(BlockId block, std::byte* from) noexcept override {
    return userfault_.move(from, home(block), block_bytes());
  }

  os::Userfault userfault_;
};

}  // namespace

Result<std::unique_ptr<Pool>> open_uffd_pool(const PoolOptions& options) {
  return UffdPool::open(options);
}

}  // namespace penstock::pool
