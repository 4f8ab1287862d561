#include "files/run/memory_plan.h"

#include <algorithm>
#include <bit>
#include <memory>
#include <utility>

#include "base/amounts.h"
#include "base/bits.h"
#include "os/memory.h"

namespace penstock::files {
namespace {

constexpr uint64_t margin_bytes = 3 * MiB;

// Reserve for page tables (a 512th), fragmentation of the heap, and small objects.
constexpr uint64_t reserve_of(uint64_t budget_bytes) {
  return margin_bytes + budget_bytes / 32;
}

}  // namespace

size_t block_within(uint64_t bytes) {
  return std::clamp<size_t>(std::bit_floor(std::max<uint64_t>(bytes, 1)), block_bytes_min,
                            block_bytes_max);
}

RunState run_state(const penstock::FilesOptions& options) {
  RunState state = current_run();
  if (options.memory_scope == MemoryScope::call && state.account == nullptr)
    state.account = std::make_shared<MemoryAccount>(reserve_of(options.memory_bytes));
  if (state.traffic == nullptr) state.traffic = std::make_shared<TrafficAccount>();
  return state;
}

uint64_t usable_memory(uint64_t budget_bytes) {
  const MemoryAccount* const account = current_run().account.get();
  const uint64_t taken = account != nullptr
                             ? account->bytes()
                             : os::resident_memory().bytes + reserve_of(budget_bytes);
  return budget_bytes > taken ? budget_bytes - taken : 0;
}

uint64_t taken_memory() {
  const MemoryAccount* const account = current_run().account.get();
  return account != nullptr ? account->bytes() - account->reserve_bytes()
                            : os::resident_memory().bytes;
}

uint64_t budget_for(uint64_t usable_bytes) {
  return (taken_memory() + margin_bytes + usable_bytes) / 31 * 32 + 32;
}

std::unexpected<Error> too_small_budget(std::string attempted, uint64_t budget_bytes,
                                        uint64_t missing_bytes) {
  // The program's own memory differs from run to run.
  if (missing_bytes > 0) missing_bytes = missing_bytes * 4 / 3 + MiB;
  const uint64_t enough_bytes =
      std::max({budget_bytes, files_memory_bytes_min, budget_for(0)}) + missing_bytes;
  return failure(ErrorCode::out_of_memory, std::move(attempted), "-S",
                 "at least " + std::to_string(ceil_div(enough_bytes, uint64_t{MiB})) + "M");
}

std::string budget_text(uint64_t budget_bytes) {
  if (budget_bytes < MiB) return bytes_text(static_cast<double>(budget_bytes));
  return std::to_string(budget_bytes / MiB) + " MiB";
}

MemoryScope memory_scope() {
  return current_run().account != nullptr ? MemoryScope::call : MemoryScope::process;
}

uint64_t peak_memory() {
  const MemoryAccount* const account = current_run().account.get();
  return account != nullptr ? account->peak_bytes() : os::resident_memory().peak_bytes;
}

}  // namespace penstock::files

namespace penstock {

const char* name_of(MemoryScope scope) {
  return scope == MemoryScope::call ? "call" : "process";
}

}  // namespace penstock
