#pragma once

// The body of penstock::ProcessStream (see include/penstock/stream.h for use, two_sided.cc
// and process_stream.cc for how it works).

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "memory/pool/late_unmaps.h"
#include "memory/stream/two_sided.h"
#include "os/memfd.h"
#include "os/process.h"
#include "penstock/stream.h"

namespace penstock::stream {

struct SharedStream;  // state in shared memory; process_stream.cc

// One process's side. State that both processes see changes by atomics only, so that a process can
// die between any two instructions; state of this process is guarded by mutex_. The slots of
// TwoSidedCore record what is mapped in this process.
class ProcessStreamCore final : public TwoSidedCore {
 public:
  using Options = ProcessStream::Options;
  using AttachOptions = ProcessStream::AttachOptions;

  static Result<std::unique_ptr<ProcessStreamCore>> create(const Options& options, Side side);
  static Result<std::unique_ptr<ProcessStreamCore>> attach(int fd, Side side,
                                                           const AttachOptions& options);
  ~ProcessStreamCore();

  int fd() const { return file_.fd(); }
  Side side() const { return side_; }
  // A process has the pointer of its own side only.
  std::byte* writer() override { return address(side_, 0); }
  std::byte* reader() override { return address(side_, 0); }
  uint64_t memory_bytes() const override { return rules_.geometry.live_blocks() * block_bytes_; }

  Status finish(uint64_t bytes) override;
  Result<uint64_t> wait_ready(uint64_t offset) override;
  // A process ends its own side only.
  void fail(Side side, Error error) override {
    if (side == side_) TwoSidedCore::fail(side, std::move(error));
  }
  void cancel(Side side, const char* attempted) noexcept override {
    if (side == side_) TwoSidedCore::cancel(side, attempted);
  }

 private:
  static constexpr uint32_t late_views = 32;

  ProcessStreamCore(os::MemoryFile file, os::Reservation header, const StreamGeometry& geometry,
                    Side side, const AttachOptions& options, uint32_t attach_ms_max);
  Status join() EXCLUDES_LOCK(mutex_);

  int show(Slot& slot, Side side, Position position, bool cleared) noexcept override
      REQUIRES_LOCK(mutex_);
  int hide(Slot& slot) noexcept override REQUIRES_LOCK(mutex_);
  void free_page_tables(std::span<std::byte> piece) noexcept override;
  void wait_for_process(uint32_t seen) noexcept override EXCLUDES_LOCK(mutex_);
  void notice_death() noexcept EXCLUDES_LOCK(mutex_);

  const os::MemoryFile file_;
  const os::Reservation header_;
  SharedStream& shared_;
  const Side side_;
  const uint32_t attach_ms_max_;
  const std::chrono::steady_clock::time_point opened_ = std::chrono::steady_clock::now();
  const uint64_t blocks_offset_;  // offset of slot 0 in the file
  bool joined_ = false;
  os::ProcessWatch watch_ GUARDED_BY(mutex_);  // the other process, once it was looked up
  pool::LateUnmaps late_;
};

}  // namespace penstock::stream
