#include "files/memory_plan.h"

#include <algorithm>
#include <bit>

#include "os/memory.h"

namespace penstock::files {
namespace {

constexpr uint64_t margin_bytes = 3 * MiB;

}  // namespace

size_t block_within(uint64_t bytes) {
  return std::clamp<size_t>(std::bit_floor(std::max<uint64_t>(bytes, 1)), block_bytes_min,
                            block_bytes_max);
}

uint64_t usable_memory(uint64_t budget_bytes) {
  uint64_t taken = os::resident_memory().bytes + margin_bytes + budget_bytes / 32;
  return budget_bytes > taken ? budget_bytes - taken : 0;
}

uint64_t budget_for(uint64_t usable_bytes) {
  return (os::resident_memory().bytes + margin_bytes + usable_bytes) / 31 * 32 + 32;
}

}  // namespace penstock::files
