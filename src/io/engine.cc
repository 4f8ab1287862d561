#include "io/engine.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <string_view>

#include "base/check.h"
#include "io/emulation.h"
#include "io/engine_base.h"
#include "io/outlet.h"
#include "io/system_calls.h"

namespace penstock::io {
namespace {

// Setting up and closing a ring takes 14 us, in which the page cache copies this much.
constexpr uint64_t caller_bytes_max = 512 << 10;

}  // namespace

const char* name_of(EngineKind kind) {
  switch (kind) {
    case EngineKind::automatic:
      return "automatic";
    case EngineKind::io_uring:
      return "io_uring";
    case EngineKind::threads:
      return "threads";
    case EngineKind::caller:
      return "caller";
  }
  return "?";
}

void RequestList::push_back(Request& request) noexcept {
  request.links.next = nullptr;
  request.links.previous = last_;
  (last_ ? last_->links.next : first_) = &request;
  last_ = &request;
}

void RequestList::remove(Request& request) noexcept {
  auto& links = request.links;
  (links.previous ? links.previous->links.next : first_) = links.next;
  (links.next ? links.next->links.previous : last_) = links.previous;
  links.next = links.previous = nullptr;
}

Request* RequestList::pop_front() noexcept {
  Request* request = first_;
  if (request != nullptr) remove(*request);
  return request;
}

EngineBase::EngineBase(unsigned depth) : depth_(depth) {
  on_emulated_.reserve(depth);
}

void EngineBase::submit(Request& request) noexcept {
  PENSTOCK_CHECK(!request.in_flight && !request.links.listed,
                 "a request is submitted once at a time");
  while (active_ >= depth_) advance();
  begin(request, traffic_);
  request.in_flight = true;
  ++active_;
  if (request.links.emulated_end_ns != 0) on_emulated_.push_back(&request);
  Outlet* const outlet = outlet_of(request);
  if (request.bytes == 0) {
    finished(request);
  } else if (outlet == nullptr) {
    start(request);
  } else if (!push(*outlet, request)) {
    serve_here(request);
  }
}

bool EngineBase::push(Outlet& outlet, Request& request) noexcept {
  return outlet.push(request, *this);
}

// Completes a request, or brings one a step further. REQUIRES: one is in flight.
void EngineBase::advance() noexcept {
  if (on_emulated_.empty() || !on_emulated_.front()->links.served) return reap();
  Request& first = *on_emulated_.front();
  wait_for_emulated(first.links.emulated_end_ns);
  on_emulated_.erase(on_emulated_.begin());
  report(first);
}

void EngineBase::report(Request& request) noexcept {
  request.in_flight = false;
  request.links.listed = true;
  --active_;
  ++unreported_;
  completed_.push_back(request);
}

void EngineBase::finished(Request& request) noexcept {
  end(request);
  if (request.links.emulated_end_ns != 0) {
    request.links.served = true;  // advance() reports it
    return;
  }
  report(request);
}

void EngineBase::serve_here(Request& request) noexcept {
  make_calls(request);
  finished(request);
}

void EngineBase::wait(Request& request) noexcept {
  while (request.in_flight) advance();
  if (!request.links.listed) return;
  request.links.listed = false;
  completed_.remove(request);
  --unreported_;
}

Request* EngineBase::wait_any() noexcept {
  while (completed_.empty()) {
    if (active_ == 0) return nullptr;
    advance();
  }
  Request* request = completed_.pop_front();
  request->links.listed = false;
  --unreported_;
  return request;
}

void EngineBase::drain() noexcept {
  while (active_ > 0) advance();
}

Result<std::unique_ptr<Engine>> Engine::open(const EngineOptions& options) {
  if (options.depth == 0)
    return failure(ErrorCode::invalid_argument, "open an I/O engine of depth 0");
  EngineKind kind = options.kind;
  if (kind == EngineKind::automatic) {
    const char* wish = std::getenv("PENSTOCK_IO");
    std::string_view text = wish == nullptr ? "" : wish;
    if (text == "threads") kind = EngineKind::threads;
    if (text == "io_uring") kind = EngineKind::io_uring;
    if (kind == EngineKind::automatic && !text.empty()) {
      return failure(ErrorCode::invalid_argument, "use an I/O engine of this name",
                     "PENSTOCK_IO=" + std::string(text), "threads or io_uring");
    }
  }
  if (kind == EngineKind::automatic && options.total_bytes <= caller_bytes_max)
    kind = EngineKind::caller;
  if (kind == EngineKind::caller) return open_caller_engine(options.depth);
  if (kind == EngineKind::threads) return open_thread_engine(options.depth);
  auto engine = open_uring_engine(options.depth);
  if (!engine && kind == EngineKind::automatic) return open_thread_engine(options.depth);
  return engine;
}

}  // namespace penstock::io
