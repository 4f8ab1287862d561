#include "files/sort/plan/bucket_plan.h"

#include <algorithm>
#include <bit>
#include <optional>
#include <type_traits>

#include "base/bits.h"
#include "files/sort/bucket/bucket_reader.h"
#include "files/sort/bucket/item_pairs.h"
#include "files/sort/number_type.h"
#include "io/engine.h"
#include "io/file.h"
#include "memory/stream/file_reader.h"
#include "sorting/sort/in_place/in_place_sort.h"

// How a sort divides its memory. The forces that pull at it:
//
//   many buckets   each is small, so that reading, sorting and writing overlap well; but each holds
//                  a block that is partly filled, and splitting costs more
//   large blocks   make large, fast requests; but more of the memory is partly filled, and less of
//                  the input can stay there
//
// A bucket is the share of the arena that lets every sorter work on one bucket while one more is
// read, one is written and one waits. Blocks are then as large as partly filled ones may be: a
// sixteenth of the arena if the input is not much larger, because every block that stays in memory
// saves a part of the work; a quarter if it is.
//
// If there is little memory for much input, blocks of the least size limit the number of buckets,
// and these are larger than their share: fewer sorters work on them, with more threads each. A
// bucket that does not fit even so is distributed twice.
//
// Numbers take the same arena memory while they are sorted as before. Beside the arena their sort
// takes sorting::extra_bytes(), and an output in order has blocks of its own. A record or line
// takes a pair of 16 bytes beside itself while it is sorted, and none while it is distributed: a
// part of what the arena holds when the distribution ends must be spilled after all, the more the
// shorter the items are. The sorted items are gathered from the arena into blocks of the output, of
// which each sorter has a few. The length of items is estimated from a sample. A bucket of shorter
// items takes more of the arena; one that exceeds all of it is distributed again.
//
// The blocks in temporaries are kept in lists, a few bytes for each block. For an input some
// thousand times as large as the memory that matters: a terabyte in blocks of 64 KiB has 16 million
// of them. Larger blocks have shorter lists, but suffice for fewer buckets. So plans are made for
// each block size, and the best is the one with the fewest passes; among those, the one with the
// smallest blocks whose lists take no more than an eighth of the memory. If no size will do, the
// memory is too small, and the sort does not begin.

namespace penstock::external {
namespace {

// Least number of buckets. Their cuts meet every key twice that makes up an eighth of the input,
// and so give that key its own bucket: every other bucket has at most an eighth.
constexpr uint32_t buckets_min = 16;
// Safety factors on a bucket's estimated size and on its estimated number of items.
constexpr double size_error = 1.25;
constexpr double items_error = 1.125;
constexpr uint64_t fixed_bytes = 1 * MiB;  // stacks, requests, lists_free_bytes
// Least number of buckets of a plan with larger blocks, and most levels of any plan.
constexpr uint32_t large_block_buckets_min = 8;
constexpr uint32_t splits_max = 6;
// List entry of a piece of a bucket that is distributed again; the reader has a copy of the list.
constexpr uint64_t extent_list_bytes = 2 * sizeof(stream::Extent);
// Least memory that lists leave for everything else.
constexpr uint64_t beside_lists_bytes_min = files::planned_bytes_min / 2;
// Planned length of a pipe's input, in memories, unless its lists exceed `1 / lists_divisor` of the
// memory, in which case less is planned for. The sort fails if its lists then outgrow the plan.
constexpr uint64_t pipe_listed_multiple = 2048;
constexpr uint64_t lists_divisor = 8;
// Least memory that the longest item is derived from, as the least -S has it before the sample.
constexpr uint64_t item_memory_bytes_min = 16 * MiB;
constexpr uint64_t pair_bytes = sizeof(sorting::KeyValue);

// Constraints on a plan.
struct Needs {
  const SortOptions& options;
  const BucketInput& input;
  uint64_t memory_bytes;
  size_t block_bytes_least;
  double region_share = 1;    // sorted bytes over input bytes, of an item in the arena
  uint64_t sorted_bytes = 0;  // most arena bytes that all of the input takes while it is sorted

