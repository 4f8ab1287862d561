#pragma once

// Output to a file or pipe from given offsets on: in blocks that are filled and written in turn.

#include <cstring>

#include "files/sort/bucket.h"
#include "io/request_ring.h"

namespace penstock::external {

// Thread safety: one thread at a time, which may change. Invariant: blocks end at multiples of
// their size in the output, so only the first and last request after begin() have partial sectors.
class OutputBlocks {
 public:
  // `total_bytes`: most bytes that will be appended.
  Status open(size_t block_bytes, uint32_t blocks, uint64_t total_bytes);
  bool is_open() const { return ring_.is_open(); }

  // Continues at the target. REQUIRES: all earlier bytes are flushed.
  void begin(const Target& target);
  // Offset of the next appended byte.
  uint64_t offset() const { return target_.offset + static_cast<uint64_t>(at_ - start_); }
  // Waits for a write only when all blocks are being written.
  void append(const char* data, size_t bytes) {
    while (bytes > room_) {
      std::memcpy(at_, data, room_);
      data += room_;
      bytes -= room_;
      at_ += room_;
      room_ = 0;
      next_block();
    }
    std::memcpy(at_, data, bytes);
    at_ += bytes;
    room_ -= bytes;
  }
  // Submits the write of all appended bytes.
  void flush();
  // Waits until all submitted writes have ended.
  Status wait() { return ring_.wait_all(); }
  // Error of the first write that failed.
  Status status() const { return ring_.status(); }

 private:
  void begin_block();
  void next_block();

  size_t block_bytes_ = 0;
  Target target_;               // start of the current block's contents in the output
  std::byte* start_ = nullptr;  // start of these contents in memory
  std::byte* at_ = nullptr;
  size_t room_ = 0;
  io::RequestRing ring_;
};

}  // namespace penstock::external
