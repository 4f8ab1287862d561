#pragma once

// One plain pointer whose stores end in a file: the fault at a new block hands the full ones to
// asynchronous writes.
//
// The producer writes almost sequentially: after touching block x it may come back to blocks >= x -
// comeback_blocks, and must leave no block untouched (a skipped block is written as zeros; bytes
// left out inside a touched block are undefined). finish(bytes) sets the length. Going further back
// works in a plain file and is slow: the block is read and written again. Libraries do that
// unasked: glibc's memcpy stores the first bytes of a large copy last.
//
// It writes [offset, ...) of the file, for any offset: the pointer has the same offset within a
// sector as the file's, so that all but the first and last sector are direct. REQUIRES of the pool:
// comeback_blocks + 1 blocks for each open writer, two more to go back further, and as many more as
// writes shall be in flight. Errors: ErrorPolicy; with zeros, writes after an error are dropped and
// finish() reports it. An access that breaks a rule (a store beyond bytes_max, after finish(), or,
// into a pipe, behind the comeback window) stops or recovers. Thread safety: one producer thread.

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "memory/fault/registry.h"
#include "memory/stream/block_io.h"
#include "memory/stream/file_reader.h"
#include "memory/stream/stream_handler.h"

namespace penstock::stream {

class FileWriterCore final : public StreamHandler {
 public:
  struct Options {
    uint64_t bytes_max = 0;  // address space to reserve: the most that can be written
    uint32_t comeback_blocks = 0;
    ErrorPolicy policy = ErrorPolicy::zeros;
  };
  // REQUIRES: `io` and the file outlive the writer.
  static Result<std::unique_ptr<FileWriterCore>> open(BlockIo& io, const io::File& file,
                                                      uint64_t offset, const Options& options);
  ~FileWriterCore();  // without finish(), drops blocks not yet handed over

  std::byte* begin() const { return begin_; }
  // Hands over the first `bytes`, waits until they are written, and ends the stream. Errors:
  // invalid_argument for an impossible end; then nothing has changed.
  Status finish(uint64_t bytes);
  bool has_ended() const { return ended_; }
  // Returns the first failed write so far, if any; does not wait.
  Status status() const;
  // The first half of finish(), for many writers on one BlockIo: flush() hands over, finish() then
  // waits. REQUIRES: a possible end.
  void flush(std::byte* end);

  fault::Outcome on_fault(const fault::Fault& fault) noexcept override;
  Result<size_t> prepare(std::byte* address, size_t bytes, fault::Access access) override;

 private:
  Label label() const noexcept override { return {subject(), options_.policy}; }

  struct Slot {
    uint64_t block;
    pool::BlockId id;
  };

  FileWriterCore(BlockIo& io, const io::File& file, uint64_t offset, const Options& options);
  std::byte* address_of(uint64_t block) const { return range_.begin() + block * block_bytes_; }
  Slot* find(uint64_t block) noexcept;
  std::optional<Failure> serve(uint64_t block) noexcept;
  bool can_end_at(uint64_t bytes) const noexcept;
  pool::BlockId bring_home(uint64_t block, int& error) noexcept;
  void hand_over(uint64_t block, size_t bytes) noexcept;
  void hand_over_reopened(size_t keep) noexcept;
  pool::BlockId reopen(uint64_t block) noexcept;
  pool::BlockId take() noexcept;
  void hand_over_below(uint64_t block) noexcept;
  Failure failure(int error) const noexcept;
  const char* subject() const noexcept { return file_.path().c_str(); }

  BlockIo& io_;
  const size_t block_bytes_;
  const io::File& file_;
  const Options options_;
  const size_t head_bytes_;     // bytes of block 0 in front of begin()
  const uint64_t file_offset_;  // offset of block 0, whole sectors
  os::Reservation range_;
  std::byte* begin_ = nullptr;
  uint64_t next_block_ = 0;  // blocks below are handed over
  bool ended_ = false;
  int error_ = 0;  // the first errno; requests in flight refer to it
  pool::PassedPageTables passed_;
  std::vector<Slot> slots_;  // mapped blocks, in the order of their faults; capacity is reserved
};

}  // namespace penstock::stream
