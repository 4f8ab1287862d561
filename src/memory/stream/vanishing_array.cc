// How an array loses its memory behind a reader that does not report its progress.
//
// A chain of blocks with an iterator costs a comparison per item, and has no pointer that anybody
// else's code could take. In a buffer on fresh pages, the kernel has to find and clear each page,
// and all of them are held until the last item is read.
//
// Here a block comes from a pool on the first write to it. When the writer is M blocks further, a
// guard is set: the block is taken from its address and waits at home. So the first read of it
// faults, which shows the block again and tells where the reader is: blocks more than M in front of
// it return to the pool.
//
//   empty   --write fault-->  mapped  --write fault M + 1 blocks later-->  guarded
//   guarded --read or write fault-->  mapped
//   any     --read fault more than M blocks later, clear()-->  empty
//
// A guard is a whole block moved rather than a page protected: that works on every mechanism of the
// pool and splits no huge page. Bucket streams (papers/bucket_stream.cc) have the same states; left
// out here are their rules for recursion, and that a read fault frees at most one block. In
// exchange a reader may jump, and an array may be refilled:
//
// Passes. low_ is how far the reader's present pass has freed blocks. A write in front of low_
// begins the next filling, and the present pass, which only frees from low_ on, leaves it alone. A
// read fault in front of low_ begins the next pass. Blocks at the end of the last filling that were
// never guarded, or that the reader did not leave by M, are still mapped then: the next writer
// overwrites them without a fault, hence without a guard in front of them, and the reader passes
// them without a fault; what was due is freed at the next fault. Late, never early.
//
// Costs: a signal and two moves per block when filling; a signal, two moves and a push onto the
// free list when draining. At 2 MiB these are several percent of the time in which memory can be
// written; larger blocks move in nearly the same time. Fault path: allocates nothing, locks nothing
// (except the pool's locks).

#include "memory/stream/vanishing_array.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <utility>

#include "base/access.h"
#include "base/bits.h"
#include "base/check.h"
#include "memory/stream/sides.h"

