#include "external/string_plan.h"

#include <algorithm>

#include "base/bits.h"
#include "external/item_pairs.h"
#include "external/memory_plan.h"
#include "file/file.h"
#include "sort/item.h"

// As memory_plan.cc tells, with two differences. An item takes a pair of 16 bytes beside itself
// while it is sorted, and none while it is distributed: so of what the arena holds when the
// distribution ends, a part that grows as items become short has to go after all. And what is
// sorted is gathered from there into blocks of the output, of which each sorter has a few.
//
// How long items are is a sample's guess. A bucket that turns out to hold shorter ones than that
// takes more of the arena; what is more than all of it is distributed again.

namespace penstock::external {
namespace {

constexpr uint32_t buckets_max = 2048;
constexpr uint64_t bucket_bytes_min = 1 * MiB;
// Of the sample's estimate of items.
constexpr double items_error = 1.125;
// What the least -S leaves before there is a sample.
constexpr uint64_t item_memory_bytes_min = 16 * MiB;
constexpr uint64_t pair_bytes = sizeof(sorting::KeyValue);

StringPlan plan_within(const SortOptions& options, uint64_t memory_bytes, uint64_t input_bytes,
                       double item_bytes, bool known, size_t block_bytes_least) {
  StringPlan plan;
  // How long an item may be does not depend on what a sample has left of the least memory.
  plan.read_block_bytes = block_within(std::max(memory_bytes, item_memory_bytes_min) / 64);
  plan.item_bytes_max = plan.read_block_bytes;
  plan.output_block_bytes = std::min<size_t>(block_within(memory_bytes / 128), 1 * MiB);
  const double region_share = 1 + static_cast<double>(pair_bytes) / item_bytes;
  const double error = options.format.fixed() ? 1 : items_error;
  const BucketNeeds needs = {
      .memory_bytes = memory_bytes,
      .input_bytes = input_bytes,
      .sorted_bytes = static_cast<uint64_t>(static_cast<double>(input_bytes) *
                                            (1 + error * (region_share - 1))),
      .threads = options.threads,
      .block_bytes_least = block_bytes_least,
      .buckets_max = buckets_max,
      .bucket_bytes_min = bucket_bytes_min,
      .sorters_bytes = [&](const BucketPlan& with, uint64_t region_bytes) {
        // As many items as there may be: lines may be much shorter than the sample said.
        const uint64_t least_bytes = options.format.fixed() ? options.format.record_bytes : 2;
        const uint64_t extra =
            sort_pairs_extra_bytes(region_bytes / (least_bytes + pair_bytes), with.sorter_threads);
        // Where blocks are compressed, a sorter has one more.
        return with.sorters *
               (output_blocks * plan.output_block_bytes + extra + block_within(memory_bytes / 64));
      }};
  if (known) {
    if (auto left_bytes = plan_to_keep(plan, needs)) {
      plan.region_bytes_max = plan.arena_bytes;
      // Items may be as long as what is left, which nothing else needs.
      plan.item_bytes_max += std::min(round_down(*left_bytes, plan.read_block_bytes), input_bytes);
      return plan;
    }
  }
  plan.region_bytes_max = plan_to_spill(plan, needs);
  const uint64_t blocks = plan.arena_bytes / plan.block_bytes;
  const uint64_t unkept = plan.buckets + plan.buckets / 2;
  const uint64_t kept = blocks > unkept ? (blocks - unkept) * plan.block_bytes : 0;
  plan.kept_bytes =
      std::min(static_cast<uint64_t>(static_cast<double>(kept) / region_share), input_bytes);
  return plan;
}

}  // namespace

uint64_t pairs_offset(uint64_t bytes) {
  return round_up(bytes, 64);
}

uint64_t string_region_bytes(uint64_t bytes, uint64_t items) {
  return round_up(
      std::max(pairs_offset(bytes) + items * pair_bytes, round_up(bytes, file::sector_bytes)),
      file::sector_bytes);
}

StringPlan plan_strings(const SortOptions& options, uint64_t memory_bytes, uint64_t input_bytes,
                        double item_bytes, bool known) {
  return plan_beside_lists(
      memory_bytes, input_bytes, known, [&](uint64_t bytes, size_t block_bytes_least) {
        return plan_within(options, bytes, input_bytes, item_bytes, known, block_bytes_least);
      });
}

}  // namespace penstock::external
