#include "external/bucket/output_blocks.h"

#include <algorithm>

#include "base/bits.h"

namespace penstock::external {

Status OutputBlocks::open(size_t block_bytes, uint32_t blocks, uint64_t total_bytes) {
  block_bytes_ = block_bytes;
  const uint64_t bytes = blocks * block_bytes;
  auto memory = os::Reservation::reserve(bytes);
  if (!memory) return std::unexpected(memory.error());
  memory->charge();
  memory_ = std::move(*memory);
  if (int error = os::commit(memory_.begin(), bytes); error != 0)
    return system_error(error, "commit memory for the output", "sort", "a smaller -S");
  if (std::min(bytes, total_bytes) >= os::huge_page_bytes)
    (void)os::advise_huge(memory_.begin(), round_down(bytes, os::huge_page_bytes), true);
  requests_.resize(blocks);
  pending_.resize(blocks);
  auto engine = file::Engine::open({.depth = blocks, .total_bytes = total_bytes});
  if (!engine) return std::unexpected(engine.error());
  engine_ = std::move(*engine);
  return {};
}

void OutputBlocks::begin(const Target& target) {
  target_ = target;
  begin_block();
}

// From the place in it that the output's offset has. What lies in front of the first whole sector is a
// request of its own, since the system takes it by another way: the second step of a request is
// submitted behind those that come after it, and the disk would go back for it.
void OutputBlocks::begin_block() {
  finish(block_);
  const size_t inside = target_.offset % block_bytes_;
  start_ = at_ = memory_.begin() + block_ * block_bytes_ + inside;
  const size_t to_sector = round_up(inside, file::sector_bytes) - inside;
  room_ = to_sector > 0 ? to_sector : block_bytes_ - inside;
}

void OutputBlocks::flush() {
  const auto bytes = static_cast<size_t>(at_ - start_);
  if (bytes == 0) return;
  file::Request& request = requests_[block_];
  request = {.operation = file::Operation::write,
             .file = target_.file,
             .offset = target_.offset,
             .data = start_,
             .bytes = bytes};
  if (!error_) {
    engine_->submit(request);
    pending_[block_] = true;
  }
  target_.offset += bytes;
  start_ = at_;
  room_ = 0;
  block_ = (block_ + 1) % static_cast<uint32_t>(requests_.size());
}

void OutputBlocks::next_block() {
  flush();
  begin_block();
}

void OutputBlocks::finish(uint32_t block) {
  if (!pending_[block]) return;
  file::Request& request = requests_[block];
  engine_->wait(request);
  pending_[block] = false;
  if (error_) return;
  if (request.error != 0) {
    error_ = file::error_of(request);
  } else if (request.done_bytes != request.bytes) {
    error_ = failure(ErrorCode::io, "write all of it", request.file->path()).error();
  }
}

Status OutputBlocks::wait() {
  for (uint32_t block = 0; block < requests_.size(); ++block) finish(block);
  return status();
}

Status OutputBlocks::status() const {
  if (error_) return std::unexpected(*error_);
  return {};
}

}  // namespace penstock::external
