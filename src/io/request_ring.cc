#include "io/request_ring.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "io/file.h"

namespace penstock::io {

Status RequestRing::open(const RequestRingOptions& options) {
  PENSTOCK_CHECK(!is_open(), "a ring is opened once");
  PENSTOCK_CHECK(options.buffer_bytes % sector_bytes == 0, "buffers are whole sectors");
  if (options.buffer_bytes > 0) {
    auto buffers = os::huge_buffer(options.depth * options.buffer_bytes, options.subject,
                                   options.hint, options.total_bytes);
    if (!buffers) return std::unexpected(buffers.error());
    buffers_ = std::move(*buffers);
    buffer_bytes_ = options.buffer_bytes;
  }
  slots_.resize(options.depth);
  for (Request& slot : slots_) queue_.push_back(&slot);
  auto engine = Engine::open(
      {.depth = options.depth, .kind = options.kind, .total_bytes = options.total_bytes});
  if (!engine) return std::unexpected(engine.error());
  engine_ = std::move(*engine);
  return {};
}

std::byte* RequestRing::next_buffer() const {
  const auto slot = static_cast<size_t>(queue_[begun_ % queue_.size()] - slots_.data());
  return buffers_.begin() + slot * buffer_bytes_;
}

void RequestRing::submit(const Request& request) {
  PENSTOCK_CHECK(is_open() && !full(), "a request has a free slot");
  if (error_) return;
  Request& slot = *queue_[begun_++ % queue_.size()];
  slot = request;
  engine_->submit(slot);
}

const Request& RequestRing::wait_oldest() {
  PENSTOCK_CHECK(!idle(), "a request is in flight");
  Request& oldest = *queue_[ended_ % queue_.size()];
  engine_->wait(oldest);
  return take(oldest);
}

const Request& RequestRing::wait_any() {
  Request* const first = engine_->wait_any();
  PENSTOCK_CHECK(first != nullptr, "a request is in flight");
  return take(*first);
}

const Request& RequestRing::take(Request& request) {
  queue_[ended_++ % queue_.size()] = &request;
  if (error_) return request;
  if (request.error != 0) {
    error_ = error_of(request);
  } else if (request.operation == Operation::write && request.done_bytes < request.bytes) {
    error_ = failure(ErrorCode::io, "write all of it", request.file->path()).error();
  }
  return request;
}

Status RequestRing::wait_all() {
  while (!idle()) (void)wait_any();
  return status();
}

Status RequestRing::status() const {
  if (error_) return std::unexpected(*error_);
  return {};
}

Status read_ahead(const File& file, uint64_t begin, uint64_t end, size_t piece_bytes,
                  const std::function<Status(uint64_t, std::span<const std::byte>)>& use) {
  constexpr unsigned reads_in_flight = 4;
  RequestRing ring;
  if (auto opened = ring.open(
          {.depth = reads_in_flight, .buffer_bytes = piece_bytes, .total_bytes = end - begin});
      !opened)
    return opened;
  for (uint64_t next = begin; next < end || !ring.idle();) {
    if (next < end && !ring.full()) {
      const uint64_t bytes = std::min<uint64_t>(piece_bytes, end - next);
      ring.submit({.file = &file, .offset = next, .data = ring.next_buffer(), .bytes = bytes});
      next += bytes;
      continue;
    }
    const Request& read = ring.wait_oldest();
    if (auto status = ring.status(); !status) return status;
    if (auto used = use(read.offset, {read.data, read.done_bytes}); !used) return used;
    if (read.done_bytes < read.bytes)
      return failure(ErrorCode::io, "read to the end: it became shorter meanwhile", file.path());
  }
  return {};
}

}  // namespace penstock::io
