// Anonymous pages, moved from address to address by mremap().
//
// The arena is one mapping: homes that were never used are inaccessible (in a sparse pool none
// are), all others readable and writable, whether their pages are there or have been moved away. So
// the arena costs two mappings however many blocks are out, and a block that leaves its home costs
// one system call. A block that comes home merges with its neighbours again, because the kernel
// keeps for moved anonymous pages the offset of the address where they were first touched: their
// home.
//
// In a range each block is a mapping of its own (two blocks in a row merge only when their homes
// are in a row too), and each gap between blocks another. vm.max_map_count (65530) therefore bounds
// the blocks that may be out at once; beyond it map() returns ENOMEM, and nothing has moved. Blocks
// can still go home then: they are copied.
//
// Moves of 2 MiB-aligned multiples of 2 MiB move whole page tables or huge pages. Smaller blocks
// must not be made of huge pages: a move would split them.

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "memory/pool/arena_pool.h"

namespace penstock::pool {
namespace {

class MremapPool final : public ArenaPool {
 public:
  MremapPool(const PoolOptions& options, PageKind pages, os::Reservation arena)
      : ArenaPool(options, pages, std::move(arena)), sparse_(options.sparse) {}

  static Result<std::unique_ptr<Pool>> open(const PoolOptions& options) {
    if (const int error = mremap_error()) {
      return failure(ErrorCode::unsupported,
                     std::string("move blocks by mremap(): ") + std::strerror(error), "mremap pool",
                     "another mechanism, or a sandbox that allows mremap()");
    }
    auto arena = reserve_arena(options);
    if (!arena) return std::unexpected(arena.error());
    const bool huge = wants_huge_pages(options);
    // A kernel without huge pages refuses both advices, and needs neither.
    const bool advised = os::advise_huge(arena->begin(), arena->bytes(), huge) == 0;
    // Otherwise a child would share every page, and the first write would copy it, uncounted.
    if (const int error = os::exclude_from_fork(arena->begin(), arena->bytes()))
      return system_error(error, "keep a pool out of child processes", "mremap pool");
    // A sparse pool takes memory only where it is touched: so one call makes all homes accessible.
    if (options.sparse) {
      if (const int error = os::protect(arena->begin(), arena->bytes(), Protection::read_write))
        return system_error(error, "make the blocks of a pool accessible", "mremap pool");
    }
    return std::make_unique<MremapPool>(options, huge && advised ? PageKind::huge : PageKind::small,
                                        std::move(*arena));
  }

  Mechanism mechanism() const override { return Mechanism::mremap; }
  int fault_signal() const override { return SIGSEGV; }
  Result<os::Reservation> reserve(uint64_t bytes) override { return reserve_range(bytes); }
  void release(os::Reservation&) override {}

 private:
  int commit_home(BlockId block) noexcept override {
    if (sparse_) return 0;
    if (const int error = os::protect(home(block), block_bytes(), Protection::read_write))
      return error;
    const int error = os::populate(home(block), block_bytes());
    if (error != 0) (void)discard_home(block);
    return error;
  }
  int discard_home(BlockId block) noexcept override {
    return os::discard(home(block), block_bytes());
  }
  int leave_home(BlockId block, std::byte* to) noexcept override {
    return os::move_pages_leaving_source(home(block), to, block_bytes());
  }
  int move_on(BlockId, std::byte* from, std::byte* to) noexcept override {
    return os::move_pages(from, to, block_bytes());
  }
  int go_home(BlockId block, std::byte* from) noexcept override {
    const int error = os::move_pages(from, home(block), block_bytes());
    return error == ENOMEM ? copy_home(block, from) : error;
  }

  // A move leaves an ordinary mapping behind for a moment, which would give a thread a page of
  // zeros and swallow its stores: so the block is made inaccessible first. Copying needs it
  // readable again, but not writable.
  int go_home_in_use(BlockId block, std::byte* from, Protection) noexcept override {
    if (const int error = os::protect(from, block_bytes(), Protection::none)) return error;
    int error = os::move_pages(from, home(block), block_bytes());
    if (error == 0) {
      error = os::protect(home(block), block_bytes(), Protection::read_write);
      if (error == 0) return 0;
      PENSTOCK_CHECK(os::move_pages_leaving_source(home(block), from, block_bytes()) == 0,
                     "a block that cannot be made accessible at home cannot go back either");
      if (os::protect(from, block_bytes(), Protection::read_write) != 0)
        (void)os::protect(from, block_bytes(), Protection::read);
      return error;
    }
    if (error == ENOMEM) error = os::protect(from, block_bytes(), Protection::read);
    return error == 0 ? copy_home(block, from) : error;
  }

  // Copies the block home, which needs no mappings: with hardly any left, the kernel refuses every
  // move, even one that would give mappings back.
  int copy_home(BlockId block, std::byte* from) noexcept {
    if (const int error = os::populate(home(block), block_bytes())) return error;
    std::memcpy(home(block), from, block_bytes());
    const int error = os::decommit(from, block_bytes());
    if (error != 0) (void)os::discard(home(block), block_bytes());
    return error;
  }

  const bool sparse_;
};

}  // namespace

int mremap_error() {
  // Relaxed: only the number matters. Concurrent threads find the same one.
  constexpr int unknown = -1;
  static constinit std::atomic<int> kept = unknown;
  if (const int known = kept.load(std::memory_order_relaxed); known != unknown) return known;
  auto pages = os::Reservation::reserve(2 * os::page_bytes, os::page_bytes);
  if (!pages) return 0;  // the pool reports the error
  if (os::protect(pages->begin(), os::page_bytes, Protection::read_write) != 0) return 0;
  const int error = os::move_pages_leaving_source(pages->begin(), pages->begin() + os::page_bytes,
                                                  os::page_bytes);
  // A lack of memory may pass, so it is not remembered.
  if (error != ENOMEM && error != EAGAIN) kept.store(error, std::memory_order_relaxed);
  return error;
}

Result<std::unique_ptr<Pool>> open_mremap_pool(const PoolOptions& options) {
  return MremapPool::open(options);
}

}  // namespace penstock::pool
