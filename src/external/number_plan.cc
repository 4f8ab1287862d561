#include "external/number_plan.h"

#include <algorithm>
#include <type_traits>

#include "base/bits.h"
#include "external/memory_plan.h"
#include "external/number_type.h"
#include "file/engine.h"
#include "file/file.h"
#include "os/memory.h"
#include "record/codec.h"
#include "sort/in_place_sort.h"
#include "sort/item.h"

// What pulls at what:
//
//   many buckets   each is small, so that reading, sorting and writing overlap well; but each holds
//                  a block that is partly filled, and splitting costs more
//   large blocks   requests that the disk likes; but the more of memory is partly filled, the less
//                  of the input can stay there
//
// A bucket is the share of the arena that lets every sorter work on one while one is read, one is
// written and one waits. Blocks are then as large as partly filled ones may be: a sixteenth of the
// arena when the input is not much larger, for then every block that stays in memory is a part of
// the work saved; a quarter when it is.
//
// With little memory for much input buckets are as many as there are blocks of the least size for,
// and larger than their share: fewer sorters, with more threads each. What is even larger than that
// is distributed twice.

namespace penstock::external {
namespace {

constexpr uint32_t buckets_max = 4096;
// So many cuts meet every key twice that has an eighth of the input, and so give it a bucket of its
// own: what is split again becomes eight times smaller at least.
constexpr uint32_t buckets_min = 16;
constexpr uint64_t bucket_bytes_min = 4 * MiB;
// Of the sample's estimate of a bucket.
constexpr double size_error = 1.25;
constexpr uint64_t bytes_per_bucket = 512;       // lines and tables of the distribution
constexpr uint64_t fixed_bytes = 1 * MiB;        // stacks, requests
constexpr uint64_t lists_free_bytes = 64 * KiB;  // of the above, for where blocks lie

// What a sort of so many bytes in place takes beside them.
uint64_t sort_extra_bytes(const SortOptions& options, uint64_t bytes, unsigned threads) {
  return with_number_type(options.format.type, [&]<class T>() {
    // Pairs keep the order of equal keys (number_pipeline.cc).
    return sorting::extra_bytes<T>(
        bytes / sizeof(T),
        {.order = {}, .stable = std::is_same_v<T, sorting::KeyValue>, .threads = threads});
  });
}

size_t block_for(uint64_t partly_filled_bytes, uint32_t buckets) {
  return block_within(partly_filled_bytes / buckets);
}

// What it takes to know where so much lies in temporaries: the number of each block, in lists that
// double as they grow.
uint64_t list_bytes(const NumberPlan& plan, uint64_t input_bytes) {
  return plan.fits ? 0 : input_bytes / plan.block_bytes * 2 * sizeof(uint32_t);
}

NumberPlan plan_within(const SortOptions& options, uint64_t memory_bytes, uint64_t input_bytes,
                       bool known, bool ordered) {
  NumberPlan plan;
  plan.read_block_bytes = block_within(memory_bytes / 64);
  plan.read_blocks = 8;
  const uint64_t reader_bytes = (plan.read_blocks + 1) * plan.read_block_bytes;
  const uint64_t ordered_bytes = ordered ? ordered_blocks * plan.read_block_bytes : 0;

  // What the two phases take beside the arena, and what is left for it.
  auto arena_for = [&](uint32_t buckets, uint64_t bucket_bytes) {
    uint64_t first = reader_bytes + buckets * bytes_per_bucket;
    uint64_t second =
        ordered_bytes + plan.sorters * sort_extra_bytes(options, bucket_bytes, plan.sorter_threads);
    uint64_t requests = memory_bytes / block_bytes_min * sizeof(file::Request);
    uint64_t taken = fixed_bytes + requests + std::max(first, second);
    return memory_bytes > taken ? memory_bytes - taken : 0;
  };

  // All of it in memory?
  if (known) {
    plan.buckets =
        static_cast<uint32_t>(std::clamp<uint64_t>(input_bytes / bucket_bytes_min, 1, buckets_min));
    plan.sorters = std::min<unsigned>(options.threads, plan.buckets);
    plan.sorter_threads = std::max(1u, options.threads / plan.sorters);
    plan.bucket_bytes_max = input_bytes;
    auto each = static_cast<uint64_t>(size_error * static_cast<double>(input_bytes) / plan.buckets);
    uint64_t arena = arena_for(plan.buckets, std::min(each, input_bytes));
    plan.block_bytes = block_for(input_bytes / 32, plan.buckets);
    uint64_t blocks = input_bytes / plan.block_bytes + 2 * plan.buckets + 2;
    if (blocks * plan.block_bytes <= arena) {
      plan.fits = true;
      plan.arena_bytes = blocks * plan.block_bytes;
      plan.kept_bytes = input_bytes;
      return plan;
    }
  }

  plan.sorters = static_cast<unsigned>(std::clamp<uint64_t>(memory_bytes / (2 * usable_bytes_min),
                                                            1, std::max(options.threads, 1u)));
  plan.sorter_threads = std::max(1u, options.threads / plan.sorters);
  uint64_t about = memory_bytes - memory_bytes / 8;
  uint64_t share = about / (plan.sorters + 3);
  auto most =
      static_cast<uint32_t>(std::clamp<uint64_t>(about / 2 / block_bytes_min, 2, buckets_max));
  plan.buckets = static_cast<uint32_t>(std::clamp<uint64_t>(
      static_cast<uint64_t>(size_error * static_cast<double>(input_bytes)) / share,
      std::min(buckets_min, most), most));
  auto each = static_cast<uint64_t>(size_error * static_cast<double>(input_bytes) / plan.buckets);
  if (each > share) {
    plan.sorters =
        static_cast<unsigned>(std::clamp<uint64_t>(about / each, 2, plan.sorters + 1) - 1);
    plan.sorter_threads = std::max(1u, options.threads / plan.sorters);
  }
  // The largest bucket leaves room for what its sort takes.
  uint64_t largest = std::clamp(each, share, about);
  plan.arena_bytes = arena_for(plan.buckets, largest);
  while (region_bytes(largest) > plan.arena_bytes && largest > file::sector_bytes) {
    largest -= largest / 16;
    plan.arena_bytes = arena_for(plan.buckets, largest);
  }
  // A bucket that is larger than the sample said is still sorted, with more of the margin.
  plan.bucket_bytes_max = std::min(2 * largest, plan.arena_bytes - plan.arena_bytes / 64);

  bool much = input_bytes > 4 * plan.arena_bytes;
  plan.block_bytes = block_for(plan.arena_bytes / (much ? 4 : 16), plan.buckets);
  plan.arena_bytes = round_down(plan.arena_bytes, plan.block_bytes);
  plan.bucket_bytes_max = std::min(plan.bucket_bytes_max, plan.arena_bytes - plan.arena_bytes / 64);
  uint64_t blocks = plan.arena_bytes / plan.block_bytes;
  plan.write_blocks = static_cast<uint32_t>(
      std::clamp<uint64_t>(blocks / 16, 4, std::max<uint64_t>(4, 64 * MiB / plan.block_bytes)));
  // Whatever is left of the arena: every bucket fills a block, and some are being written.
  plan.buckets = static_cast<uint32_t>(std::min<uint64_t>(
      plan.buckets, std::max<uint64_t>(1, (blocks - plan.write_blocks) * 3 / 4)));
  uint64_t unkept = plan.write_blocks + plan.buckets + plan.buckets / 2;
  plan.kept_bytes = blocks > unkept ? (blocks - unkept) * plan.block_bytes : 0;
  plan.kept_bytes = std::min(plan.kept_bytes, input_bytes);
  return plan;
}

}  // namespace

uint64_t region_bytes(uint64_t bucket_bytes) {
  return round_up(bucket_bytes + file::sector_bytes, file::sector_bytes);
}

// Less memory makes smaller blocks, and more of them to know of; below the smallest nothing
// changes any more.
NumberPlan plan_numbers(const SortOptions& options, uint64_t memory_bytes, uint64_t input_bytes,
                        bool known, bool ordered) {
  for (uint64_t lists = 0;;) {
    NumberPlan plan = plan_within(options, memory_bytes - lists, input_bytes, known, ordered);
    uint64_t needed = std::min(list_bytes(plan, input_bytes), memory_bytes / 2);
    if (needed <= std::max<uint64_t>(lists, lists_free_bytes)) return plan;
    lists = needed;
  }
}

}  // namespace penstock::external
