#include "memory/pool/arena_pool.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/bits.h"
#include "base/check.h"

namespace penstock::pool {

bool wants_huge_pages(const PoolOptions& options) {
  return options.block_bytes >= os::huge_page_bytes && options.pages != PageKind::small;
}

ArenaPool::ArenaPool(const PoolOptions& options, PageKind pages, os::Reservation arena)
    : arena_(std::move(arena)),
      free_(options.blocks_max),
      states_(std::make_unique<BlockState[]>(options.blocks_max)) {
  block_bytes_ = options.block_bytes;
  blocks_max_ = options.blocks_max;
  pages_ = pages;
}

ArenaPool::~ArenaPool() {
  if (account_ != nullptr) account_->release(uint64_t{committed_.load()} * block_bytes_);
}

Result<os::Reservation> ArenaPool::reserve_blocks(uint64_t bytes, size_t block_bytes) {
  constexpr uint64_t bytes_max = uint64_t{1} << 60;
  if (bytes == 0 || bytes > bytes_max)
    return failure(ErrorCode::invalid_argument,
                   "reserve " + std::to_string(bytes) + " bytes for blocks");
  return os::Reservation::reserve(round_up(bytes, block_bytes),
                                  std::max(block_bytes, os::huge_page_bytes));
}

Result<os::Reservation> ArenaPool::reserve_range(uint64_t bytes) const {
  if (is_inherited())
    return failure(ErrorCode::unsupported, "use a pool of the parent process in a forked child",
                   "pool", "a pool that the child opens");
  return reserve_blocks(bytes, block_bytes_);
}

Result<os::Reservation> ArenaPool::reserve_arena(const PoolOptions& options) {
  return reserve_blocks(uint64_t{options.blocks_max} * options.block_bytes, options.block_bytes);
}

void ArenaPool::require_state(BlockId block, BlockState state) const noexcept {
  PENSTOCK_CHECK(block < blocks_max_, "no such block");
  PENSTOCK_CHECK(states_[block] == state, "a block is not where the call needs it");
}

BlockId ArenaPool::take() noexcept {
  if (is_inherited()) return no_block;
  const BlockList::Taken taken = free_.take();
  if (taken.block == no_block) return no_block;
  if (!taken.has_memory) {
    if (commit_home(taken.block) != 0) {
      free_.give(taken.block, false);
      return no_block;
    }
    committed_.fetch_add(1, std::memory_order_relaxed);
    if (account_ != nullptr) account_->charge(block_bytes_);
  }
  states_[taken.block] = BlockState::home;
  return taken.block;
}

void ArenaPool::give(BlockId block) noexcept {
  if (is_inherited()) return;
  require_state(block, BlockState::home);
  states_[block] = BlockState::free;
  free_.give(block, true);
}

int ArenaPool::map(BlockId block, std::byte* to) noexcept {
  if (is_inherited()) return EPERM;
  require_state(block, BlockState::home);
  const int error = leave_home(block, to);
  if (error == 0) states_[block] = BlockState::mapped;
  return error;
}

int ArenaPool::remap(BlockId block, std::byte* from, std::byte* to) noexcept {
  if (is_inherited()) return EPERM;
  require_state(block, BlockState::mapped);
  return move_on(block, from, to);
}

int ArenaPool::unmap(BlockId block, std::byte* from) noexcept {
  if (is_inherited()) return 0;
  require_state(block, BlockState::mapped);
  const int error = go_home(block, from);
  if (error == 0) states_[block] = BlockState::home;
  return error;
}

int ArenaPool::unmap_in_use(BlockId block, std::byte* from, Protection protection) noexcept {
  if (is_inherited()) return 0;
  require_state(block, BlockState::mapped);
  const int error = go_home_in_use(block, from, protection);
  if (error == 0) states_[block] = BlockState::home;
  return error;
}

void ArenaPool::trim() noexcept {
  if (is_inherited()) return;
  (void)flush_unmaps();  // a late view must not bring the memory back
  free_.trim([this](BlockId block) {
    if (discard_home(block) != 0) return false;
    committed_.fetch_sub(1, std::memory_order_relaxed);
    if (account_ != nullptr) account_->release(block_bytes_);
    return true;
  });
}

}  // namespace penstock::pool
