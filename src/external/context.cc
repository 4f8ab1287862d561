#include "external/context.h"

namespace penstock::external {
namespace {

constexpr int64_t report_every_ns = 100'000'000;

int64_t now_ns() {
  return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
}

uint64_t traffic_bytes() {
  file::Traffic traffic = file::traffic();
  return traffic.bytes_read + traffic.bytes_written;
}

}  // namespace

Context::Context(const SortOptions& run_options)
    : options(run_options), traffic_before_bytes_(traffic_bytes()) {}

Status Context::pulse() {
  if (failed()) return std::unexpected(error());
  if (options.cancel != nullptr && options.cancel->load(std::memory_order_relaxed)) {
    return failure(ErrorCode::interrupted, "finish: a signal asked to stop", "sort");
  }
  if (options.progress) report();
  return {};
}

void Context::report() {
  int64_t due = next_report_ns_.load(std::memory_order_relaxed);
  int64_t now = now_ns();
  if (now < due || !next_report_ns_.compare_exchange_strong(due, now + report_every_ns)) return;
  MutexLock lock(mutex_);
  options.progress({.phase = phase_.load(std::memory_order_relaxed),
                    .done_bytes = traffic_bytes() - traffic_before_bytes_,
                    .total_bytes = total_bytes_.load(std::memory_order_relaxed)});
}

void Context::set_phase(const char* phase, uint64_t total_bytes) {
  phase_.store(phase, std::memory_order_relaxed);
  total_bytes_.store(total_bytes, std::memory_order_relaxed);
}

void Context::fail(Error error) {
  MutexLock lock(mutex_);
  if (!error_) error_ = std::move(error);
  failed_.store(true, std::memory_order_release);
}

Error Context::error() {
  MutexLock lock(mutex_);
  return *error_;
}

}  // namespace penstock::external
