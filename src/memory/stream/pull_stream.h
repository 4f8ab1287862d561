#pragma once

// The body of penstock::PullStream (see include/penstock/stream.h for use, pull_stream.cc for
// how it works).

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "memory/fault/registry.h"
#include "memory/pool/page_tables.h"
#include "memory/pool/pool.h"
#include "memory/stream/sides.h"
#include "memory/stream/stream_handler.h"
#include "os/memory.h"
#include "penstock/stream.h"

namespace penstock::stream {

// Thread safety: one thread at a time.
// Invariants:
//   - block p of the stream, if it has memory, is in slot p mod slots, and mapped; a slot without a
//     position has its block at home.
//   - in order (not random_access): exactly the blocks [next_ - slots, next_) are mapped, but for
//     those past the end.
class PullStreamCore final : public StreamHandler {
 public:
  using Options = PullStream::Options;
  using Producer = PullStream::Producer;

  static Result<std::unique_ptr<PullStreamCore>> open(const Options& options, Producer producer);
  ~PullStreamCore();

  std::byte* begin() const { return range_.begin(); }
  const pool::Pool& pool() const { return *pool_; }
  std::optional<uint64_t> bytes() const { return end_bytes_; }

  bool at_end(const void* position);
  Status prepare(const void* address, size_t bytes);
  Status status() const;

  fault::Outcome on_fault(const fault::Fault& fault) noexcept override;
  Result<size_t> prepare(std::byte* address, size_t bytes, fault::Access access) override;

 private:
  Label label() const noexcept override { return {options_.name.c_str(), options_.policy}; }

  static constexpr Position none = -1;
  struct Slot {
    pool::BlockId block = pool::no_block;
    Position position = none;
  };

  PullStreamCore(const Options& options, Producer producer);

  Verdict serve(Position position) noexcept;
  Verdict judge(Position position) const noexcept;
  Verdict pull(Position position, bool shown) noexcept;
  void free_page_tables(Position position) noexcept;
  size_t produce(Position position, std::byte* block) noexcept;
  void end_at(uint64_t bytes) noexcept;
  void fail_at(Position position, Error error) noexcept;

  WrittenFailure refusal_of(Verdict verdict, Position position) const noexcept;
  Status serve_or_error(Position position);

  Window window() const {
    return {.range = range_, .block_bytes = block_bytes_, .comeback = comeback_};
  }
  Slot& slot_of(Position position) { return slots_[static_cast<size_t>(position) % slots_.size()]; }
  Position position_of(const void* address) const {
    return static_cast<Position>(
        static_cast<uint64_t>(static_cast<const std::byte*>(address) - range_.begin()) /
        block_bytes_);
  }
  uint64_t offset_of(Position position) const {
    return static_cast<uint64_t>(position) * block_bytes_;
  }
  std::byte* address_of(Position position) const { return range_.begin() + offset_of(position); }
  uint64_t limit_bytes() const { return end_bytes_.value_or(options_.bytes); }

  const Options options_;
  const size_t block_bytes_;
  const Position comeback_;  // M
  Producer producer_;
  bool producing_ = false;

  std::unique_ptr<pool::Pool> pool_;
  os::Reservation range_;
  std::vector<Slot> slots_;
  pool::PassedPageTables passed_;
  Position next_ = 0;  // the first block behind all that were requested
  Jump jump_;
  std::optional<uint64_t> end_bytes_;
  std::optional<Error> error_;
  char reason_[256] = {};  // error_ as text, made without allocating
  int map_errno_ = 0;
};

}  // namespace penstock::stream
