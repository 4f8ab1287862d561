#include "external/number_plan.h"

#include <algorithm>
#include <type_traits>

#include "base/bits.h"
#include "external/memory_plan.h"
#include "external/number_type.h"
#include "file/file.h"
#include "sort/in_place_sort.h"
#include "sort/item.h"

// As memory_plan.cc tells. A bucket takes as much of the arena while it is sorted as before; beside
// it its sort takes what sorting::extra_bytes() says, and an output in order has blocks of its own.

namespace penstock::external {
namespace {

constexpr uint32_t buckets_max = 4096;
constexpr uint64_t bucket_bytes_min = 4 * MiB;

// What a sort of so many bytes in place takes beside them.
uint64_t sort_extra_bytes(const SortOptions& options, uint64_t bytes, unsigned threads) {
  return with_number_type(options.format.type, [&]<class T>() {
    // Pairs keep the order of equal keys (number_pipeline.cc).
    return sorting::extra_bytes<T>(
        bytes / sizeof(T),
        {.order = {}, .stable = std::is_same_v<T, sorting::KeyValue>, .threads = threads});
  });
}

NumberPlan plan_within(const SortOptions& options, uint64_t memory_bytes, uint64_t input_bytes,
                       bool known, bool ordered, size_t block_bytes_least) {
  NumberPlan plan;
  plan.read_block_bytes = block_within(memory_bytes / 64);
  const uint64_t ordered_bytes = ordered ? ordered_blocks * plan.read_block_bytes : 0;
  const BucketNeeds needs = {.memory_bytes = memory_bytes,
                             .input_bytes = input_bytes,
                             .sorted_bytes = input_bytes,
                             .threads = options.threads,
                             .block_bytes_least = block_bytes_least,
                             .block_list_bytes = list_bytes_per_block,
                             .buckets_max = buckets_max,
                             .bucket_bytes_min = bucket_bytes_min,
                             .sorters_bytes = [&](const BucketPlan& with, uint64_t bucket_bytes) {
                               return ordered_bytes +
                                      with.sorters * sort_extra_bytes(options, bucket_bytes,
                                                                      with.sorter_threads);
                             }};
  if (known && plan_to_keep(plan, needs)) {
    plan.bucket_bytes_max = input_bytes;
    return plan;
  }
  plan.bucket_bytes_max = plan_to_spill(plan, needs);
  const uint64_t blocks = plan.arena_bytes / plan.block_bytes;
  const uint64_t unkept = plan.write_blocks + plan.buckets + plan.buckets / 2;
  const uint64_t kept_bytes = blocks > unkept ? (blocks - unkept) * plan.block_bytes : 0;
  plan.kept_bytes = std::min(kept_bytes, input_bytes);
  return plan;
}

}  // namespace

uint64_t number_region_bytes(uint64_t bucket_bytes) {
  return round_up(bucket_bytes + file::sector_bytes, file::sector_bytes);
}

NumberPlan plan_numbers(const SortOptions& options, uint64_t memory_bytes, uint64_t input_bytes,
                        bool known, bool ordered) {
  return plan_beside_lists(
      memory_bytes, input_bytes, known, [&](uint64_t bytes, size_t block_bytes_least) {
        return plan_within(options, bytes, input_bytes, known, ordered, block_bytes_least);
      });
}

}  // namespace penstock::external
