#include "memory/stream/block_io.h"

#include "base/check.h"

namespace penstock::stream {

BlockIo::BlockIo(pool::Pool& pool, io::Engine& engine)
    : pool_(pool), engine_(engine), pending_(pool.blocks_max()) {}

// Reads that nobody waited for are waited for here: their blocks are still being filled.
BlockIo::~BlockIo() {
  wait_writes();
  for (Pending& pending : pending_) engine_.wait(pending.request);
}

pool::BlockId BlockIo::take() noexcept {
  for (;;) {
    const pool::BlockId block = pool_.take();
    if (block != pool::no_block) return block;
    if (writes_in_flight_ == 0 || !finish_any()) return pool::no_block;
  }
}

void BlockIo::start(pool::BlockId block, const io::Request& request) noexcept {
  Pending& pending = pending_[block];
  PENSTOCK_CHECK(!pending.request.in_flight && !pending.writing,
                 "a block has one request at a time");
  engine_.wait(pending.request);  // ended, but perhaps as a read that nobody waited for
  pending.request = request;
  pending.request.owner = this;
  pending.request.tag = block;
}

void BlockIo::read(pool::BlockId block, const io::File& file, uint64_t offset,
                   size_t bytes) noexcept {
  start(block, {.operation = io::Operation::read,
                .file = &file,
                .offset = offset,
                .data = pool_.home(block),
                .bytes = bytes});
  engine_.submit(pending_[block].request);
}

int64_t BlockIo::wait_read(pool::BlockId block) noexcept {
  io::Request& request = pending_[block].request;
  engine_.wait(request);
  return request.error != 0 ? -request.error : static_cast<int64_t>(request.done_bytes);
}

void BlockIo::write(pool::BlockId block, const io::File& file, uint64_t offset, size_t skip,
                    size_t bytes, int* error) noexcept {
  start(block, {.operation = io::Operation::write,
                .file = &file,
                .offset = offset,
                .data = pool_.home(block) + skip,
                .bytes = bytes});
  pending_[block].error = error;
  pending_[block].writing = true;
  ++writes_in_flight_;
  engine_.submit(pending_[block].request);
}

void BlockIo::finish_write(Pending& pending) noexcept {
  pending.writing = false;
  --writes_in_flight_;
  if (pending.request.error != 0 && *pending.error == 0) *pending.error = pending.request.error;
  pool_.give(static_cast<pool::BlockId>(pending.request.tag));
}

// Waits for any request to end. A read that ends here stays with its block until wait_read().
bool BlockIo::finish_any() noexcept {
  io::Request* request = engine_.wait_any();
  if (request == nullptr) return false;
  if (request->owner != this) return true;
  Pending& pending = pending_[request->tag];
  if (pending.writing) finish_write(pending);
  return true;
}

void BlockIo::wait_writes(const int* error) noexcept {
  for (Pending& pending : pending_) {
    if (writes_in_flight_ == 0) return;
    if (!pending.writing || (error != nullptr && pending.error != error)) continue;
    engine_.wait(pending.request);
    finish_write(pending);
  }
}

}  // namespace penstock::stream
