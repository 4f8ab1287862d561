#pragma once

// The body of penstock::VanishingArray (see include/penstock/region.h for use,
// vanishing_array.cc for how it works).

#include <cstddef>
#include <cstdint>
#include <memory>

#include "memory/fault/registry.h"
#include "memory/pool/pool.h"
#include "memory/stream/sides.h"
#include "memory/stream/stream_handler.h"
#include "os/memory.h"
#include "penstock/region.h"

namespace penstock::stream {

// Thread safety: one thread at a time; the pool may be shared. Invariants: a slot without a block
// is not mapped; a block is mapped at its slot, or guarded: at home until it is touched again.
// Slots from used_ on have no block. Nothing in [0, low_) belongs to the reader's present pass.
class VanishingArrayCore final : public StreamHandler {
 public:
  using Options = VanishingArray::Options;

  // REQUIRES: the pool is strict.
  static Result<std::unique_ptr<VanishingArrayCore>> open(std::shared_ptr<pool::Pool> pool,
                                                          const Options& options);
  ~VanishingArrayCore();

  std::byte* begin() const { return range_.begin(); }
  uint32_t blocks_held() const { return held_; }
  const pool::Pool& pool() const { return *pool_; }
  void clear() noexcept;
  // REQUIRES of the first: as in its interface.
  Result<size_t> prepare(std::byte* address, size_t bytes, fault::Access access) override;
  Status prepare_all(const void* address, size_t bytes, fault::Access access);

  fault::Outcome on_fault(const fault::Fault& fault) noexcept override;

 private:
  Label label() const noexcept override { return {options_.name.c_str(), options_.policy}; }

  struct Slot {
    uint32_t block_plus_one;  // 0: none
    bool guarded;
  };
  enum class Verdict : uint8_t { present, never_written, vanished, pool_empty, unmapped };

  VanishingArrayCore(std::shared_ptr<pool::Pool> pool, const Options& options);

  Verdict serve(uint64_t index, fault::Access access) noexcept;
  Verdict show(uint64_t index) noexcept;
  void guard(uint64_t index) noexcept;
  void vanish_before(uint64_t index) noexcept;
  void give_back(uint64_t index) noexcept;
  WrittenFailure refusal_of(Verdict verdict, uint64_t index) const noexcept;
  Status serve_or_error(Position index, fault::Access access);
  Window window() const {
    return {.range = range_,
            .block_bytes = block_bytes_,
            .comeback = static_cast<Position>(comeback_),
            .kind = "an array"};
  }

  Slot& slot(uint64_t index) const { return slots_[index]; }
  uint64_t index_of(const void* address) const {
    return static_cast<uint64_t>(static_cast<const std::byte*>(address) - range_.begin()) /
           block_bytes_;
  }
  std::byte* address_of(uint64_t index) const { return range_.begin() + index * block_bytes_; }

  const Options options_;
  const uint64_t comeback_;  // M
  const size_t block_bytes_;
  const std::shared_ptr<pool::Pool> pool_;
  os::Reservation range_;
  os::ZeroedTable<Slot> slots_;
  uint64_t used_ = 0;
  uint64_t low_ = 0;
  uint64_t reader_ = 0;  // index of the last read fault
  uint32_t held_ = 0;
  int map_errno_ = 0;
};

}  // namespace penstock::stream
