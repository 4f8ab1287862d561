// How a user's own range is served, in several threads.
//
// A bare fault gives the user an address, in whatever thread, and the calls that map memory. Each
// user then has to find out that two threads which touch one block at the same time must not both
// make it, that a page mapped and then filled is seen half filled, and that a block taken away
// leaves a moment in which a store to it is lost. This file solves these three.
//
// One fault per block. A slot says what is at its index, under mutex_. The first thread that faults
// there marks the slot busy and calls the user's handler without the lock; others that fault there
// wait until it is done, look again and mostly find the block. Only the serving thread may hide a
// busy slot's block, so the handler's promise (the access is possible when it returns ok) can be
// checked, and two handlers that evict each other's blocks cannot block each other for ever.
//
// Appearing. The user fills the block at its home, an address that nobody else has; then it moves
// into place. uffd_move moves page by page, and a thread that touches a page which is not there yet
// faults, waits for the lock and then finds the block mapped.
//
// Vanishing. uffd_move takes each page away at once and leaves a watched hole; shared replaces the
// view by reserved space, and the data stay in the file. The mremap pool makes the block
// inaccessible first. All keep the block's protection until it is away (Pool::unmap_in_use):
// threads that touch it meanwhile fault, wait for the lock, and look again. This file must not
// touch the block then, because its thread has the lock.
//
// Fault path: allocates nothing, and the only lock it takes is mutex_, under which no user code
// runs and nothing faults. Costs: a signal, a move with the lock held, and what the handler does.

#include "memory/stream/region.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "base/access.h"
#include "base/bits.h"
#include "base/check.h"
#include "memory/stream/recovery.h"

