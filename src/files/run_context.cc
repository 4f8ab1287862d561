#include "files/run_context.h"

#include <algorithm>
#include <utility>

#include "file/engine.h"
#include "os/memfd.h"
#include "os/memory.h"

namespace penstock::files {
namespace {

constexpr int64_t report_every_ns = 100'000'000;
constexpr int64_t look_every_ns = 5'000'000;

// Whether so much time has gone by since the last time, of whichever thread.
bool is_due(std::atomic<int64_t>& next_ns, int64_t every_ns) {
  int64_t due = next_ns.load(std::memory_order_relaxed);
  const int64_t now =
      std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
  return now >= due && next_ns.compare_exchange_strong(due, now + every_ns);
}

uint64_t traffic_bytes() {
  file::Traffic traffic = file::traffic();
  return traffic.bytes_read + traffic.bytes_written;
}

}  // namespace

RunContext::RunContext(const FilesOptions& options, const char* verb)
    : files_(options), verb_(verb), traffic_before_bytes_(traffic_bytes()) {}

Status RunContext::pulse() {
  if (failed()) return std::unexpected(error());
  // Relaxed: nothing is handed over with it.
  if (files_.cancel != nullptr && files_.cancel->load(std::memory_order_relaxed))
    return failure(ErrorCode::interrupted, "finish: it was asked to stop", verb_);
  if (files_.progress && is_due(next_report_ns_, report_every_ns)) report();
  // For the peak (os/memory.h).
  if (os::memory_file_bytes() > 0 && is_due(next_look_ns_, look_every_ns))
    (void)os::resident_memory();
  return {};
}

void RunContext::report() {
  MutexLock lock(mutex_);
  const uint64_t done_bytes = traffic_bytes() - traffic_before_bytes_;
  files_.progress({.phase = phase_.load(std::memory_order_relaxed),
                   .done_bytes = done_bytes,
                   .total_bytes = total_bytes_.load(std::memory_order_relaxed),
                   .seconds_left = seconds_left(done_bytes)});
}

void RunContext::expect(std::vector<ExpectedPhase> phases) {
  MutexLock lock(mutex_);
  expected_ = std::move(phases);
}

// What is done should have taken `expected` seconds, and took `elapsed`; the rest will be as wrong.
std::optional<double> RunContext::seconds_left(uint64_t done_bytes) const {
  double expected = 0, total = 0;
  for (const ExpectedPhase& phase : expected_) {
    total += phase.seconds;
    const uint64_t done = std::min(done_bytes, phase.bytes);
    if (phase.bytes > 0)
      expected += phase.seconds * static_cast<double>(done) / static_cast<double>(phase.bytes);
    done_bytes -= done;
  }
  const double elapsed =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - started_).count();
  if (!(expected > 0.01 * total)) return {};
  return (total - expected) * elapsed / expected;
}

void RunContext::fail(Error error) {
  MutexLock lock(mutex_);
  if (!error_) error_ = std::move(error);
  failed_.store(true, std::memory_order_release);
}

Error RunContext::error() {
  MutexLock lock(mutex_);
  return *error_;
}

}  // namespace penstock::files
