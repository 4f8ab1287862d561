#include "papers/bucket_stream.h"

#include "base/bits.h"
#include "base/check.h"

// A bucket of a radix sort is written, read, and appended to again while parts of it wait to be
// read (deeper levels of recursion append behind shallower ones). A dual-buffer stream would move a
// block at every change of direction, although each access may be a few keys; a stream on fresh
// memory would pay the kernel for every page. So there is one buffer, with physical blocks from a
// shared pool, and the remaining question is when a block behind a reader is dead.
//
// States of a slot (one block's worth of addresses of one stream):
//
//   empty   --write fault-->  mapped  --writer enters the next slot (by_faults)-->  guarded
//   guarded --read or write fault-->  mapped
//   mapped  --read fault in the next slot, if the rules allow-->  dying (at home, like guarded)
//   dying   --the stream's next read fault elsewhere-->  empty
//   dying   --read or write fault-->  mapped
//   any     --release(), trim()-->  empty
//
// Dying exists because readers are not quite sequential: a library's copy, or a sorting network,
// that straddles two blocks may touch the second first and then the end of the one before.
//
// A guard is the whole block taken away from its address (it waits at home), not one protected
// page: it costs one move, works on every pool mechanism, and never splits a huge page. It differs
// from a guard page when a writer appends to a guarded block: the write faults, the guard is
// lifted, and it is set again when the writer goes on to the next block.
//
// The rules (section 5.3) for a read fault at y, with x the stream's read fault before it: the
// block before y is dead iff
//   a) y = x + block_bytes, both at the first byte of a block: the reader has come through the
//      whole block from its start; a reader that begins in the middle of a block (a deeper level's
//      keys behind a shallower one's) must not free it; and
//   b) the guard at y stood before the fault at x: otherwise y was written after x was read, and
//      what lies before it may be the unread keys of another level (figure 6 b).
// Time is a counter of events of the group.
//
// The rules never free the block before the last (the last has no guard), the one that is dying,
// and the last itself. So a pool for recursive use by faults alone has n + 3 * 2^b blocks; with
// release() and trim() n + 2^b and a few suffice.
//
// Costs: a write fault 4 to 8 us (signal, take, one move), a guard one move, a read fault a signal
// and one or two moves.

