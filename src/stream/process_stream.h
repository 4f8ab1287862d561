#pragma once

// The body of penstock::ProcessStream (see include/penstock/process_stream.h for use,
// process_stream.cc for how it works).

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "fault/registry.h"
#include "os/memfd.h"
#include "os/memory.h"
#include "os/process.h"
#include "penstock/process_stream.h"
#include "pool/late_unmaps.h"
#include "pool/page_tables.h"
#include "stream/sides.h"
#include "stream/stream_handler.h"

namespace penstock::stream {

struct SharedStream;  // what both processes see; process_stream.cc
struct SharedSide;

// One process's side.
//
// Thread safety: any thread, also inside a fault handler, where fail() may not stand. What both
// processes see changes by atomics alone, so that a process can die between any two instructions;
// what only this process sees is guarded by mutex_, under which nothing waits for the other
// process. Invariants (of the shared state, see SharedStream): the heads, the release and the
// phases only grow, and each is written by the side that it belongs to; the phase of a dead process
// is written by the survivor.
class ProcessStreamCore final : public StreamHandler {
 public:
  using Options = ProcessStream::Options;
  using AttachOptions = ProcessStream::AttachOptions;

  static Result<std::unique_ptr<ProcessStreamCore>> create(const Options& options, Side side);
  static Result<std::unique_ptr<ProcessStreamCore>> attach(int fd, Side side,
                                                           const AttachOptions& options);
  ~ProcessStreamCore();

  int fd() const { return file_.fd(); }
  Side side() const { return side_; }
  std::byte* begin() const { return range_.begin(); }
  uint64_t memory_bytes() const { return slots_ * shape_.block_bytes; }

  Status prepare(const void* address, size_t bytes) EXCLUDES_LOCK(mutex_);
  Status finish(uint64_t bytes) EXCLUDES_LOCK(mutex_);
  Result<uint64_t> wait_ready(uint64_t offset) EXCLUDES_LOCK(mutex_);
  void fail(const Error& error) EXCLUDES_LOCK(mutex_);
  Status status() const;

  fault::Outcome on_fault(const fault::Fault& fault) noexcept override;
  Result<size_t> prepare(std::byte* address, size_t bytes, fault::Access access) override
      EXCLUDES_LOCK(mutex_);

 private:
  Label label() const noexcept override { return {name_.c_str(), options_.policy}; }

  static constexpr uint32_t late_views = 32;

  ProcessStreamCore(os::MemoryFile file, os::Reservation header, const Shape& shape, Side side,
                    const AttachOptions& options, uint32_t attach_ms_max);
  Status join();
  SharedSide& mine() const;
  SharedSide& others() const;

  Verdict serve(Position position) noexcept EXCLUDES_LOCK(mutex_);
  int retire(Position position) noexcept REQUIRES_LOCK(mutex_);
  int retire_below(Position kept) noexcept REQUIRES_LOCK(mutex_);
  Position others_head() const noexcept;
  void announce(Position position) noexcept REQUIRES_LOCK(mutex_);
  Verdict judge(Position position) const noexcept REQUIRES_LOCK(mutex_);
  Verdict judge_writer(Position position) const noexcept REQUIRES_LOCK(mutex_);
  Verdict judge_reader(Position position) const noexcept REQUIRES_LOCK(mutex_);
  int show(Position position, bool cleared) noexcept REQUIRES_LOCK(mutex_);
  void free_page_tables() noexcept REQUIRES_LOCK(mutex_);
  void wait_for_change(uint32_t seen) noexcept EXCLUDES_LOCK(mutex_);
  void notice_death() noexcept EXCLUDES_LOCK(mutex_);
  void changed() noexcept;

  void give_up(Verdict verdict, Position position, void* context) const noexcept;
  Error error_of(Verdict verdict, Position position) const;
  ErrorCode write_reason(char* text, size_t text_bytes, Verdict verdict,
                         Position position) const noexcept EXCLUDES_LOCK(mutex_);
  void write_failure(SharedSide& side, ErrorCode code, const char* reason) noexcept;
  static ErrorCode read_failure(const SharedSide& side, char (&reason)[256]) noexcept;

  Position comeback() const {
    return side_ == Side::producer ? producer_comeback_ : consumer_comeback_;
  }
  size_t slot_of(Position position) const { return static_cast<size_t>(position) % slots_; }
  std::byte* address(Position position) const {
    return range_.begin() + static_cast<size_t>(position) * shape_.block_bytes;
  }

  const os::MemoryFile file_;
  const os::Reservation header_;
  SharedStream& shared_;
  const Side side_;
  const AttachOptions options_;
  const uint32_t attach_ms_max_;
  const std::chrono::steady_clock::time_point opened_ = std::chrono::steady_clock::now();

  // The shape, as it was checked when this process joined: the other one cannot change it any more.
  const Shape shape_;
  const Position ahead_, producer_comeback_, consumer_comeback_;  // N, L, M
  const Position blocks_max_;
  const size_t slots_;
  const uint64_t blocks_offset_;  // of slot 0 in the file
  const std::string name_;

  os::ProcessId self_;
  bool joined_ = false;
  os::Reservation range_;
  mutable Mutex mutex_;
  // This side's head. The other process sees a copy, which is never read back: it might be changed.
  Position head_ GUARDED_BY(mutex_) = -1;
  std::vector<Position> shown_
      GUARDED_BY(mutex_);  // of each slot, the position that is mapped here
  pool::PassedPageTables passed_ GUARDED_BY(mutex_);
  int map_errno_ GUARDED_BY(mutex_) = 0;
  os::ProcessWatch watch_ GUARDED_BY(mutex_);  // the other process, once it was looked for
  pool::LateUnmaps late_;

  fault::Registration registration_;  // last: gone before what the handler uses
};

}  // namespace penstock::stream
