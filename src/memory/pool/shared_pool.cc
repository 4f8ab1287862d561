// Pages of one memfd, which show up wherever a view of them is mapped.
//
// The arena is one view of the whole file, so a block is always visible at home. map() adds a view
// to an empty place, which interrupts no core. Old views are unmapped late, many in one call: see
// late_unmaps.h. Until then the old view stays readable, and shows newer data once the block is
// used for something else; `strict` unmaps at once.
//
// A view of a block that consists of huge pages is the home's view, duplicated by mremap(): it is
// excluded from forks like that one, and the first touch enters the huge page. Beside another
// thread that does the same this takes 9 us a block; a mapping that enters the pages at once, and a
// call to exclude it, take 15 (10 to 12 without the exclusion). Small pages are mapped: entering
// them one by one at the first touch would cost more.
//
// MADV_COLLAPSE makes a block of 2 MiB one huge page, even if the system's shmem huge pages are off
// (Linux 6.1). If that fails, pages that an administrator has reserved (hugetlb) serve if there are
// enough of them for the whole pool, and else pages of 4 KiB, which cost more to map: 34 us for
// each MiB against 6.
//
// Every view is a mapping, so vm.max_map_count bounds the blocks that may be out at once, the late
// ones included: on ENOMEM the late ones go first and the call is tried again.

#include <cerrno>
#include <csignal>
#include <utility>

#include "base/check.h"
#include "memory/pool/arena_pool.h"
#include "memory/pool/huge_pages.h"
#include "memory/pool/late_unmaps.h"
#include "os/memfd.h"

namespace penstock::pool {
namespace {

class SharedPool final : public ArenaPool {
 public:
  SharedPool(const PoolOptions& options, PageKind pages, os::Reservation arena, os::MemoryFile file)
      : ArenaPool(options, pages, std::move(arena)),
        file_(std::move(file)),
        is_huge_(std::make_unique<bool[]>(options.blocks_max)),
        late_(options.block_bytes, options.strict ? 1 : options.unmap_batch_blocks) {}

  static Result<std::unique_ptr<Pool>> open(const PoolOptions& options, PageKind pages) {
    auto arena = reserve_arena(options);
    if (!arena) return std::unexpected(arena.error());
    auto file = os::MemoryFile::create(arena->bytes(), pages == PageKind::hugetlb
                                                           ? os::MemoryFile::Pages::hugetlb
                                                           : os::MemoryFile::Pages::small);
    if (!file) return std::unexpected(file.error());
    int error = file->map(arena->begin(), arena->bytes(), 0, false);
    if (error == 0) error = os::exclude_from_fork(arena->begin(), arena->bytes());
    if (error != 0) return system_error(error, "map the blocks of a pool", "shared pool");
    return std::make_unique<SharedPool>(options, pages, std::move(*arena), std::move(*file));
  }

  Mechanism mechanism() const override { return Mechanism::shared; }
  int fault_signal() const override { return SIGSEGV; }
  Result<os::Reservation> reserve(uint64_t bytes) override { return reserve_range(bytes); }
  void release(os::Reservation& range) override {
    if (!is_inherited()) late_.forget(range.begin(), range.end());
  }
  int flush_unmaps() noexcept override { return is_inherited() ? 0 : late_.flush(); }
  int free_page_tables(std::span<std::byte> piece) noexcept override {
    if (is_inherited()) return 0;  // the thread that held the lock at the fork is gone
    late_.forget(piece.data(), piece.data() + piece.size());  // its views go with the rest
    return Pool::free_page_tables(piece);
  }

 private:
  int commit_home(BlockId block) noexcept override {
    const int error = get_memory(block);
    if (error != 0) (void)discard_home(block);
    return error;
  }
  int get_memory(BlockId block) noexcept {
    std::byte* const at = home(block);
    is_huge_[block] = pages() == PageKind::huge;
    if (pages() == PageKind::huge) {
      for (size_t offset = 0; offset < block_bytes(); offset += os::huge_page_bytes) {
        // A piece of a file without any page is not collapsed. If the system has no huge page,
        // small ones do.
        if (const int error = os::populate(at + offset, os::page_bytes)) return error;
        if (os::collapse(at + offset, os::huge_page_bytes) != 0) is_huge_[block] = false;
      }
    }
    return os::populate(at, block_bytes());
  }
  int discard_home(BlockId block) noexcept override {
    return os::discard_file_pages(home(block), block_bytes());
  }
  int leave_home(BlockId block, std::byte* to) noexcept override {
    const auto show = [&] { return show_at(block, to); };
    const int error = late_.place(to, show);
    return error == ENOMEM && late_.flush() == 0 ? late_.place(to, show) : error;
  }
  int move_on(BlockId block, std::byte* from, std::byte* to) noexcept override {
    if (const int error = leave_home(block, to)) return error;
    const int error = go_home(block, from);
    PENSTOCK_CHECK(error == 0 || os::decommit(to, block_bytes()) == 0,
                   "a block is shown twice, and neither view can be taken away");
    return error;
  }
  int go_home(BlockId, std::byte* from) noexcept override { return late_.add(from); }

  int show_at(BlockId block, std::byte* to) noexcept {
    // (If mremap() is refused, a view is mapped as those of small pages are.)
    if (is_huge_[block] && os::show_again(home(block), to, block_bytes()) == 0) return 0;
    const auto offset = static_cast<uint64_t>(home(block) - arena_.begin());
    const int error = file_.map(to, block_bytes(), offset, true);
    // A store by a child would reach the parent's block. If the system refuses the exclusion, a
    // child sees memory that it must not touch.
    if (error == 0) (void)os::exclude_from_fork(to, block_bytes());
    return error;
  }

  const os::MemoryFile file_;
  std::unique_ptr<bool[]> is_huge_;  // for blocks with memory; touched only by the block's holder
  LateUnmaps late_;
};

}  // namespace

Result<std::unique_ptr<Pool>> open_shared_pool(const PoolOptions& options) {
  if (!wants_huge_pages(options)) return SharedPool::open(options, PageKind::small);
  if (options.pages == PageKind::hugetlb) return SharedPool::open(options, PageKind::hugetlb);
  if (options.pages == PageKind::huge || file_pages_collapse())
    return SharedPool::open(options, PageKind::huge);
  if (auto reserved = SharedPool::open(options, PageKind::hugetlb)) return reserved;
  return SharedPool::open(options, PageKind::small);
}

}  // namespace penstock::pool
