#include "external/string_plan.h"

#include <algorithm>

#include "base/bits.h"
#include "external/item_pairs.h"
#include "external/memory_plan.h"
#include "file/engine.h"
#include "file/file.h"
#include "sort/item.h"

// As with numbers (number_plan.cc), with two differences. An item takes a pair of 16 bytes beside
// itself while it is sorted, and none while it is distributed: so of what the arena holds when the
// distribution ends, a part that grows as items become short has to go after all. And what is
// sorted is gathered from there into blocks of the output, of which each sorter has a few.
//
// How long items are is a sample's guess. A bucket that turns out to hold shorter ones than that
// takes more of the arena; what is more than all of it is distributed again.

namespace penstock::external {
namespace {

constexpr uint32_t buckets_max = 2048;
// So many cuts meet every key twice that has an eighth of the input, and so give it a bucket of its
// own: what is split again becomes eight times smaller at least.
constexpr uint32_t buckets_min = 16;
constexpr uint64_t bucket_bytes_min = 1 * MiB;
// Of the sample's estimates.
constexpr double size_error = 1.25;
constexpr double items_error = 1.125;
constexpr uint64_t bytes_per_bucket = 512;       // tables of the distribution
constexpr uint64_t fixed_bytes = 1 * MiB;        // stacks, requests
constexpr uint64_t lists_free_bytes = 64 * KiB;  // of the above, for where blocks lie
// What the least -S leaves before there is a sample.
constexpr uint64_t item_memory_bytes_min = 16 * MiB;
constexpr uint64_t pair_bytes = sizeof(sorting::KeyValue);

// What it takes to know where so much lies in temporaries: the number of each block and how much it
// takes, in lists that double as they grow.
uint64_t list_bytes(const StringPlan& plan, uint64_t input_bytes) {
  return plan.fits ? 0 : input_bytes / plan.block_bytes * 4 * sizeof(uint32_t);
}

StringPlan plan_within(const SortOptions& options, uint64_t memory_bytes, uint64_t input_bytes,
                       double item_bytes, bool known) {
  StringPlan plan;
  // How long an item may be does not depend on what a sample has left of the least memory.
  plan.read_block_bytes = block_within(std::max(memory_bytes, item_memory_bytes_min) / 64);
  plan.read_blocks = 8;
  plan.item_bytes_max = plan.read_block_bytes;
  plan.output_block_bytes = std::min<size_t>(block_within(memory_bytes / 128), 1 * MiB);
  const uint64_t reader_bytes = (plan.read_blocks + 1) * plan.read_block_bytes;
  const double region_share = 1 + static_cast<double>(pair_bytes) / item_bytes;
  const double error = options.format.fixed() ? 1 : items_error;
  const auto all_bytes =
      static_cast<uint64_t>(static_cast<double>(input_bytes) * (1 + error * (region_share - 1)));

  // What the two phases take beside the arena, and what is left for it.
  auto arena_for = [&](uint32_t buckets, uint64_t region_bytes) {
    // As many items as there may be: lines may be much shorter than the sample said.
    const uint64_t least_bytes = options.format.fixed() ? options.format.record_bytes : 2;
    const uint64_t extra =
        sort_pairs_extra_bytes(region_bytes / (least_bytes + pair_bytes), plan.sorter_threads);
    // Where blocks are compressed, a sorter has one more.
    const uint64_t each =
        output_blocks * plan.output_block_bytes + extra + block_within(memory_bytes / 64);
    const uint64_t requests = memory_bytes / block_bytes_min * sizeof(file::Request);
    const uint64_t taken = fixed_bytes + requests +
                           std::max(reader_bytes + buckets * bytes_per_bucket, plan.sorters * each);
    return memory_bytes > taken ? memory_bytes - taken : 0;
  };

  // All of it in memory?
  if (known) {
    plan.buckets =
        static_cast<uint32_t>(std::clamp<uint64_t>(input_bytes / bucket_bytes_min, 1, buckets_min));
    plan.sorters = std::min<unsigned>(options.threads, plan.buckets);
    plan.sorter_threads = std::max(1u, options.threads / plan.sorters);
    const auto each =
        static_cast<uint64_t>(size_error * static_cast<double>(all_bytes) / plan.buckets);
    const uint64_t arena = arena_for(plan.buckets, std::min(each, all_bytes));
    plan.block_bytes = block_within(all_bytes / 32 / plan.buckets);
    const uint64_t blocks = all_bytes / plan.block_bytes + 2 * plan.buckets + 2;
    plan.arena_bytes = blocks * plan.block_bytes;
    plan.region_bytes_max = plan.arena_bytes;
    if (plan.arena_bytes <= arena) {
      plan.fits = true;
      // Items may be as long as what is left, which nothing else needs.
      plan.item_bytes_max +=
          std::min(round_down(arena - plan.arena_bytes, plan.read_block_bytes), input_bytes);
      plan.kept_bytes = input_bytes;
      return plan;
    }
  }

  plan.sorters = static_cast<unsigned>(std::clamp<uint64_t>(memory_bytes / (2 * usable_bytes_min),
                                                            1, std::max(options.threads, 1u)));
  plan.sorter_threads = std::max(1u, options.threads / plan.sorters);
  const uint64_t about = memory_bytes - memory_bytes / 8;
  const uint64_t share = about / (plan.sorters + 3);
  const auto most =
      static_cast<uint32_t>(std::clamp<uint64_t>(about / 2 / block_bytes_min, 2, buckets_max));
  plan.buckets = static_cast<uint32_t>(std::clamp<uint64_t>(
      static_cast<uint64_t>(size_error * static_cast<double>(all_bytes)) / share,
      std::min(buckets_min, most), most));
  const auto each =
      static_cast<uint64_t>(size_error * static_cast<double>(all_bytes) / plan.buckets);
  if (each > share) {
    plan.sorters =
        static_cast<unsigned>(std::clamp<uint64_t>(about / each, 2, plan.sorters + 1) - 1);
    plan.sorter_threads = std::max(1u, options.threads / plan.sorters);
  }
  // The largest bucket leaves room for what its sort takes.
  uint64_t largest = std::clamp(each, share, about);
  plan.arena_bytes = arena_for(plan.buckets, largest);
  while (largest > plan.arena_bytes && largest > file::sector_bytes) {
    largest -= largest / 16;
    plan.arena_bytes = arena_for(plan.buckets, largest);
  }
  const bool much = all_bytes > 4 * plan.arena_bytes;
  plan.block_bytes = block_within(plan.arena_bytes / (much ? 4 : 16) / plan.buckets);
  plan.arena_bytes = round_down(plan.arena_bytes, plan.block_bytes);
  // A bucket that is larger than the sample said is still sorted, with more of the margin.
  plan.region_bytes_max = std::min(2 * largest, plan.arena_bytes - plan.arena_bytes / 64);
  const uint64_t blocks = plan.arena_bytes / plan.block_bytes;
  plan.write_blocks = static_cast<uint32_t>(
      std::clamp<uint64_t>(blocks / 16, 4, std::max<uint64_t>(4, 64 * MiB / plan.block_bytes)));
  // Whatever is left of the arena: every bucket fills a block, and some are being written.
  plan.buckets = static_cast<uint32_t>(std::min<uint64_t>(
      plan.buckets, std::max<uint64_t>(1, (blocks - plan.write_blocks) * 3 / 4)));
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

// Less memory makes smaller blocks, and more of them to know of; below the smallest nothing
// changes any more.
StringPlan plan_strings(const SortOptions& options, uint64_t memory_bytes, uint64_t input_bytes,
                        double item_bytes, bool known) {
  for (uint64_t lists = 0;;) {
    StringPlan plan = plan_within(options, memory_bytes - lists, input_bytes, item_bytes, known);
    const uint64_t needed = std::min(list_bytes(plan, input_bytes), memory_bytes / 2);
    if (needed <= std::max<uint64_t>(lists, lists_free_bytes)) return plan;
    lists = needed;
  }
}

}  // namespace penstock::external
