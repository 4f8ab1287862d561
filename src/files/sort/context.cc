#include "files/sort/context.h"

#include <time.h>

#include <algorithm>
#include <iterator>
#include <utility>

namespace penstock::external {
namespace {

// Processor time of all threads of this process.
double processor_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

}  // namespace

Context::Context(const SortOptions& run_options)
    : files::RunContext(run_options, "sort"),
      options(run_options),
      booked_traffic_(io::traffic()),
      booked_until_(std::chrono::steady_clock::now()),
      booked_processor_s_(processor_seconds()) {
  show("sample");
}

void Context::set_phase(const char* phase, uint64_t total_bytes) {
  set_step(phase);
  expect(total_bytes);
}

void Context::set_step(const char* phase) {
  MutexLock lock(mutex_);
  if (pinned_) return;
  book();
  phase_ = phase;
  show(phase);
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

void Context::add_staircases(std::vector<Staircase> staircases) {
  MutexLock lock(mutex_);
  std::ranges::move(staircases, std::back_inserter(staircases_));
}

std::vector<Staircase> Context::staircases() {
  MutexLock lock(mutex_);
  return staircases_;
}

void Context::book() {
  const std::string name = phase_;
  auto phase = std::ranges::find(phases_, name, &SortPhase::name);
  if (phase == phases_.end()) phase = phases_.insert(phase, {.name = name});
  const io::Traffic now = io::traffic();
  const auto until = std::chrono::steady_clock::now();
  phase->seconds += std::chrono::duration<double>(until - booked_until_).count();
  phase->bytes_read += now.bytes_read - booked_traffic_.bytes_read;
  phase->bytes_written += now.bytes_written - booked_traffic_.bytes_written;
  phase->seeks += now.switches - booked_traffic_.switches;
  const double processor_s = processor_seconds();
  phase->processor_seconds += processor_s - booked_processor_s_;
  booked_traffic_ = now;
  booked_until_ = until;
  booked_processor_s_ = processor_s;
}

}  // namespace penstock::external
