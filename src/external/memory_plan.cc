#include "external/memory_plan.h"

#include <algorithm>
#include <bit>

#include "base/bits.h"
#include "os/memory.h"
#include "sort/radix_sort.h"

namespace penstock::external {
namespace {

constexpr uint64_t margin_bytes = 3 * MiB;
constexpr uint32_t buckets_max = 1024;
// Of the 128 TiB that a process has, for the streams of all sorters.
constexpr uint64_t address_bytes = 48 * TiB;
// So many cuts meet every key twice that has an eighth of the input, and so give it a bucket of its
// own: what is split again becomes eight times smaller at least.
constexpr uint32_t buckets_min = 16;
// The slots of the cache sort and what it gives out, lines, stacks.
constexpr uint64_t sorter_fixed_bytes = 7 * MiB / 2;
// Buckets are cut for this share of what a sorter holds, because a sample only estimates their
// size.
constexpr double fill = 0.8;

// Sorts pairs of a key's prefix and a place.
using Sorter = sorting::RadixSort<sorting::KeyValue>;

}  // namespace

size_t block_within(uint64_t bytes) {
  return std::clamp<size_t>(std::bit_floor(std::max<uint64_t>(bytes, 1)), block_bytes_min,
                            block_bytes_max);
}

uint64_t usable_memory(uint64_t budget_bytes) {
  uint64_t taken = os::resident_memory().bytes + margin_bytes + budget_bytes / 32;
  return budget_bytes > taken ? budget_bytes - taken : 0;
}

uint32_t sort_blocks(const SorterPlan& plan, uint64_t items) {
  return Sorter::blocks_needed(items, plan.sort_block_bytes);
}

bool fits(const SorterPlan& plan, uint64_t bytes, uint64_t items) {
  uint64_t need = plan.file_blocks * plan.file_block_bytes + sorter_fixed_bytes;
  need += uint64_t{sort_blocks(plan, items)} * plan.sort_block_bytes;
  need += round_up(bytes, os::huge_page_bytes);
  return need <= plan.memory_bytes;
}

SorterPlan plan_sorter(const SortOptions& options, uint64_t memory_bytes, double item_bytes,
                       size_t file_block_bytes) {
  SorterPlan plan;
  plan.memory_bytes = memory_bytes;
  plan.address_bytes_max = address_bytes / (uint64_t{options.threads} + 1);
  plan.file_block_bytes =
      file_block_bytes != 0 ? file_block_bytes : block_within(memory_bytes / 128);
  plan.read_ahead_blocks =
      static_cast<uint32_t>(std::clamp<uint64_t>(4 * MiB / plan.file_block_bytes, 4, 16));
  plan.file_blocks = plan.read_ahead_blocks + 4;
  double sorted_bytes = item_bytes + sizeof(sorting::KeyValue);
  auto items_about = static_cast<uint64_t>(static_cast<double>(memory_bytes) / sorted_bytes);
  plan.sort_block_bytes = Sorter::block_bytes_for(items_about);
  uint64_t high = memory_bytes;
  while (plan.bytes_max + 4096 < high) {
    uint64_t middle = plan.bytes_max + (high - plan.bytes_max) / 2;
    auto items = static_cast<uint64_t>(static_cast<double>(middle) / item_bytes);
    (fits(plan, middle, items) ? plan.bytes_max : high) = middle;
  }
  return plan;
}

unsigned sorters_for(unsigned threads, uint64_t memory_bytes) {
  return static_cast<unsigned>(
      std::clamp<uint64_t>(memory_bytes / usable_bytes_min, 1, uint64_t{threads} + 1));
}

DistributionPlan plan_distribution(uint64_t memory_bytes, uint64_t input_bytes,
                                   const SorterPlan& sorter) {
  DistributionPlan plan;
  plan.read_block_bytes = block_within(memory_bytes / 64);
  plan.read_blocks = 8;
  uint64_t left = memory_bytes - (plan.read_blocks + 1) * plan.read_block_bytes;
  // One block for each bucket, and a quarter more for what is being written.
  auto in_flight = [](uint64_t buckets) { return 8 + buckets / 4; };
  uint64_t most = buckets_max;
  while (most > 2 && (most + in_flight(most)) * block_bytes_min > left) --most;
  auto share =
      std::max<uint64_t>(1, static_cast<uint64_t>(fill * static_cast<double>(sorter.bytes_max)));
  plan.buckets = static_cast<uint32_t>(std::clamp<uint64_t>(
      ceil_div(input_bytes, share), std::min<uint64_t>(buckets_min, most), most));
  plan.write_block_bytes = std::min(block_within(left / (plan.buckets + in_flight(plan.buckets))),
                                    sorter.file_block_bytes);
  plan.write_blocks = static_cast<uint32_t>(
      std::min<uint64_t>(left / plan.write_block_bytes,
                         plan.buckets + std::max<uint64_t>(32, in_flight(plan.buckets))));
  return plan;
}

}  // namespace penstock::external
