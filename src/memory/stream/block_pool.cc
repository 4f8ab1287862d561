#include "base/out_of_memory.h"
#include "memory/pool/pool.h"
#include "penstock/region.h"

namespace penstock {

// Opens a strict pool: a block unmapped from an address must not be visible there any more.
Result<BlockPool> BlockPool::open(const Options& options) {
  return or_out_of_memory([&]() -> Result<BlockPool> {
    auto pool = pool::Pool::open({.block_bytes = options.block_bytes,
                                  .blocks_max = options.blocks,
                                  .mechanism = options.mechanism,
                                  .strict = true});
    if (!pool) return std::unexpected(std::move(pool.error()));
    return BlockPool(std::shared_ptr<pool::Pool>(std::move(*pool)));
  });
}

BlockPool::Block BlockPool::take() const noexcept {
  const pool::BlockId block = core_->take();
  return block == pool::no_block ? Block() : Block(core_, block);
}

size_t BlockPool::block_bytes() const {
  return core_->block_bytes();
}
uint32_t BlockPool::blocks() const {
  return core_->blocks_max();
}
uint32_t BlockPool::blocks_free() const {
  return core_->blocks_free();
}
Mechanism BlockPool::mechanism() const {
  return core_->mechanism();
}
uint64_t BlockPool::memory_bytes() const {
  return core_->memory_bytes();
}
void BlockPool::trim() const {
  core_->trim();
}

BlockPool::Block& BlockPool::Block::operator=(Block&& other) noexcept {
  std::swap(pool_, other.pool_);
  std::swap(number_, other.number_);
  return *this;
}

BlockPool::Block::~Block() {
  if (pool_ != nullptr) pool_->give(number_);
}

std::span<std::byte> BlockPool::Block::bytes() const {
  return {pool_->home(number_), pool_->block_bytes()};
}

}  // namespace penstock
