#include "base/run_scope.h"

#include <algorithm>

#include "base/check.h"
#include "base/raise_to.h"

namespace penstock {
namespace {

const RunState no_run;
// The innermost scope's run. A pointer, because the C library ends the process if it has no memory
// to register a thread's object for destruction.
constinit thread_local const RunState* current = &no_run;
constinit TrafficAccount traffic_outside_runs;

}  // namespace

// Each thread adds its own bytes before it reads the sum, so one of two concurrent calls sees both.
void MemoryAccount::charge(uint64_t bytes, MemoryKind kind) noexcept {
  (kind == MemoryKind::planned ? planned_bytes_ : small_bytes_).fetch_add(bytes);
  raise_to(peak_bytes_, this->bytes());
}

void MemoryAccount::release(uint64_t bytes, MemoryKind kind) noexcept {
  const uint64_t before =
      (kind == MemoryKind::planned ? planned_bytes_ : small_bytes_).fetch_sub(bytes);
  PENSTOCK_CHECK(before >= bytes, "released memory was charged before");
}

uint64_t MemoryAccount::bytes() const noexcept {
  return planned_bytes_.load() + std::max(reserve_bytes_, small_bytes_.load());
}

const RunState& current_run() noexcept {
  return *current;
}

TrafficAccount& current_traffic() noexcept {
  return current->traffic != nullptr ? *current->traffic : traffic_outside_runs;
}

RunScope::RunScope(RunState state) noexcept
    : state_(std::move(state)), before_(std::exchange(current, &state_)) {}

RunScope::~RunScope() {
  current = before_;
}

MemoryCharge::MemoryCharge(uint64_t bytes, MemoryKind kind) noexcept
    : account_(current->account), kind_(kind) {
  set(bytes);
}

void MemoryCharge::set(uint64_t bytes) noexcept {
  if (account_ == nullptr) return;
  if (bytes > bytes_) account_->charge(bytes - bytes_, kind_);
  if (bytes < bytes_) account_->release(bytes_ - bytes, kind_);
  bytes_ = bytes;
}

}  // namespace penstock
