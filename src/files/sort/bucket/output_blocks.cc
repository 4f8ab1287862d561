#include "files/sort/bucket/output_blocks.h"

#include "base/bits.h"

namespace penstock::external {

Status OutputBlocks::open(size_t block_bytes, uint32_t blocks, uint64_t total_bytes) {
  block_bytes_ = block_bytes;
  return ring_.open({.depth = blocks,
                     .buffer_bytes = block_bytes,
                     .total_bytes = total_bytes,
                     .subject = "sort",
                     .hint = "a smaller -S"});
}

void OutputBlocks::begin(const Target& target) {
  target_ = target;
  begin_block();
}

// Begins a block at the position in it that the output's offset has. Bytes in front of the first
// whole sector are a request of their own, because the system writes them in a second step, which
// would be submitted behind later requests, and the disk would go back for it.
void OutputBlocks::begin_block() {
  if (ring_.full()) (void)ring_.wait_oldest();
  const size_t inside = target_.offset % block_bytes_;
  start_ = at_ = ring_.next_buffer() + inside;
  const size_t to_sector = round_up(inside, io::sector_bytes) - inside;
  room_ = to_sector > 0 ? to_sector : block_bytes_ - inside;
}

void OutputBlocks::flush() {
  const auto bytes = static_cast<size_t>(at_ - start_);
  if (bytes == 0) return;
  ring_.submit({.operation = io::Operation::write,
                .file = target_.file,
                .offset = target_.offset,
                .data = start_,
                .bytes = bytes});
  target_.offset += bytes;
  start_ = at_;
  room_ = 0;
}

void OutputBlocks::next_block() {
  flush();
  begin_block();
}

}  // namespace penstock::external