namespace penstock::papers {

Result<std::unique_ptr<BucketGroup>> BucketGroup::open(pool::Pool& pool,
                                                       const BucketGroupOptions& options) {
  if (options.streams == 0 || options.bytes_max == 0) {
    return failure(ErrorCode::invalid_argument, "open bucket streams", "BucketGroup",
                   "streams and bytes_max above 0");
  }
  std::unique_ptr<BucketGroup> group(new BucketGroup(pool));
  group->streams_ = options.streams;
  group->reclaim_ = options.reclaim;
  group->block_bytes_ = pool.block_bytes();
  group->stride_bytes_ = round_up(options.bytes_max, group->block_bytes_);
  group->slots_per_stream_ = group->stride_bytes_ / group->block_bytes_;
  group->state_ = std::make_unique<Stream[]>(options.streams);

  auto range = pool.reserve(group->stride_bytes_ * options.streams);
  if (!range) return std::unexpected(range.error());
  group->range_ = std::move(*range);

  uint64_t slots_bytes =
      round_up(group->slots_per_stream_ * options.streams * sizeof(Slot), os::page_bytes);
  auto slots = os::Reservation::reserve(slots_bytes, os::page_bytes);
  if (!slots) return std::unexpected(slots.error());
  group->slots_ = std::move(*slots);
  if (int error = os::commit(group->slots_.begin(), slots_bytes); error != 0) {
    return system_error(error, "commit the table of blocks", "BucketGroup");
  }

  auto registration =
      fault::Registration::add(group->range_.begin(), group->range_.bytes(), *group);
  if (!registration) return std::unexpected(registration.error());
  group->registration_ = std::move(*registration);
  return group;
}

BucketGroup::~BucketGroup() {
  for (uint32_t stream = 0; range_.begin() != nullptr && stream < streams_; ++stream) {
    trim(stream, begin(stream));
  }
  registration_ = {};
  if (range_.begin() != nullptr) pool_.release(range_);
}

void BucketGroup::map(uint64_t index, pool::BlockId block) noexcept {
  int error = pool_.map(block, address_of(index));
  PENSTOCK_CHECK(error == 0,
                 "a block cannot be mapped: vm.max_map_count may be too small for this block size");
}

// Fault path: allocates nothing, locks nothing.
fault::Outcome BucketGroup::on_fault(const fault::Fault& fault) noexcept {
  uint64_t index = static_cast<uint64_t>(fault.address - range_.begin()) / block_bytes_;
  if (index >= slots_per_stream_ * streams_) return fault::Outcome::decline;
  ++now_;
  if (slot(index).block_plus_one != 0 && slot(index).guarded_at == 0) {
    return fault::Outcome::decline;  // mapped and still faulting: not a stream's fault
  }
  if (fault.access == fault::Access::write) {
    write_fault(index);
  } else if (slot(index).block_plus_one == 0) {
    return fault::Outcome::decline;  // a read of memory that was never written
  } else {
    read_fault(index, fault.address);
  }
  return fault::Outcome::retry;
}

void BucketGroup::write_fault(uint64_t index) noexcept {
  Stream& state = state_[index / slots_per_stream_];
  uint64_t in_stream = index % slots_per_stream_;
  Slot& here = slot(index);
  if (here.block_plus_one == 0) {
    pool::BlockId block = pool_.take();
    PENSTOCK_CHECK(block != pool::no_block, "the pool of a bucket stream has no free block left");
    ++blocks_held_;
    here.block_plus_one = block + 1;
    if (in_stream + 1 > state.used_slots) state.used_slots = in_stream + 1;
  }
  if (state.dying_plus_one == index + 1) state.dying_plus_one = 0;
  map(index, here.block_plus_one - 1);
  here.guarded_at = 0;

  if (reclaim_ != Reclaim::by_faults || in_stream == 0) return;
  Slot& before = slot(index - 1);
  if (before.block_plus_one == 0 || before.guarded_at != 0) return;
  int error = pool_.unmap(before.block_plus_one - 1, address_of(index - 1));
  PENSTOCK_CHECK(error == 0, "a guard cannot be set");
  before.guarded_at = now_;
}

void BucketGroup::read_fault(uint64_t index, std::byte* address) noexcept {
  Stream& state = state_[index / slots_per_stream_];
  Slot& here = slot(index);
  bool came_back = state.dying_plus_one == index + 1;
  if (came_back) {
    state.dying_plus_one = 0;
  } else {
    if (state.dying_plus_one != 0) give_back(state.dying_plus_one - 1);
    bool next_to_last = state.last_read_fault != nullptr && address == address_of(index) &&
                        address == state.last_read_fault + block_bytes_;
    if (next_to_last && here.guarded_at < state.last_read_at) let_die(index - 1);
    state.last_read_fault = address;
    state.last_read_at = now_;
  }
  map(index, here.block_plus_one - 1);
  here.guarded_at = 0;
}

void BucketGroup::let_die(uint64_t index) noexcept {
  Slot& dying = slot(index);
  if (dying.block_plus_one == 0 || dying.guarded_at != 0) return;
  int error = pool_.unmap(dying.block_plus_one - 1, address_of(index));
  PENSTOCK_CHECK(error == 0, "a block cannot be unmapped");
  dying.guarded_at = now_;
  state_[index / slots_per_stream_].dying_plus_one = index + 1;
}

void BucketGroup::give_back(uint64_t index) noexcept {
  Slot& here = slot(index);
  pool::BlockId block = here.block_plus_one - 1;
  if (here.guarded_at == 0) {
    int error = pool_.unmap(block, address_of(index));
    PENSTOCK_CHECK(error == 0, "a block cannot be unmapped");
  }
  here = {};
  uint64_t& dying_plus_one = state_[index / slots_per_stream_].dying_plus_one;
  if (dying_plus_one == index + 1) dying_plus_one = 0;
  pool_.give(block);
  --blocks_held_;
}

void BucketGroup::release(std::byte* from, std::byte* to) noexcept {
  uint64_t first = ceil_div(static_cast<uint64_t>(from - range_.begin()), block_bytes_);
  uint64_t end = static_cast<uint64_t>(to - range_.begin()) / block_bytes_;
  for (uint64_t index = first; index < end; ++index) {
    if (slot(index).block_plus_one != 0) give_back(index);
  }
}

void BucketGroup::trim(uint32_t stream, std::byte* from) noexcept {
  Stream& state = state_[stream];
  uint64_t keep = ceil_div(static_cast<uint64_t>(from - begin(stream)), block_bytes_);
  uint64_t base = stream * slots_per_stream_;
  for (uint64_t in_stream = keep; in_stream < state.used_slots; ++in_stream) {
    if (slot(base + in_stream).block_plus_one != 0) give_back(base + in_stream);
  }
  if (state.used_slots > keep) state.used_slots = keep;
}

}  // namespace penstock::papers
