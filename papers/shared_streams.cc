#include "papers/shared_streams.h"

#include <algorithm>
#include <thread>

#include "base/bits.h"
#include "base/check.h"
#include "os/futex.h"

namespace penstock::papers {

Result<std::unique_ptr<SharedStreams>> SharedStreams::open(pool::Pool& pool,
                                                           const Options& options) {
  std::unique_ptr<SharedStreams> streams(new SharedStreams(pool, options.reserve));
  streams->streams_ = options.streams;
  streams->stride_bytes_ =
      round_up(std::max<uint64_t>(options.bytes_max, 1), streams->block_bytes_);
  streams->slots_per_stream_ = streams->stride_bytes_ / streams->block_bytes_;
  auto range = pool.reserve(streams->stride_bytes_ * options.streams);
  if (!range) return std::unexpected(std::move(range.error()));
  streams->range_ = std::move(*range);

  const uint64_t slots_bytes =
      round_up(streams->slots_per_stream_ * options.streams * sizeof(Slot), os::page_bytes);
  auto slots = os::Reservation::reserve(slots_bytes, os::page_bytes);
  if (!slots) return std::unexpected(std::move(slots.error()));
  if (const int error = os::commit(slots->begin(), slots_bytes))
    return system_error(error, "commit the table of blocks", "partition",
                        "larger blocks, or fewer buckets");
  streams->slots_ = std::move(*slots);  // the destructor reads it

  auto registration =
      fault::Registration::add(streams->range_.begin(), streams->range_.bytes(), *streams);
  if (!registration) return std::unexpected(std::move(registration.error()));
  streams->registration_ = std::move(*registration);
  return streams;
}

SharedStreams::~SharedStreams() {
  registration_ = {};
  if (range_.begin() == nullptr) return;
  for (uint32_t stream = 0; slots_.begin() != nullptr && stream < streams_; ++stream) {
    for (const pool::BlockId block : take_blocks(stream)) pool_.give(block);
  }
  pool_.release(range_);
}

// Fault path: allocates nothing; waits only for the thread that maps the same block.
fault::Outcome SharedStreams::on_fault(const fault::Fault& fault) noexcept {
  if (fault.access != fault::Access::write) return fault::Outcome::decline;
  const uint64_t index = static_cast<uint64_t>(fault.address - range_.begin()) / block_bytes_;
  if (index >= slots_per_stream_ * streams_) return fault::Outcome::decline;
  uint32_t seen = 0;
  if (slot(index).compare_exchange_strong(seen, busy, std::memory_order_acquire)) {
    const pool::BlockId block = reserve_ != nullptr ? reserve_->take() : pool_.take();
    PENSTOCK_CHECK(block != pool::no_block, "the pool of a partition has no free block left");
    const int error = pool_.map(block, range_.begin() + index * block_bytes_);
    PENSTOCK_CHECK(
        error == 0,
        "a block cannot be mapped: vm.max_map_count may be too small for this block size");
    slot(index).store(block + 1, std::memory_order_release);  // pairs with the acquire load below
    return fault::Outcome::retry;
  }
  // Mapped between this thread's fault and now, or by a thread that has nearly done it.
  for (unsigned tries = 0; slot(index).load(std::memory_order_acquire) == busy; ++tries) {
    if (tries < 100) {
      os::spin_pause();
    } else {
      std::this_thread::yield();
    }
  }
  return fault::Outcome::retry;
}

std::vector<pool::BlockId> SharedStreams::take_blocks(uint32_t stream) {
  std::vector<pool::BlockId> blocks;
  for (uint64_t i = 0; i < slots_per_stream_; ++i) {
    Slot& here = slot(stream * slots_per_stream_ + i);
    const uint32_t block_plus_one = here.load(std::memory_order_relaxed);
    if (block_plus_one == 0) break;  // written without gaps
    const int error = pool_.unmap(block_plus_one - 1, begin(stream) + i * block_bytes_);
    PENSTOCK_CHECK(error == 0, "a block of a partition cannot be taken home");
    here.store(0, std::memory_order_relaxed);
    blocks.push_back(block_plus_one - 1);
  }
  return blocks;
}

uint64_t SharedStreams::blocks(uint32_t stream) const {
  uint64_t count = 0;
  while (count < slots_per_stream_ &&
         slot(stream * slots_per_stream_ + count).load(std::memory_order_relaxed) != 0)
    ++count;
  return count;
}

}  // namespace penstock::papers
