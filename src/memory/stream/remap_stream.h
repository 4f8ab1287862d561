#pragma once

// The body of penstock::RemapStream (see include/penstock/stream.h for use, two_sided.cc and
// remap_stream.cc for how it works).

#include <array>
#include <memory>
#include <span>
#include <vector>

#include "memory/fault/event_server.h"
#include "memory/pool/pool.h"
#include "memory/stream/two_sided.h"
#include "penstock/stream.h"

namespace penstock::stream {

// Invariant, beside those of TwoSidedCore: slot i owns the pool's block blocks_[i], which is at
// exactly one place: at home (BlockState::nowhere), or at the address of the slot's position on
// one side. Its contents are always the position's.
class RemapStreamCore final : public TwoSidedCore {
 public:
  using Options = RemapStream::Options;

  static Result<std::unique_ptr<RemapStreamCore>> open(const Options& options);
  ~RemapStreamCore();

  uint64_t memory_bytes() const override { return pool_->memory_bytes(); }
  const pool::Pool& pool() const { return *pool_; }

  fault::Outcome on_unservable(const fault::Fault& fault, fault::Unservable why) noexcept override
      EXCLUDES_LOCK(mutex_);

 private:
  explicit RemapStreamCore(const Options& options);

  int show(Slot& slot, Side side, Position position, bool cleared) noexcept override
      REQUIRES_LOCK(mutex_);
  int hide(Slot& slot) noexcept override REQUIRES_LOCK(mutex_);
  void free_page_tables(std::span<std::byte> piece) noexcept override;
  template <class Move>
  int without_lock(Slot& slot, Move move) noexcept REQUIRES_LOCK(mutex_);
  // REQUIRES: the slot has been used.
  std::byte* address_of(const Slot& slot) const noexcept {
    return address(slot.state == BlockState::producer ? Side::producer : Side::consumer,
                   slot.position);
  }
  pool::BlockId block_of(const Slot& slot) const noexcept REQUIRES_LOCK(mutex_) {
    return blocks_[static_cast<size_t>(&slot - slots_.data())];
  }

  const bool system_calls_;
  std::unique_ptr<pool::Pool> pool_;
  std::vector<pool::BlockId> blocks_;
  std::array<fault::EventServer, 2> events_;  // Options::system_calls
};

}  // namespace penstock::stream
