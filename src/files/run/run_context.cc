#include "files/run/run_context.h"

#include <algorithm>
#include <utility>

#include "files/run/memory_plan.h"
#include "io/emulation.h"
#include "io/temporaries.h"
#include "os/memfd.h"
#include "os/memory.h"

namespace penstock::files {
namespace {

constexpr int64_t report_every_ns = 100'000'000;
constexpr int64_t look_every_ns = 5'000'000;

// True if `every_ns` have passed since any thread last got true.
bool is_due(std::atomic<int64_t>& next_ns, int64_t every_ns) {
  int64_t due = next_ns.load(std::memory_order_relaxed);
  const int64_t now =
      std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
  return now >= due && next_ns.compare_exchange_strong(due, now + every_ns);
}

}  // namespace

RunContext::RunContext(const FilesOptions& options, const char* verb)
    : files_(options), verb_(verb) {}

Status RunContext::pulse() {
  if (failed()) return std::unexpected(error());
  // Relaxed: the flag publishes no other data.
  if (files_.cancel != nullptr && files_.cancel->load(std::memory_order_relaxed))
    return failure(ErrorCode::interrupted, "finish: it was asked to stop", verb_);
  if (files_.progress && is_due(next_report_ns_, report_every_ns)) report();
  // The peak is only known if resident_memory() is called every few milliseconds (os/memory.h).
  if (os::memory_file_bytes() > 0 && is_due(next_look_ns_, look_every_ns))
    (void)os::resident_memory();
  return {};
}

uint64_t RunContext::done_bytes() const {
  const io::Traffic now = io::traffic();
  return now.bytes_read - traffic_before_.bytes_read + now.bytes_written -
         traffic_before_.bytes_written;
}

void RunContext::report() {
  MutexLock lock(mutex_);
  const uint64_t done_bytes = this->done_bytes();
  // A plan is an estimate: the total grows with a run that moves more.
  const uint64_t total_bytes = total_bytes_.load(std::memory_order_relaxed);
  files_.progress({.phase = phase_.load(std::memory_order_relaxed),
                   .done_bytes = done_bytes,
                   .total_bytes = total_bytes == 0 ? 0 : std::max(total_bytes, done_bytes),
                   .seconds_left = seconds_left(done_bytes),
                   .input_bytes = input_bytes_.load(std::memory_order_relaxed)});
}

void RunContext::expect(std::vector<ExpectedPhase> phases) {
  MutexLock lock(mutex_);
  expected_ = std::move(phases);
}

// The estimate scales the rest of the plan by elapsed / expected time of what is done.
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

void RunContext::fill(RunStats& stats, const std::vector<std::string>& temp_directories) const {
  const io::Traffic now = io::traffic();
  stats.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - started_).count();
  stats.bytes_read = now.bytes_read - traffic_before_.bytes_read;
  stats.bytes_written = now.bytes_written - traffic_before_.bytes_written;
  stats.seeks = now.switches - traffic_before_.switches;
  stats.temp_memory_bytes = io::temporaries_in_memory(temp_directories, stats.temp_bytes);
  stats.memory_scope = memory_scope();
  stats.peak_rss_bytes = os::resident_memory().peak_bytes;
  stats.peak_bytes =
      stats.memory_scope == MemoryScope::process ? stats.peak_rss_bytes : peak_memory();
  stats.budget_bytes = files_.memory_bytes;
  if (auto emulated = io::emulated()) stats.emulated = emulated->describe();
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
