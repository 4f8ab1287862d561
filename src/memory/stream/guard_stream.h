#pragma once

// The body of penstock::GuardStream (see include/penstock/stream.h for use, two_sided.cc and
// guard_stream.cc for how it works).

#include <memory>
#include <span>

#include "memory/stream/two_sided.h"
#include "penstock/stream.h"

namespace penstock::stream {

// The protection of the blocks is guarded by mutex_, too. Invariants, beside those of TwoSidedCore:
//   - blocks below dead_ have no memory, and those with memory lie less than N + L + M + 1 apart;
//   - an active producer's blocks, from released on, are open to both sides; below released only
//     what a consumer has faulted in is open.
class GuardStreamCore final : public TwoSidedCore {
 public:
  using Options = GuardStream::Options;

  static Result<std::unique_ptr<GuardStreamCore>> open(const Options& options);
  ~GuardStreamCore() { stop_watching(); }

  std::byte* writer() override EXCLUDES_LOCK(mutex_);
  std::byte* reader() override EXCLUDES_LOCK(mutex_);  // waits for the start condition
  uint64_t memory_bytes() const override EXCLUDES_LOCK(mutex_);

  using TwoSidedCore::prepare;
  // Serves the producer if the access is a write, the consumer if it is a read.
  Result<size_t> prepare(std::byte* address, size_t bytes, fault::Access access) override
      EXCLUDES_LOCK(mutex_) {
    return prepare_window(access == fault::Access::write ? Side::producer : Side::consumer, address,
                          bytes);
  }

 private:
  explicit GuardStreamCore(const Options& options);

  int show(Slot& slot, Side side, Position position, bool cleared) noexcept override
      REQUIRES_LOCK(mutex_);
  int hide(Slot& slot) noexcept override REQUIRES_LOCK(mutex_);
  int retire(Side side, Position kept, Position complete) noexcept override REQUIRES_LOCK(mutex_);
  void free_page_tables(std::span<std::byte> piece) noexcept override;

  int guard_until(Position end) noexcept REQUIRES_LOCK(mutex_);
  int give_back(Position begin, Position end) noexcept REQUIRES_LOCK(mutex_);

  Position dead_ GUARDED_BY(mutex_) = 0;  // positions below were decommitted
};

}  // namespace penstock::stream
