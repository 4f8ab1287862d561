#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "base/run_scope.h"
#include "memory/pool/block_list.h"
#include "memory/pool/pool.h"
#include "os/memory.h"

namespace penstock::pool {

// The common part of the mechanisms: an arena with a home for each block, the free blocks, and the
// state of each block, so that a misused block stops the program instead of losing its contents.
//
// Thread safety: as Pool. Invariants: states_[b] is touched only by the one thread that holds b.
class ArenaPool : public Pool {
 public:
  ~ArenaPool() override;
  BlockId take() noexcept override;
  void give(BlockId block) noexcept override;
  std::byte* home(BlockId block) const noexcept override {
    return arena_.begin() + uint64_t{block} * block_bytes_;
  }
  int map(BlockId block, std::byte* to) noexcept override;
  int remap(BlockId block, std::byte* from, std::byte* to) noexcept override;
  int unmap(BlockId block, std::byte* from) noexcept override;
  int unmap_in_use(BlockId block, std::byte* from, Protection protection) noexcept override;
  uint32_t blocks_free() const noexcept override { return free_.blocks_free(); }
  uint32_t blocks_committed() const noexcept override {
    return committed_.load(std::memory_order_relaxed);
  }
  void trim() noexcept override;

 protected:
  // REQUIRES: the arena is excluded from fork.
  ArenaPool(const PoolOptions& options, PageKind pages, os::Reservation arena);

  // The mechanism's operations. Each returns 0 or an errno, and has changed nothing if it fails: a
  // block that gets only half of its memory loses it again, because nobody would count it.
  virtual int commit_home(BlockId block) noexcept = 0;   // gives the block memory
  virtual int discard_home(BlockId block) noexcept = 0;  // takes the block's memory away
  virtual int leave_home(BlockId block, std::byte* to) noexcept = 0;
  virtual int move_on(BlockId block, std::byte* from, std::byte* to) noexcept = 0;
  virtual int go_home(BlockId block, std::byte* from) noexcept = 0;
  virtual int go_home_in_use(BlockId block, std::byte* from, Protection protection) noexcept {
    (void)protection;
    return go_home(block, from);
  }

  // Reserves address space for whole blocks, aligned to the block and to 2 MiB.
  static Result<os::Reservation> reserve_blocks(uint64_t bytes, size_t block_bytes);
  // Reserves a range. Errors: unsupported, in a forked child.
  Result<os::Reservation> reserve_range(uint64_t bytes) const;
  // REQUIRES: options checked by Pool::open.
  static Result<os::Reservation> reserve_arena(const PoolOptions& options);

  os::Reservation arena_;

 private:
  enum class BlockState : uint8_t { free, home, mapped };
  void require_state(BlockId block, BlockState state) const noexcept;

  BlockList free_;
  std::atomic<uint32_t> committed_{0};
  // Charged for blocks that have memory.
  const std::shared_ptr<MemoryAccount> account_ = current_run().account;
  std::unique_ptr<BlockState[]> states_;
};

// Returns 0, or the errno with which this system refuses to move pages by mremap() (gVisor,
// sandboxes). Tried once per process.
int mremap_error();

// Returns whether blocks of this size should be made of huge pages.
bool wants_huge_pages(const PoolOptions& options);

Result<std::unique_ptr<Pool>> open_mremap_pool(const PoolOptions& options);
Result<std::unique_ptr<Pool>> open_uffd_pool(const PoolOptions& options);
Result<std::unique_ptr<Pool>> open_shared_pool(const PoolOptions& options);

}  // namespace penstock::pool