  bool numeric() const { return options.format.numeric(); }
  uint32_t buckets_max() const { return numeric() ? 4096 : 2048; }
  // Least size of a bucket, in bytes of the input.
  uint64_t bucket_bytes_min() const { return numeric() ? 4 * MiB : 1 * MiB; }
};

// Memory of a sorter beside the arena.
uint64_t sorter_bytes(const Needs& needs, uint64_t region_bytes, unsigned threads) {
  const items::Format& format = needs.options.format;
  if (format.numeric()) {
    return with_number_type(format.type, [&]<class T>() {
      // Pairs keep the order of equal keys (number_sorter.cc).
      return sorting::extra_bytes<T>(
          region_bytes / sizeof(T),
          {.order = {}, .stable = std::is_same_v<T, sorting::KeyValue>, .threads = threads});
    });
  }
  // Plans for the most items that the region can hold: lines may be much shorter than the sample's.
  // A sorter of compressed blocks has one more block.
  const uint64_t least_bytes =
      format.fixed() ? format.record_bytes : format.framing().short_item_bytes;
  return sort_pairs_extra_bytes(format, region_bytes / (least_bytes + pair_bytes), threads) +
         files::block_within(needs.memory_bytes / 64);
}

// Memory of the second phase beside the arena, with buckets that take `region_bytes` of it.
uint64_t sorters_bytes(const BucketPlan& plan, const Needs& needs, uint64_t region_bytes) {
  const unsigned outputs = needs.numeric() ? 1 : plan.sorters;
  return outputs * plan.output_blocks * plan.output_block_bytes +
         plan.sorters * sorter_bytes(needs, region_bytes, plan.sorter_threads);
}

// Most buckets for this many blocks. Each bucket fills one; a quarter is left for the next ones
// while full blocks are being written.
uint64_t buckets_within(uint64_t blocks) {
  return blocks * 3 / 4;
}

constexpr uint64_t split_bytes_per_bucket = 512;

void split_numbers_alone(BucketPlan& plan, const Needs& needs) {
  if (!needs.numeric()) return;
  plan.split_threads = 1;
  plan.split_bytes = plan.buckets * split_bytes_per_bucket;
}

// Sets the number of distributing threads. All threads parse texts anyway, and then know how much
// of a window each bucket gets (split/text_window.h). Numbers that several threads distribute are
// read twice, to be counted first (split/number_window.h). That pays from four threads on, if each
// bucket gets a part of every window that is long beside its unaligned edges. More than eight
// threads wait for each other: 16 took twice as long as 8.
void set_split_threads(BucketPlan& plan, const Needs& needs) {
  constexpr unsigned threads_max = 8, number_threads_min = 4;
  constexpr uint64_t bytes_per_thread = 64 * KiB;
  constexpr uint64_t stretch_bytes_min = 1 * KiB;
  constexpr uint64_t memory_share = 32;
  constexpr uint64_t text_bytes_per_bucket = 80;  // for each thread
  const unsigned threads = std::clamp(needs.options.threads, 1u, threads_max);
  plan.split_threads = threads;
  plan.split_bytes = plan.buckets * split_bytes_per_bucket;
  if (!needs.numeric()) {
    plan.split_bytes += plan.buckets * threads * text_bytes_per_bucket;
    return;
  }
  const uint64_t bytes_of_all = threads * (plan.split_bytes + bytes_per_thread);
  // If repeats of a key are dropped, the first of its pairs in the input must be kept.
  const bool first_matters =
      needs.options.unique && needs.options.format.record_bytes == sizeof(sorting::KeyValue);
  if (threads < number_threads_min || first_matters ||
      bytes_of_all > needs.memory_bytes / memory_share ||
      plan.read_block_bytes / threads < plan.buckets * stretch_bytes_min)
    return split_numbers_alone(plan, needs);
  plan.split_bytes = bytes_of_all;
}

// Memory that the two phases leave for the arena.
uint64_t arena_bytes_for(const BucketPlan& plan, const Needs& needs, uint64_t region_bytes) {
  const uint64_t reader_bytes = (plan.read_blocks + 1) * plan.read_block_bytes;
  const uint64_t requests_bytes = needs.memory_bytes / files::block_bytes_min * sizeof(io::Request);
  const uint64_t taken =
      fixed_bytes + requests_bytes +
      std::max(reader_bytes + plan.split_bytes, sorters_bytes(plan, needs, region_bytes));
  return needs.memory_bytes > taken ? needs.memory_bytes - taken : 0;
}

void set_sorters(BucketPlan& plan, uint64_t sorters, unsigned threads) {
  plan.sorters = static_cast<unsigned>(sorters);
  plan.sorter_threads = std::max(1u, threads / plan.sorters);
}

// Size of a region by the sample, with its safety factor.
uint64_t region_bytes_expected(const BucketPlan& plan, const Needs& needs) {
  return static_cast<uint64_t>(size_error * static_cast<double>(needs.sorted_bytes) / plan.buckets);
}

uint64_t largest_bucket_bytes(const BucketPlan& plan, uint64_t input_bytes) {
  return static_cast<uint64_t>(size_error * static_cast<double>(input_bytes) / plan.buckets);
}

// Plans to keep all of the input in memory. Returns false if it does not fit.
bool plan_to_keep(BucketPlan& plan, const Needs& needs) {
  const unsigned threads = needs.options.threads;
  plan.buckets = static_cast<uint32_t>(
      std::clamp<uint64_t>(needs.input.bytes / needs.bucket_bytes_min(), 1, buckets_min));
  set_split_threads(plan, needs);
  set_sorters(plan, std::min(threads, plan.buckets), threads);
  const uint64_t room_bytes = arena_bytes_for(
      plan, needs, std::min(region_bytes_expected(plan, needs), needs.sorted_bytes));
  plan.block_bytes = files::block_within(needs.sorted_bytes / 32 / plan.buckets);
  const uint64_t blocks = needs.sorted_bytes / plan.block_bytes + 2 * plan.buckets + 2;
  plan.arena_bytes = plan.region_bytes_max = blocks * plan.block_bytes;
  if (plan.arena_bytes > room_bytes) return false;
  plan.fits = true;
  plan.held_bytes = plan.kept_bytes = needs.input.bytes;
  // A block is cleared as a whole, even if little is read into it.
  const size_t enough_bytes =
      files::block_within(std::bit_ceil(std::max<uint64_t>(needs.input.bytes, 1)));
  if (enough_bytes < plan.read_block_bytes) {
    plan.read_block_bytes = enough_bytes;
    if (!needs.numeric()) plan.item_bytes_max = enough_bytes;
  }
  // Nothing else needs the remaining memory: lines may be as long as that.
  if (!needs.options.format.fixed()) {
    plan.item_bytes_max += std::min(
        round_down(room_bytes - plan.arena_bytes, plan.read_block_bytes), needs.input.bytes);
  }
  return true;
}

void plan_to_spill(BucketPlan& plan, const Needs& needs) {
  const unsigned threads = needs.options.threads;
  set_sorters(plan,
              std::clamp<uint64_t>(needs.memory_bytes / (2 * files::usable_bytes_min), 1,
                                   std::max(threads, 1u)),
              threads);
  const uint64_t about_bytes = needs.memory_bytes - needs.memory_bytes / 8;
  const uint64_t share_bytes = std::max<uint64_t>(about_bytes / (plan.sorters + 3), 1);
  const auto most = static_cast<uint32_t>(std::clamp<uint64_t>(
      buckets_within(about_bytes / needs.block_bytes_least), 2, needs.buckets_max()));
  plan.buckets = static_cast<uint32_t>(std::clamp<uint64_t>(
      static_cast<uint64_t>(size_error * static_cast<double>(needs.sorted_bytes)) / share_bytes,
      std::min(buckets_min, most), most));
  set_split_threads(plan, needs);
  const uint64_t expected_bytes = region_bytes_expected(plan, needs);
  if (expected_bytes > share_bytes) {
    set_sorters(plan, std::clamp<uint64_t>(about_bytes / expected_bytes, 2, plan.sorters + 1) - 1,
                threads);
  }
  // The largest bucket leaves memory for its sorter.
  uint64_t largest_bytes = std::clamp(expected_bytes, share_bytes, about_bytes);
  plan.arena_bytes = arena_bytes_for(plan, needs, largest_bytes);
  while (largest_bytes > plan.arena_bytes && largest_bytes > io::sector_bytes) {
    largest_bytes -= largest_bytes / 16;
    plan.arena_bytes = arena_bytes_for(plan, needs, largest_bytes);
  }
  const bool much = needs.sorted_bytes > 4 * plan.arena_bytes;
  plan.block_bytes =
      std::max(files::block_within(plan.arena_bytes / (much ? 4 : 16) / plan.buckets),
               needs.block_bytes_least);
  plan.sorters_bytes = sorters_bytes(plan, needs, largest_bytes);
  plan.arena_bytes = round_down(plan.arena_bytes, plan.block_bytes);
  const uint64_t blocks = plan.arena_bytes / plan.block_bytes;
  plan.write_blocks = static_cast<uint32_t>(
      std::clamp<uint64_t>(blocks / 16, 4, std::max<uint64_t>(4, 64 * MiB / plan.block_bytes)));
  // The arena limits the buckets: each fills a block, and some blocks are being written.
  plan.buckets = static_cast<uint32_t>(std::min<uint64_t>(
      plan.buckets,
      std::max<uint64_t>(1,
                         buckets_within(blocks - std::min<uint64_t>(blocks, plan.write_blocks)))));
  // A window of numbers may fill the block of every bucket, and then takes another one for each.
  if (blocks < 2 * plan.buckets + ceil_div(split_window_bytes_max, plan.block_bytes))
    split_numbers_alone(plan, needs);
  // A bucket larger than the sample's estimate is still sorted, at the expense of overlap.
  plan.region_bytes_max = std::min(2 * largest_bytes, plan.arena_bytes - plan.arena_bytes / 64);
  plan.splits = 1;
  for (uint64_t bytes = needs.sorted_bytes / plan.buckets;
       bytes > plan.region_bytes_max && plan.splits <= splits_max;
       bytes /= std::max(plan.buckets, 2u))
    ++plan.splits;
  // Numbers being written when the distribution ends are not kept; texts leave room for pairs.
  const uint64_t unkept =
      (needs.numeric() ? plan.write_blocks : 0) + plan.buckets + plan.buckets / 2;
  plan.held_bytes = blocks > unkept ? (blocks - unkept) * plan.block_bytes : 0;
  plan.kept_bytes =
      std::min(static_cast<uint64_t>(static_cast<double>(plan.held_bytes) / needs.region_share),
               needs.input.bytes);
}

BucketPlan plan_within(const SortOptions& options, uint64_t memory_bytes, const BucketInput& input,
                       size_t block_bytes_least) {
  BucketPlan plan;
  Needs needs{options, input, memory_bytes, block_bytes_least};
  if (needs.numeric()) {
    needs.sorted_bytes = input.bytes;
    plan.read_block_bytes = files::block_within(memory_bytes / 64);
    plan.item_bytes_max = options.format.record_bytes;
    plan.output_block_bytes = input.in_order ? plan.read_block_bytes : JobRequests::bytes_max;
    plan.output_blocks = input.in_order ? 8 : 0;
  } else {
    needs.region_share = 1 + static_cast<double>(pair_bytes) / input.item_bytes;
    const double error = options.format.fixed() ? 1 : items_error;
    needs.sorted_bytes = static_cast<uint64_t>(static_cast<double>(input.bytes) *
                                               (1 + error * (needs.region_share - 1)));
    // The longest item does not depend on how much of the least memory the sample left.
    plan.read_block_bytes = files::block_within(std::max(memory_bytes, item_memory_bytes_min) / 64);
    plan.item_bytes_max = plan.read_block_bytes;
    plan.output_block_bytes = std::min<size_t>(files::block_within(memory_bytes / 128), 1 * MiB);
    plan.output_blocks = 4;
  }
  plan.region_share = needs.region_share;
  if (!input.known || !plan_to_keep(plan, needs)) plan_to_spill(plan, needs);
  return plan;
}

// Most memory of the lists for this input.
uint64_t lists_bytes_of(const BucketPlan& plan, uint64_t input_bytes) {
  if (plan.fits) return 0;
  // The last block of each bucket is partly filled.
  uint64_t bytes = (ceil_div(input_bytes, plan.block_bytes) + plan.buckets) * list_bytes_per_block;
  if (plan.splits > 1) {
    const size_t extent_bytes =
        std::min(plan.block_bytes, std::max(plan.read_block_bytes / 2, files::block_bytes_min));
    bytes += ceil_div(largest_bucket_bytes(plan, input_bytes), extent_bytes) * extent_list_bytes;
  }
  return bytes;
}

// Whether `plan` is better than `than`, a plan of the same input with other blocks.
bool is_better(const BucketPlan& plan, const BucketPlan& than, uint64_t memory_bytes) {
  if (plan.splits > splits_max) return false;
  if (plan.block_bytes > files::block_bytes_min && plan.buckets < large_block_buckets_min)
    return false;
  if (!than.holds) return true;
  if (plan.splits != than.splits) return plan.splits < than.splits;
  return than.lists_bytes > memory_bytes / lists_divisor && plan.lists_bytes < than.lists_bytes;
}

// The best plan within the memory that its lists leave. Less memory makes smaller blocks and longer
// lists, so it plans until both agree. `listed_bytes`: input bytes that the lists must suffice for.
BucketPlan plan_beside_lists(const SortOptions& options, uint64_t memory_bytes,
                             const BucketInput& input, uint64_t listed_bytes) {
  BucketPlan best = plan_within(options, memory_bytes, input, files::block_bytes_min);
  if (best.fits) return best;
  best.holds = false;
  for (size_t least = files::block_bytes_min; least <= files::block_bytes_max; least *= 2) {
    for (uint64_t lists_bytes = 0; lists_bytes + beside_lists_bytes_min <= memory_bytes;) {
      BucketPlan plan = plan_within(options, memory_bytes - lists_bytes, input, least);
      const uint64_t needed_bytes = lists_bytes_of(plan, listed_bytes);
      // Every plan includes some memory for lists.
      plan.lists_bytes = std::max(lists_bytes, lists_free_bytes);
      if (needed_bytes <= plan.lists_bytes) {
        if (is_better(plan, best, memory_bytes)) best = plan;
        break;
      }
      lists_bytes = needed_bytes;
    }
  }
  return best;
}

}  // namespace

BucketPlan plan_buckets(const SortOptions& options, uint64_t memory_bytes,
                        const BucketInput& input) {
  // An input of unknown length may be longer than expected.
  uint64_t listed_bytes =
      input.known ? input.bytes : std::max(input.bytes, pipe_listed_multiple * memory_bytes);
  for (;;) {
    const BucketPlan best = plan_beside_lists(options, memory_bytes, input, listed_bytes);
    if (listed_bytes == input.bytes || best.fits) return best;
    if (best.holds && best.lists_bytes <= memory_bytes / lists_divisor) return best;
    listed_bytes = std::max(input.bytes, listed_bytes / 2);
  }
}

std::vector<BucketPlan> plan_levels(const SortOptions& options, uint64_t memory_bytes,
                                    BucketInput input) {
  std::vector<BucketPlan> levels;
  for (;; input.known = true) {
    const BucketPlan& level = levels.emplace_back(plan_buckets(options, memory_bytes, input));
    if (!level.holds || level.splits <= 1) return levels;
    memory_bytes -= std::min(memory_bytes, level.lists_bytes);
    input.bytes = largest_bucket_bytes(level, input.bytes);
  }
}

uint32_t splits_of(const SortOptions& options, const BucketPlan& plan, const BucketInput& input) {
  if (plan.fits) return 0;
  auto fits = [&](uint64_t bytes) {
    const double items = static_cast<double>(bytes) / std::max(input.item_bytes, 1.0);
    return region_bytes_of(options.format, bytes, static_cast<uint64_t>(items)) <=
           plan.region_bytes_max;
  };
  uint32_t splits = 1;
  for (uint64_t bytes = input.bytes / plan.buckets; !fits(bytes);
       bytes /= std::max(plan.buckets, 2u))
    ++splits;
  return splits;
}

uint64_t pairs_offset(uint64_t bytes) {
  return round_up(bytes, 64);
}

uint64_t region_bytes_of(const items::Format& format, uint64_t bytes, uint64_t items) {
  if (format.numeric()) return round_up(bytes + io::sector_bytes, io::sector_bytes);
  return round_up(std::max(pairs_offset(bytes) + items * pair_bytes, bytes), io::sector_bytes);
}

// Half the block size of a plan with all of the memory: the distribution will have less.
size_t extent_bytes_for(uint64_t memory_bytes, size_t block_bytes) {
  return std::min(block_bytes, files::block_within(memory_bytes / 128));
}

uint64_t memory_beside_extents(uint64_t memory_bytes, uint64_t bucket_bytes, size_t block_bytes) {
  const uint64_t lists_bytes =
      ceil_div(bucket_bytes, extent_bytes_for(memory_bytes, block_bytes)) * extent_list_bytes;
  return memory_bytes - std::min(memory_bytes, lists_bytes);
}

Status check_lists(const BucketPlan& plan, uint64_t input_bytes) {
  if (plan.holds) return {};
  return failure(ErrorCode::out_of_memory,
                 "hold the lists of the blocks of " + std::to_string(input_bytes / GiB) +
                     " GiB in temporaries",
                 "sort", "a larger -S");
}

uint64_t listed_blocks_max(const BucketPlan& plan) {
  return std::max(plan.lists_bytes, lists_free_bytes) / list_bytes_per_block;
}

}  // namespace penstock::external
