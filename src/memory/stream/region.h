#pragma once

// The body of penstock::Region (see include/penstock/region.h for use, region.cc for how it works).

#include <pthread.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/mutex.h"
#include "memory/fault/registry.h"
#include "memory/pool/pool.h"
#include "memory/stream/sides.h"
#include "memory/stream/stream_handler.h"
#include "os/memory.h"
#include "penstock/region.h"

namespace penstock::stream {

// Thread safety: any thread, also inside a fault handler, except for open() and destruction. mutex_
// guards the slots and is held across moves of blocks, never across the user's code or anything
// that faults. Invariants: a block is mapped exactly where its slot says, with the slot's
// protection; a slot without a block is not mapped. A slot is busy while one thread runs the user's
// handler for it.
class RegionCore final : public StreamHandler {
 public:
  using Options = Region::Options;
  using Block = BlockPool::Block;

  static Result<std::unique_ptr<RegionCore>> open(std::shared_ptr<pool::Pool> pool,
                                                  const Options& options, Region::Handler handler);
  ~RegionCore();

  std::byte* begin() const { return range_.begin(); }
  uint64_t bytes() const { return range_.bytes(); }
  uint64_t count() const { return count_; }
  Region::Blocks& blocks() { return blocks_; }
  std::byte* address_of(uint64_t index) const { return range_.begin() + index * block_bytes_; }

  int show(uint64_t index, Block&& block) noexcept EXCLUDES_LOCK(mutex_);
  Block hide(uint64_t index) noexcept EXCLUDES_LOCK(mutex_);
  int protect(uint64_t index, Protection protection) noexcept EXCLUDES_LOCK(mutex_);
  bool is_present(uint64_t index) const noexcept EXCLUDES_LOCK(mutex_);

  fault::Outcome on_fault(const fault::Fault& fault) noexcept override;
  Result<size_t> prepare(std::byte* address, size_t bytes, fault::Access access) override;
  Status prepare_all(const void* address, size_t bytes, fault::Access access);

 private:
  Label label() const noexcept override { return {options_.name.c_str(), options_.policy}; }

  struct Slot {
    uint32_t block_plus_one;  // 0: none
    Protection protection;
    bool busy;
    pthread_t server;  // the thread in the handler, while busy
  };

  RegionCore(std::shared_ptr<pool::Pool> pool, const Options& options, Region::Handler handler);

  Status serve(std::byte* address, fault::Access access) noexcept EXCLUDES_LOCK(mutex_);
  void refuse(uint64_t index, const Error& error, void* context) const noexcept;
  int take_home(uint64_t index) noexcept REQUIRES_LOCK(mutex_);
  int set_protection(uint64_t index, Protection from, Protection to) noexcept;
  static bool is_busy_elsewhere(const Slot& slot) {
    return slot.busy && pthread_equal(slot.server, pthread_self()) == 0;
  }

  Slot& slot(uint64_t index) const REQUIRES_LOCK(mutex_) { return slots_[index]; }
  uint64_t index_of(const void* address) const {
    return static_cast<uint64_t>(static_cast<const std::byte*>(address) - range_.begin()) /
           block_bytes_;
  }

  const Options options_;
  const Region::Handler handler_;
  const std::shared_ptr<pool::Pool> pool_;
  const size_t block_bytes_;
  uint64_t count_ = 0;
  Region::Blocks blocks_;
  os::Reservation range_;

  mutable Mutex mutex_;
  os::ZeroedTable<Slot> slots_;                          // guarded by mutex_
  const std::unique_ptr<uint64_t[]> shown_at_plus_one_;  // each block's index, plus one; 0: none
  EventCount ended_;                                     // announced when a slot stops being busy
};

}  // namespace penstock::stream
