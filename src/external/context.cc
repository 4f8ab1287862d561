#include "external/context.h"

#include <algorithm>

#include "os/memfd.h"
#include "os/memory.h"

namespace penstock::external {
namespace {

constexpr int64_t report_every_ns = 100'000'000;
constexpr int64_t look_every_ns = 5'000'000;

int64_t now_ns() {
  return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
}

uint64_t traffic_bytes() {
  file::Traffic traffic = file::traffic();
  return traffic.bytes_read + traffic.bytes_written;
}

}  // namespace

Context::Context(const SortOptions& run_options)
    : options(run_options),
      traffic_before_bytes_(traffic_bytes()),
      booked_traffic_(file::traffic()),
      booked_until_(std::chrono::steady_clock::now()) {}

Status Context::pulse() {
  if (failed()) return std::unexpected(error());
  if (options.cancel != nullptr && options.cancel->load(std::memory_order_relaxed)) {
    return failure(ErrorCode::interrupted, "finish: a signal asked to stop", "sort");
  }
  if (options.progress) report();
  if (os::memory_file_bytes() > 0) look_at_memory();
  return {};
}

// For the peak (os/memory.h).
void Context::look_at_memory() {
  int64_t due = next_look_ns_.load(std::memory_order_relaxed);
  const int64_t now = now_ns();
  if (now < due || !next_look_ns_.compare_exchange_strong(due, now + look_every_ns)) return;
  (void)os::resident_memory();
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
  set_step(phase);
  total_bytes_.store(total_bytes, std::memory_order_relaxed);
}

void Context::set_step(const char* phase) {
  MutexLock lock(mutex_);
  if (pinned_) return;
  book();
  phase_.store(phase, std::memory_order_relaxed);
}

void Context::pin_phase(const char* phase) {
  set_step(phase);
  MutexLock lock(mutex_);
  pinned_ = true;
}

std::vector<SortPhase> Context::phases() {
  MutexLock lock(mutex_);
  book();
  return phases_;
}

void Context::book() {
  const std::string name = phase_.load(std::memory_order_relaxed);
  auto phase = std::ranges::find(phases_, name, &SortPhase::name);
  if (phase == phases_.end()) phase = phases_.insert(phase, {.name = name});
  const file::Traffic now = file::traffic();
  const auto until = std::chrono::steady_clock::now();
  phase->seconds += std::chrono::duration<double>(until - booked_until_).count();
  phase->bytes_read += now.bytes_read - booked_traffic_.bytes_read;
  phase->bytes_written += now.bytes_written - booked_traffic_.bytes_written;
  phase->seeks += now.switches - booked_traffic_.switches;
  booked_traffic_ = now;
  booked_until_ = until;
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
