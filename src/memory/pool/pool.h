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
// Any access to a part of a range where no block is mapped faults (SIGSEGV or SIGBUS, as
// `fault_signal()` says); the fault layer brings it to whoever registered the range. The contents
// of a block survive every map and unmap, and take() promises nothing about contents. Memory is
// committed by take() when a block is taken for the first time and stays until the pool is closed
// or trim() gives free blocks back to the system.
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
// In a forked child a pool is inert, for its blocks are the parent's: it gives and moves no block,
// and what is given back to it, or unmapped, is left alone (0), so that whatever holds blocks can
// end there.
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

// What the blocks are moved for; decides what `automatic` means.
enum class Use {
  same_thread,      // one thread moves blocks about, ahead of or in its own faults (bucket streams)
  between_threads,  // blocks move from a writer's to a reader's range while both run (dual-buffer
                    // pipes)
};

using penstock::name_of;  // of a PageKind

struct PoolOptions {
  size_t block_bytes = 2 * MiB;  // a power of two, 4 KiB to 1 GiB
  uint32_t blocks_max = 0;
  Mechanism mechanism = Mechanism::automatic;  // automatic: what measures best among what this
                                               // kernel has (see pool.cc)
  Use use = Use::same_thread;                  // what `automatic` chooses for
  PageKind pages = PageKind::automatic;        // of blocks of 2 MiB and more; hugetlb: shared only
  bool strict = false;                         // shared only: old views vanish at once
  uint32_t unmap_batch_blocks = 32;            // shared only
  // mremap only: what is never touched of a block takes no memory. (Otherwise a block that was taken
  // has all of it, and the system cannot refuse it later.)
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
  PageKind pages() const { return pages_; }  // the choice that was made; never `automatic`
  virtual Mechanism mechanism() const = 0;
  virtual int fault_signal() const = 0;  // SIGSEGV or SIGBUS

  // Address space of at least `bytes`, aligned to the block (and to 2 MiB when blocks are that
  // large).
  virtual Result<os::Reservation> reserve(uint64_t bytes) = 0;
  // Must be called before a Reservation of this pool is destroyed (unregisters it where the
  // mechanism needs it).
  virtual void release(os::Reservation& range) = 0;

  // With PoolOptions::system_calls: where the faults in `range` are read; each range has its own.
  // Otherwise nullptr.
  virtual os::Userfault* events_of(const os::Reservation& range) noexcept {
    (void)range;
    return nullptr;
  }

  // Frees the page tables of a piece of a range (see page_tables.h). REQUIRES: no block is mapped
  // there, and nobody maps one meanwhile; one may be mapped there again later.
  virtual int free_page_tables(std::span<std::byte> piece) noexcept;

  // A free block, now at home; no_block when all are out or the system has no memory.
  virtual BlockId take() noexcept = 0;
  // REQUIRES: the block is at home.
  virtual void give(BlockId block) noexcept = 0;
  // The block's address in the arena. Only blocks that are at home may be touched there.
  virtual std::byte* home(BlockId block) const noexcept = 0;

  // Makes a block that is at home, or mapped at `from`, appear at `to`. 0 or an errno (ENOMEM: out
  // of mappings). The block vanishes from where it was (shared and not strict: later).
  [[nodiscard]] virtual int map(BlockId block, std::byte* to) noexcept = 0;
  [[nodiscard]] virtual int remap(BlockId block, std::byte* from, std::byte* to) noexcept = 0;
  // The block goes home; its contents stay.
  [[nodiscard]] virtual int unmap(BlockId block, std::byte* from) noexcept = 0;
  // Does it while other threads use the block, which has `protection` at `from` until it is gone from
  // there: whatever they do meanwhile faults or meets the block, no store that the protection forbids
  // succeeds, and what they store is not lost. On an error it is where it was, but may be inaccessible
  // or read-only there.
  [[nodiscard]] virtual int unmap_in_use(BlockId block, std::byte* from,
                                         Protection protection) noexcept {
    (void)protection;
    return unmap(block, from);
  }
  // Shared pool: removes every view that is waiting for its batch. Others: nothing to do.
  virtual int flush_unmaps() noexcept { return 0; }

  virtual uint32_t blocks_free() const noexcept = 0;  // never taken ones included
  virtual uint32_t blocks_committed()
      const noexcept = 0;  // physical blocks that exist: the pool's resident memory
  uint64_t memory_bytes() const noexcept { return uint64_t{blocks_committed()} * block_bytes_; }
  // Gives the memory of free blocks back to the system.
  virtual void trim() noexcept = 0;

 protected:
  const os::Generation made_ = os::Generation::now();
  size_t block_bytes_ = 0;
  uint32_t blocks_max_ = 0;
  PageKind pages_ = PageKind::small;
};

// Why a map or an unmap failed, and what to try: the end of a message, "Device or resource busy (a page ...)".
// May stand on the fault path.
void write_reason(int error, char* text, size_t text_bytes) noexcept;

// Errors: invalid_argument. The one rule for blocks of pools and streams: a power of two, from a page to 1 GiB.
Status check_block_bytes(size_t block_bytes, const char* attempted, const std::string& subject);

// The mechanism that `automatic` stands for, on this kernel. `blocks_max` matters for what may be
// mapped at once.
Mechanism preferred(Use use, size_t block_bytes = 2 * MiB, uint32_t blocks_max = 0);

// mremap, whatever the size of blocks; where the system refuses to move pages by it, shared, and where
// it has no files in memory either, uffd_move.
Mechanism mremap_or_shared();

// Whether each mechanism works here, found by moving a block with it; and what the system said
// where it does not.
struct MechanismReport {
  Mechanism mechanism;
  bool works;
  PageKind pages;      // of 2 MiB blocks
  std::string detail;  // why it does not work, or nothing
};
std::vector<MechanismReport> probe();

}  // namespace penstock::pool
