#include "papers/ring_stream.h"

#if defined(__x86_64__)
#include <ucontext.h>
#endif

#include <thread>

#include "base/check.h"
#include "os/futex.h"

// A partition of n bytes into 2^b streams by m threads reserves n * m * 2^b bytes of addresses,
// since any stream may get all of the input: 130 TB in the thesis' example. But only the end of a
// stream is written, so one block of addresses is enough, if the block is exchanged when it is
// full. There are three ways for the write pointer to return to the beginning:
//
//   conditional  the writer compares, and calls reset()
//   handler      the pointer runs on into a hole behind the block. The fault exchanges the block
//                and changes the register that holds the address: the store goes to the beginning
//   mask         two blocks of addresses; the pointer goes from one to the other and, taken modulo
//                both, back again. Each time it enters a half it faults, the block there is new,
//                and that of the other half leaves. The writer never asks where it is
//
// Several threads, mask only (Algorithm 5). A thread may have claimed a piece of the block that is
// to leave, and not have written it yet. So a thread that faults waits until all threads have
// faulted, or have left: then each thread is at its own fault, and the last one exchanges the
// blocks for all. A stream's two halves cannot be wanted in one round: claiming a piece behind a
// whole block that nobody could write yet takes more threads than there are.
//
// Costs: per block a fault, taking the old one home and mapping the new one; with other threads in
// the same address space, an interruption of each. Fault path: allocates nothing, and under its
// lock nothing faults.

