#include "file/request_ring.h"

#include <utility>

#include "base/check.h"

namespace penstock::file {

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

}  // namespace penstock::file