namespace penstock::stream {

// ---- opening and closing

VanishingArrayCore::VanishingArrayCore(std::shared_ptr<pool::Pool> pool, const Options& options)
    : options_(options),
      comeback_(options.comeback_blocks),
      block_bytes_(pool->block_bytes()),
      pool_(std::move(pool)) {}

Result<std::unique_ptr<VanishingArrayCore>> VanishingArrayCore::open(
    std::shared_ptr<pool::Pool> pool, const Options& options) {
  auto refuse = [&](std::string hint) {
    return failure(ErrorCode::invalid_argument, "open an array", options.name, std::move(hint));
  };
  if (options.bytes == 0 || options.bytes > 128 * TiB) return refuse("bytes: 1 to 128 TiB");
  if (options.policy == ErrorPolicy::zeros) return refuse("policy: stop or recover");

  std::unique_ptr<VanishingArrayCore> core(new VanishingArrayCore(std::move(pool), options));
  const uint64_t blocks = ceil_div(options.bytes, core->block_bytes_);
  auto range = core->pool_->reserve(blocks * core->block_bytes_);
  if (!range) return std::unexpected(range.error());
  core->range_ = std::move(*range);

  auto slots = os::ZeroedTable<Slot>::open(blocks, "commit the table of blocks", options.name);
  if (!slots) return std::unexpected(slots.error());
  core->slots_ = std::move(*slots);
  if (auto watched = core->watch(core->range_.begin(), core->range_.bytes()); !watched)
    return std::unexpected(std::move(watched.error()));
  return core;
}

VanishingArrayCore::~VanishingArrayCore() {
  stop_watching();
  clear();
  if (range_.begin() != nullptr) pool_->release(range_);
}

void VanishingArrayCore::clear() noexcept {
  low_ = 0;
  vanish_before(used_);
  while (used_ > 0 && slot(used_ - 1).block_plus_one == 0) --used_;
  low_ = reader_ = 0;
}

// ---- serving a fault

// Fault path.
fault::Outcome VanishingArrayCore::on_fault(const fault::Fault& fault) noexcept {
  const uint64_t index = index_of(fault.address);
  const Slot& here = slot(index);
  if (here.block_plus_one != 0 && !here.guarded)
    return fault::Outcome::decline;  // mapped and still a fault: not this handler's to mend
  const Verdict verdict = serve(index, fault.access);
  if (verdict != Verdict::present) give_up(refusal_of(verdict, index), fault.context);
  return fault::Outcome::retry;
}

VanishingArrayCore::Verdict VanishingArrayCore::serve(uint64_t index,
                                                      fault::Access access) noexcept {
  Slot& here = slot(index);
  if (here.block_plus_one != 0 && !here.guarded) return Verdict::present;
  if (access == fault::Access::write) {
    if (here.block_plus_one == 0) {
      const pool::BlockId block = pool_->take();
      if (block == pool::no_block) return Verdict::pool_empty;
      here = {block + 1, true};
      ++held_;
      used_ = std::max(used_, index + 1);
    }
    if (index > comeback_) guard(index - comeback_ - 1);
    return show(index);
  }
  if (here.block_plus_one == 0) return index < low_ ? Verdict::vanished : Verdict::never_written;
  if (index < low_) low_ = 0;  // the next pass
  reader_ = index;
  if (index > comeback_) vanish_before(index - comeback_);
  return show(index);
}

VanishingArrayCore::Verdict VanishingArrayCore::show(uint64_t index) noexcept {
  Slot& here = slot(index);
  map_errno_ = pool_->map(here.block_plus_one - 1, address_of(index));
  if (map_errno_ != 0) return Verdict::unmapped;
  here.guarded = false;
  return Verdict::present;
}

// Sets a guard. If the system refuses (no mapping left), nothing is lost: the reader passes without
// a fault, and frees the block later.
void VanishingArrayCore::guard(uint64_t index) noexcept {
  Slot& here = slot(index);
  if (here.block_plus_one == 0 || here.guarded) return;
  here.guarded = pool_->unmap(here.block_plus_one - 1, address_of(index)) == 0;
}

void VanishingArrayCore::vanish_before(uint64_t index) noexcept {
  for (; low_ < index; ++low_) {
    if (slot(low_).block_plus_one != 0) give_back(low_);
  }
}

// Returns the block to the pool. If it cannot be unmapped, it stays until the next pass or clear(),
// and is lost with its range at the latest: the pool then has one less.
void VanishingArrayCore::give_back(uint64_t index) noexcept {
  Slot& here = slot(index);
  const pool::BlockId block = here.block_plus_one - 1;
  if (!here.guarded && pool_->unmap(block, address_of(index)) != 0) return;
  here = {};
  pool_->give(block);
  --held_;
}

// ---- accesses that cannot be served

WrittenFailure VanishingArrayCore::refusal_of(Verdict verdict, uint64_t index) const noexcept {
  auto number = [](auto value) { return static_cast<unsigned long long>(value); };
  WrittenFailure failure(options_.name.c_str());
  switch (verdict) {
    case Verdict::vanished:
      failure.write(ErrorCode::invalid_argument,
                    "read block %llu: it was given back when the reader came to block %llu "
                    "(comeback_blocks is %llu)",
                    number(index), number(reader_), number(comeback_));
      return failure;
    case Verdict::never_written:
      failure.write(ErrorCode::invalid_argument, "read block %llu: nothing was written there",
                    number(index));
      return failure;
    case Verdict::pool_empty:
      failure.write(
          ErrorCode::out_of_memory,
          "write block %llu: none of the pool's %llu blocks is free (this array has %llu)",
          number(index), number(pool_->blocks_max()), number(held_));
      return failure;
    case Verdict::unmapped: {
      char reason[200];
      pool::write_reason(map_errno_, reason, sizeof reason);
      failure.write(code_of_errno(map_errno_), "map block %llu: %s", number(index), reason);
      return failure;
    }
    case Verdict::present:
      break;
  }
  PENSTOCK_CHECK(false, "a block that could be served was refused");
}

Status VanishingArrayCore::serve_or_error(Position index, fault::Access access) {
  const Verdict verdict = serve(static_cast<uint64_t>(index), access);
  if (verdict == Verdict::present) return {};
  return std::unexpected(refusal_of(verdict, static_cast<uint64_t>(index)).error());
}

// ---- calls

Result<size_t> VanishingArrayCore::prepare(std::byte* address, size_t bytes, fault::Access access) {
  if (auto owned = check_owned("prepare memory"); !owned) return std::unexpected(owned.error());
  return window().serve_fitting(address, bytes,
                                [&](Position index) { return serve_or_error(index, access); });
}

Status VanishingArrayCore::prepare_all(const void* address, size_t bytes, fault::Access access) {
  if (auto owned = check_owned("prepare memory"); !owned) return std::unexpected(owned.error());
  if (bytes == 0) return {};
  const auto blocks = window().blocks(address, bytes, options_.name);
  if (!blocks) return std::unexpected(blocks.error());
  for (const Position index : blocks->each()) {
    if (Status served = serve_or_error(index, access); !served) return served;
  }
  return {};
}

}  // namespace penstock::stream

// ---- the public class

namespace penstock {

Result<VanishingArray> VanishingArray::open(const BlockPool& pool, const Options& options) {
  return internal::opened<VanishingArray>(
      [&] { return stream::VanishingArrayCore::open(internal::Access::core(pool), options); });
}

void VanishingArray::clear() {
  core_->clear();
}
uint32_t VanishingArray::blocks_held() const {
  return core_->blocks_held();
}
uint64_t VanishingArray::memory_bytes() const {
  return uint64_t{core_->blocks_held()} * core_->pool().block_bytes();
}
Status VanishingArray::prepare_write(void* address, size_t bytes) {
  return core_->prepare_all(address, bytes, fault::Access::write);
}
Status VanishingArray::prepare_read(const void* address, size_t bytes) {
  return core_->prepare_all(address, bytes, fault::Access::read);
}
std::byte* VanishingArray::address() const {
  return fault::for_this_thread(core_->begin());
}

}  // namespace penstock