namespace penstock::papers {

RingGroup::RingGroup(pool::Pool& pool, const RingGroupOptions& options)
    : pool_(pool),
      reserve_(options.reserve),
      wrap_(options.wrap),
      threads_(options.threads),
      streams_(options.streams),
      block_bytes_(pool.block_bytes()),
      stride_bytes_(2 * block_bytes_),
      state_(std::make_unique<Stream[]>(options.streams)),
      next_(std::make_unique<pool::BlockId[]>(pool.blocks_max())),
      requests_(std::make_unique<Request[]>(options.threads)),
      active_(options.threads) {}

Result<std::unique_ptr<RingGroup>> RingGroup::open(pool::Pool& pool,
                                                   const RingGroupOptions& options) {
  const auto refuse = [](std::string hint) {
    return failure(ErrorCode::invalid_argument, "open ring streams", "RingGroup", std::move(hint));
  };
  if (options.streams == 0 || options.threads == 0) return refuse("streams and threads above 0");
  if (options.threads > 1 && options.wrap != Wrap::mask)
    return refuse("several threads with Wrap::mask");
#if !defined(__x86_64__)
  if (options.wrap == Wrap::handler)
    return failure(ErrorCode::unsupported, "open ring streams wrapped by the handler", "RingGroup",
                   "Wrap::mask");
#endif
  std::unique_ptr<RingGroup> group(new RingGroup(pool, options));
  auto range = pool.reserve(group->stride_bytes_ * options.streams);
  if (!range) return std::unexpected(std::move(range.error()));
  group->range_ = std::move(*range);
  auto registration =
      fault::Registration::add(group->range_.begin(), group->range_.bytes(), *group);
  if (!registration) return std::unexpected(std::move(registration.error()));
  group->registration_ = std::move(*registration);
  return group;
}

RingGroup::~RingGroup() {
  registration_ = {};
  if (range_.begin() == nullptr) return;
  for (uint32_t stream = 0; stream < streams_; ++stream) {
    for (const pool::BlockId block : take_blocks(stream)) pool_.give(block);
  }
  pool_.release(range_);
}

// ---- serving a fault

void RingGroup::enqueue(Stream& stream, std::byte* at) noexcept {
  const pool::BlockId block = stream.mapped;
  const int error = pool_.unmap(block, at);
  PENSTOCK_CHECK(error == 0, "a full block of a ring stream cannot be taken home");
  next_[block] = pool::no_block;
  (stream.last == pool::no_block ? stream.first : next_[stream.last]) = block;
  stream.last = block;
  stream.mapped = pool::no_block;
}

void RingGroup::serve(const Request& request) noexcept {
  Stream& stream = state_[request.stream];
  std::byte* const base = begin(request.stream);
  if (stream.mapped != pool::no_block) {
    // Another thread of this round has requested the same.
    if (wrap_ == Wrap::mask && stream.half == request.half) return;
    enqueue(stream, base + stream.half * block_bytes_);
  }
  const pool::BlockId block = reserve_ != nullptr ? reserve_->take() : pool_.take();
  PENSTOCK_CHECK(block != pool::no_block, "the pool of a ring stream has no free block left");
  const int error = pool_.map(block, base + request.half * block_bytes_);
  PENSTOCK_CHECK(error == 0,
                 "a block cannot be mapped: vm.max_map_count may be too small for this block size");
  stream.mapped = block;
  stream.half = request.half;
}

fault::Outcome RingGroup::on_fault(const fault::Fault& fault) noexcept {
  if (fault.access != fault::Access::write) return fault::Outcome::decline;
  const auto offset = static_cast<uint64_t>(fault.address - range_.begin());
  const auto stream = static_cast<uint32_t>(offset / stride_bytes_);
  if (stream >= streams_) return fault::Outcome::decline;
  const auto half = static_cast<uint32_t>(offset % stride_bytes_ / block_bytes_);
  if (wrap_ != Wrap::mask) {
    const bool fresh = half == 0 && state_[stream].mapped == pool::no_block;
    bool wraps = false;
#if defined(__x86_64__)
    if (wrap_ == Wrap::handler && fault.address == begin(stream) + block_bytes_ &&
        fault.context != nullptr) {
      auto& registers = static_cast<ucontext_t*>(fault.context)->uc_mcontext.gregs;
      wraps = registers[REG_RDI] == reinterpret_cast<greg_t>(fault.address);
      if (wraps) registers[REG_RDI] = reinterpret_cast<greg_t>(begin(stream));
    }
#endif
    if (!fresh && !wraps) return fault::Outcome::decline;
    serve({stream, 0});
    return fault::Outcome::retry;
  }
  if (threads_ == 1) {
    serve({stream, half});
    return fault::Outcome::retry;
  }
  lock();
  const uint32_t round = round_.load(std::memory_order_relaxed);
  requests_[waiting_++] = {stream, half};
  const bool last = waiting_ >= active_;
  if (last) finish_round();
  unlock();
  while (!last && round_.load(std::memory_order_acquire) == round) os::futex_wait(round_, round);
  return fault::Outcome::retry;
}

void RingGroup::finish_round() noexcept {
  for (unsigned i = 0; i < waiting_; ++i) serve(requests_[i]);
  waiting_ = 0;
  round_.fetch_add(1, std::memory_order_release);  // pairs with the load of waiting threads
  os::futex_wake_all(round_);
}

void RingGroup::leave() noexcept {
  lock();
  --active_;
  if (waiting_ != 0 && waiting_ >= active_) finish_round();
  unlock();
}

void RingGroup::lock() noexcept {
  // The holder moves blocks for all the others.
  for (unsigned tries = 0; locked_.exchange(true, std::memory_order_acquire); ++tries) {
    if (tries < 100) {
      os::spin_pause();
    } else {
      std::this_thread::yield();
    }
  }
}
void RingGroup::unlock() noexcept {
  locked_.store(false, std::memory_order_release);
}

// ---- calls

void RingGroup::reset(uint32_t stream) noexcept {
  serve({stream, 0});
}

std::vector<pool::BlockId> RingGroup::take_blocks(uint32_t stream) {
  Stream& state = state_[stream];
  if (state.mapped != pool::no_block) enqueue(state, begin(stream) + state.half * block_bytes_);
  std::vector<pool::BlockId> blocks;
  for (pool::BlockId block = state.first; block != pool::no_block; block = next_[block])
    blocks.push_back(block);
  state = {};
  return blocks;
}

}  // namespace penstock::papers