namespace penstock::stream {

namespace {

bool allows(Protection protection, fault::Access access) {
  return protection == Protection::read_write ||
         (protection == Protection::read && access == fault::Access::read);
}

}  // namespace

// ---- opening and closing

RegionCore::RegionCore(std::shared_ptr<pool::Pool> pool, const Options& options,
                       Region::Handler handler)
    : options_(options),
      handler_(std::move(handler)),
      pool_(std::move(pool)),
      block_bytes_(pool_->block_bytes()),
      blocks_(*this),
      shown_at_plus_one_(std::make_unique<uint64_t[]>(pool_->blocks_max())) {}

Result<std::unique_ptr<RegionCore>> RegionCore::open(std::shared_ptr<pool::Pool> pool,
                                                     const Options& options,
                                                     Region::Handler handler) {
  auto refuse = [&](std::string hint) {
    return failure(ErrorCode::invalid_argument, "open a region", options.name, std::move(hint));
  };
  if (options.bytes == 0 || options.bytes > 128 * TiB) return refuse("bytes: 1 to 128 TiB");
  if (options.policy == ErrorPolicy::zeros) return refuse("policy: stop or recover");
  if (!handler) return refuse("a handler");

  std::unique_ptr<RegionCore> core(new RegionCore(std::move(pool), options, std::move(handler)));
  core->count_ = ceil_div(options.bytes, core->block_bytes_);
  auto range = core->pool_->reserve(core->count_ * core->block_bytes_);
  if (!range) return std::unexpected(range.error());
  core->range_ = std::move(*range);

  auto slots =
      os::ZeroedTable<Slot>::open(core->count_, "commit the table of blocks", options.name);
  if (!slots) return std::unexpected(slots.error());
  core->slots_ = std::move(*slots);
  if (auto watched = core->watch(core->range_.begin(), core->range_.bytes()); !watched)
    return std::unexpected(std::move(watched.error()));
  return core;
}

RegionCore::~RegionCore() {
  stop_watching();
  if (is_inherited()) return;  // a thread that held the lock at the fork does not exist here
  for (pool::BlockId block = 0; block < pool_->blocks_max(); ++block) {
    if (shown_at_plus_one_[block] == 0) continue;
    // A block that cannot be unmapped is lost with its range: the pool has one less.
    (void)hide(shown_at_plus_one_[block] - 1);
  }
  if (range_.begin() != nullptr) pool_->release(range_);
}

// ---- serving a fault

// Fault path.
fault::Outcome RegionCore::on_fault(const fault::Fault& fault) noexcept {
  if (const Status status = serve(fault.address, fault.access); !status)
    refuse(index_of(fault.address), status.error(), fault.context);
  return fault::Outcome::retry;
}

Status RegionCore::serve(std::byte* address, fault::Access access) noexcept {
  const uint64_t index = index_of(address);
  mutex_.lock();
  Slot& here = slot(index);
  while (is_busy_elsewhere(here)) ended_.wait(mutex_);
  const bool recursive = here.busy;
  const bool is_present = here.block_plus_one != 0;
  const bool served = is_present && allows(here.protection, access);
  if (!served && !recursive) {
    here.busy = true;
    here.server = pthread_self();
  }
  mutex_.unlock();
  if (served) return {};
  if (recursive)
    stop({ErrorCode::invalid_argument,
          "serve its handler: it touched the block that it is called for", options_.name.c_str(),
          0});

  Status status = handler_(blocks_, {index, address, access == fault::Access::write, is_present});

  mutex_.lock();
  here.busy = false;
  const bool possible = here.block_plus_one != 0 && allows(here.protection, access);
  ended_.announce();
  mutex_.unlock();
  if (status && !possible)
    stop({ErrorCode::invalid_argument, "go on: its handler said ok, and the access is not possible",
          options_.name.c_str(), 0});
  return status;
}

void RegionCore::refuse(uint64_t index, const Error& error, void* context) const noexcept {
  WrittenFailure failure(options_.name.c_str());
  failure.system_errno = error.system_errno;
  failure.write(error.code, "provide block %llu: cannot %s%s%s",
                static_cast<unsigned long long>(index), error.attempted.c_str(),
                error.subject.empty() ? "" : ": ", error.subject.c_str());
  give_up(failure, context);
}

// ---- calls for handlers

int RegionCore::show(uint64_t index, Block&& block) noexcept {
  PENSTOCK_CHECK(index < count_, "a block was shown beyond the end of its region");
  PENSTOCK_CHECK(block.pool_ == pool_, "a block was shown that is not of the region's pool");
  MutexLock lock(mutex_);
  Slot& here = slot(index);
  if (here.block_plus_one != 0) return EEXIST;
  if (const int error = pool_->map(block.number_, address_of(index))) return error;
  here.block_plus_one = block.number_ + 1;
  here.protection = Protection::read_write;
  shown_at_plus_one_[block.number_] = index + 1;
  block.pool_.reset();
  return 0;
}

RegionCore::Block RegionCore::hide(uint64_t index) noexcept {
  if (index >= count_) return {};
  MutexLock lock(mutex_);
  Slot& here = slot(index);
  if (here.block_plus_one == 0 || is_busy_elsewhere(here) || take_home(index) != 0) return {};
  const pool::BlockId block = std::exchange(here.block_plus_one, 0) - 1;
  shown_at_plus_one_[block] = 0;
  return Block(pool_, block);
}

// Moves the slot's block home. Returns 0 or an errno; then the block is where it was, as it was.
int RegionCore::take_home(uint64_t index) noexcept {
  const Slot& here = slot(index);
  const pool::BlockId block = here.block_plus_one - 1;
  const int error = pool_->unmap_in_use(block, address_of(index), here.protection);
  if (error != 0) {
    PENSTOCK_CHECK(os::protect(address_of(index), block_bytes_, here.protection) == 0,
                   "a block that cannot be moved cannot be protected as it was");
  }
  return error;
}

int RegionCore::set_protection(uint64_t index, Protection from, Protection to) noexcept {
  return from == to ? 0 : os::protect(address_of(index), block_bytes_, to);
}

int RegionCore::protect(uint64_t index, Protection protection) noexcept {
  if (index >= count_) return ENOENT;
  MutexLock lock(mutex_);
  Slot& here = slot(index);
  if (here.block_plus_one == 0) return ENOENT;
  const int error = set_protection(index, here.protection, protection);
  if (error == 0) here.protection = protection;
  return error;
}

bool RegionCore::is_present(uint64_t index) const noexcept {
  if (index >= count_) return false;
  MutexLock lock(mutex_);
  return slot(index).block_plus_one != 0;
}

// ---- calls

Result<size_t> RegionCore::prepare(std::byte* address, size_t bytes, fault::Access access) {
  if (auto owned = check_owned("prepare memory"); !owned) return std::unexpected(owned.error());
  if (const Status status = serve(address, access); !status) return std::unexpected(status.error());
  return std::min<size_t>(bytes, static_cast<size_t>(address_of(index_of(address) + 1) - address));
}

Status RegionCore::prepare_all(const void* address, size_t bytes, fault::Access access) {
  auto* at = const_cast<std::byte*>(static_cast<const std::byte*>(address));
  if (bytes == 0) return {};
  if (!range_.contains(address) || bytes > static_cast<size_t>(range_.end() - at))
    return failure(ErrorCode::invalid_argument, "prepare memory of a region", options_.name,
                   "a piece of its pointer");
  while (bytes > 0) {
    const Result<size_t> ready = prepare(at, bytes, access);
    if (!ready) return std::unexpected(ready.error());
    at += *ready;
    bytes -= *ready;
  }
  return {};
}

}  // namespace penstock::stream

// ---- the public class

namespace penstock {

int Region::Blocks::show(uint64_t index, BlockPool::Block&& block) {
  return core_.show(index, std::move(block));
}
BlockPool::Block Region::Blocks::hide(uint64_t index) {
  return core_.hide(index);
}
int Region::Blocks::protect(uint64_t index, Protection protection) {
  return core_.protect(index, protection);
}
bool Region::Blocks::is_present(uint64_t index) const {
  return core_.is_present(index);
}
uint64_t Region::Blocks::count() const {
  return core_.count();
}
std::byte* Region::Blocks::address_of(uint64_t index) const {
  return core_.address_of(index);
}

Result<Region> Region::open(const BlockPool& pool, const Options& options, Handler handler) {
  return internal::opened<Region>([&] {
    return stream::RegionCore::open(internal::Access::core(pool), options, std::move(handler));
  });
}

uint64_t Region::bytes() const {
  return core_->bytes();
}
Region::Blocks& Region::blocks() const {
  return core_->blocks();
}
Status Region::prepare_read(const void* address, size_t bytes) const {
  return core_->prepare_all(address, bytes, fault::Access::read);
}
Status Region::prepare_write(void* address, size_t bytes) const {
  return core_->prepare_all(address, bytes, fault::Access::write);
}
std::byte* Region::address() const {
  return fault::for_this_thread(core_->begin());
}

}  // namespace penstock
