#pragma once

// Physical memory in blocks, and the virtual ranges in which the blocks appear.
//
// A pool owns up to `blocks_max` blocks of physical memory. Each block is, at any time, in one of
// three places:
//   free      in the pool's free list;
//   home      taken, at its home address in the pool's own arena (readable and writable: for I/O
//             buffers);
//   mapped    taken, at a block-aligned address in a range made by reserve(), where a plain
//             pointer reaches it.
// Any access to a part of a range without a block faults (SIGSEGV or SIGBUS, see fault_signal());
// the fault layer calls the handler that is registered for the range. The contents of a block
// survive every map and unmap, and take() promises nothing about contents. take() commits memory
// when a block is taken for the first time; it stays until the pool is closed or trim() gives free
// blocks back to the system.
//
// Mechanisms:
//   mremap     anonymous pages move by page table; a hole is re-reserved behind them
//   uffd_move  anonymous pages move by UFFDIO_MOVE between registered ranges; no mapping is split
//   shared     pages of one memfd, made huge when block_bytes allows; a map adds a view, unmapping
//              may be late and batched
//
// Moving pools keep a block at exactly one address. With the shared pool an old view may stay
// readable, and show newer data, until flush_unmaps() or a batch removes it (see SharedPool);
// `strict` unmaps at once.
//
// In a forked child a pool is inert, because its blocks are the parent's: it hands out and moves no
// block, and ignores blocks that are given back or unmapped (0), so that their holders can end
// there.
//
// Thread safety: all members may be called from any thread; calls about one block must not overlap
// each other. take, give, map, unmap, home and flush_unmaps neither allocate nor take locks that
// user code may hold: they may stand on the fault path.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "os/generation.h"
#include "os/memory.h"
#include "os/userfault.h"
#include "penstock/base.h"
#include "penstock/rewire.h"

namespace penstock::pool {

using BlockId = uint32_t;
inline constexpr BlockId no_block = ~BlockId{0};

using penstock::Mechanism;
const char* name_of(Mechanism mechanism);

// The movement pattern of the blocks, which decides what `automatic` means.
enum class Use {
  same_thread,      // one thread moves blocks about, ahead of or in its own faults (bucket streams)
  between_threads,  // blocks move from a writer's to a reader's range while both run (dual-buffer
                    // pipes)
};

using penstock::name_of;  // for PageKind

struct PoolOptions {
  size_t block_bytes = 2 * MiB;  // a power of two, 4 KiB to 1 GiB
  uint32_t blocks_max = 0;
  // automatic: the fastest measured mechanism of this kernel (see pool.cc)
  Mechanism mechanism = Mechanism::automatic;
  Use use = Use::same_thread;            // pattern that `automatic` chooses for
  PageKind pages = PageKind::automatic;  // for blocks of 2 MiB and more; hugetlb: shared only
  bool strict = false;                   // shared only: old views vanish at once
  uint32_t unmap_batch_blocks = 32;      // shared only
  // mremap only: untouched parts of a block take no memory. (Otherwise a taken block has all of its
  // memory, and the system cannot refuse it later.)
  bool sparse = false;
  // uffd_move only, privileged: faults in ranges are not signals in the faulting thread but events
  // (see events_of()), so that those inside system calls can be served, too.
  bool system_calls = false;
};

class Pool {
 public:
  static Result<std::unique_ptr<Pool>> open(const PoolOptions& options);
  virtual ~Pool() = default;

  bool is_inherited() const noexcept { return made_.is_past(); }
  size_t block_bytes() const { return block_bytes_; }
  uint32_t blocks_max() const { return blocks_max_; }
  PageKind pages() const { return pages_; }  // the actual kind; never `automatic`
  virtual Mechanism mechanism() const = 0;
  virtual int fault_signal() const = 0;  // SIGSEGV or SIGBUS

  // Reserves at least `bytes` of address space, aligned to the block (to 2 MiB for such blocks).
  virtual Result<os::Reservation> reserve(uint64_t bytes) = 0;
  // Must be called before a Reservation of this pool is destroyed (it may have to be unregistered).
  virtual void release(os::Reservation& range) = 0;

  // Returns the source of fault events in `range`, with PoolOptions::system_calls; each range has
  // its own. Otherwise nullptr.
  virtual os::Userfault* events_of(const os::Reservation& range) noexcept {
    (void)range;
    return nullptr;
  }

  // Frees the page tables of a piece of a range (see page_tables.h). REQUIRES: no block is mapped
  // there, and nobody maps one meanwhile; later one may be mapped there again.
  virtual int free_page_tables(std::span<std::byte> piece) noexcept;

  // Takes a free block, which is then at home; no_block if there is none, or no memory.
  virtual BlockId take() noexcept = 0;
  // REQUIRES: the block is at home.
  virtual void give(BlockId block) noexcept = 0;
  // The block's address in the arena. Only blocks that are at home may be touched there.
  virtual std::byte* home(BlockId block) const noexcept = 0;

  // Move a block from home, or from `from`, to `to`. Return 0 or an errno (ENOMEM: out of
  // mappings). The block vanishes from its old place (shared and not strict: later).
  [[nodiscard]] virtual int map(BlockId block, std::byte* to) noexcept = 0;
  [[nodiscard]] virtual int remap(BlockId block, std::byte* from, std::byte* to) noexcept = 0;
  // Moves the block home with its contents.
  [[nodiscard]] virtual int unmap(BlockId block, std::byte* from) noexcept = 0;
  // Moves the block home while other threads use it; it has `protection` at `from` until it is
  // gone. Their accesses fault or reach the block, no store that the protection forbids succeeds,
  // and no store is lost. After an error it is where it was, but possibly inaccessible or
  // read-only.
  [[nodiscard]] virtual int unmap_in_use(BlockId block, std::byte* from,
                                         Protection protection) noexcept {
    (void)protection;
    return unmap(block, from);
  }
  // Unmaps every view of a shared pool that waits for its batch. Other pools have none.
  virtual int flush_unmaps() noexcept { return 0; }

  virtual uint32_t blocks_free() const noexcept = 0;  // including those never taken
  // Physical blocks that exist: the pool's resident memory.
  virtual uint32_t blocks_committed() const noexcept = 0;
  uint64_t memory_bytes() const noexcept { return uint64_t{blocks_committed()} * block_bytes_; }
  // Gives the memory of free blocks back to the system.
  virtual void trim() noexcept = 0;

 protected:
  const os::Generation made_ = os::Generation::now();
  size_t block_bytes_ = 0;
  uint32_t blocks_max_ = 0;
  PageKind pages_ = PageKind::small;
};

// Writes the reason why a map or an unmap failed, and what to try, as the end of a message: "Device
// or resource busy (a page ...)". May stand on the fault path.
void write_reason(int error, char* text, size_t text_bytes) noexcept;

// Checks the rule for blocks of pools and streams: a power of two, from a page to 1 GiB. Errors:
// invalid_argument.
Status check_block_bytes(size_t block_bytes, const char* attempted, const std::string& subject);

// Returns the mechanism that `automatic` stands for, on this kernel. `blocks_max` limits the blocks
// that are mapped at once.
Mechanism preferred(Use use, size_t block_bytes = 2 * MiB, uint32_t blocks_max = 0);

// Returns mremap, whatever the size of blocks; shared if the system refuses to move pages by
// mremap, and uffd_move if it has no memory files either.
Mechanism mremap_or_shared();

// The result of trying a mechanism here by moving a block, with the system's error if it fails.
struct MechanismReport {
  Mechanism mechanism;
  bool works;
  PageKind pages;      // for 2 MiB blocks
  std::string detail;  // the error, or empty
};
std::vector<MechanismReport> probe();

}  // namespace penstock::pool
