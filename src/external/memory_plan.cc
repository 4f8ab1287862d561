#include "external/memory_plan.h"

#include <algorithm>
#include <bit>

#include "base/bits.h"
#include "file/engine.h"
#include "file/file.h"
#include "os/memory.h"
#include "stream/file_reader.h"

// How a sort divides its memory. What pulls at what:
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
//
// What lies in temporaries has to be known, a few bytes for each block, and for input that is some
// thousand times as large as the memory that is more than a trifle: 64 KiB each of a terabyte are
// 16 million blocks. Larger blocks have shorter lists, but there are fewer buckets for which they
// suffice. So plans are made for blocks of each size, and the best is the one with the fewest
// passes; among those, the one with the smallest blocks whose lists take no more than an eighth of
// the memory. Where no size will do, the memory is too small, and the sort does not begin.

namespace penstock::external {
namespace {

constexpr uint64_t margin_bytes = 3 * MiB;
// So many cuts meet every key twice that has an eighth of the input, and so give it a bucket of its
// own: what is split again becomes eight times smaller at least.
constexpr uint32_t buckets_min = 16;
// Of the sample's estimate of a bucket.
constexpr double size_error = 1.25;
constexpr uint64_t bytes_per_bucket = 512;  // lines and tables of the distribution
constexpr uint64_t fixed_bytes = 1 * MiB;   // stacks, requests, lists_free_bytes
// With fewer buckets larger blocks are no gain; and what is not done after so many distributions
// (string_sort.cc) is not done.
constexpr uint32_t large_block_buckets_min = 8;
constexpr uint32_t splits_max = 6;
static_assert(sizeof(stream::Extent) * 2 == extent_list_bytes);

// Each fills one of so many blocks; a quarter is left for those that are filled next while full
// ones are on their way.
uint64_t buckets_within(uint64_t blocks) {
  return blocks * 3 / 4;
}

// What the two phases leave for the arena.
uint64_t arena_bytes_for(const BucketPlan& plan, const BucketNeeds& needs, uint64_t bucket_bytes) {
  const uint64_t reader_bytes = (plan.read_blocks + 1) * plan.read_block_bytes;
  const uint64_t requests_bytes = needs.memory_bytes / block_bytes_min * sizeof(file::Request);
  const uint64_t taken = fixed_bytes + requests_bytes +
                         std::max(reader_bytes + plan.buckets * bytes_per_bucket,
                                  needs.sorters_bytes(plan, bucket_bytes));
  return needs.memory_bytes > taken ? needs.memory_bytes - taken : 0;
}

void set_sorters(BucketPlan& plan, uint64_t sorters, unsigned threads) {
  plan.sorters = static_cast<unsigned>(sorters);
  plan.sorter_threads = std::max(1u, threads / plan.sorters);
}

// As the sample says, and with its error.
uint64_t bucket_bytes_expected(const BucketPlan& plan, const BucketNeeds& needs) {
  return static_cast<uint64_t>(size_error * static_cast<double>(needs.sorted_bytes) / plan.buckets);
}

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

std::optional<uint64_t> plan_to_keep(BucketPlan& plan, const BucketNeeds& needs) {
  plan.buckets = static_cast<uint32_t>(
      std::clamp<uint64_t>(needs.input_bytes / needs.bucket_bytes_min, 1, buckets_min));
  set_sorters(plan, std::min(needs.threads, plan.buckets), needs.threads);
  const uint64_t bucket_bytes = std::min(bucket_bytes_expected(plan, needs), needs.sorted_bytes);
  const uint64_t room_bytes = arena_bytes_for(plan, needs, bucket_bytes);
  plan.block_bytes = block_within(needs.sorted_bytes / 32 / plan.buckets);
  const uint64_t blocks = needs.sorted_bytes / plan.block_bytes + 2 * plan.buckets + 2;
  plan.arena_bytes = blocks * plan.block_bytes;
  if (plan.arena_bytes > room_bytes) return std::nullopt;
  plan.fits = true;
  plan.kept_bytes = needs.input_bytes;
  return room_bytes - plan.arena_bytes;
}

uint64_t plan_to_spill(BucketPlan& plan, const BucketNeeds& needs) {
  set_sorters(plan,
              std::clamp<uint64_t>(needs.memory_bytes / (2 * usable_bytes_min), 1,
                                   std::max(needs.threads, 1u)),
              needs.threads);
  const uint64_t about_bytes = needs.memory_bytes - needs.memory_bytes / 8;
  const uint64_t share_bytes = about_bytes / (plan.sorters + 3);
  const auto most = static_cast<uint32_t>(std::clamp<uint64_t>(
      buckets_within(about_bytes / needs.block_bytes_least), 2, needs.buckets_max));
  plan.buckets = static_cast<uint32_t>(std::clamp<uint64_t>(
      static_cast<uint64_t>(size_error * static_cast<double>(needs.sorted_bytes)) / share_bytes,
      std::min(buckets_min, most), most));
  const uint64_t expected_bytes = bucket_bytes_expected(plan, needs);
  if (expected_bytes > share_bytes) {
    set_sorters(plan, std::clamp<uint64_t>(about_bytes / expected_bytes, 2, plan.sorters + 1) - 1,
                needs.threads);
  }
  // The largest bucket leaves room for what its sort takes.
  uint64_t largest_bytes = std::clamp(expected_bytes, share_bytes, about_bytes);
  plan.arena_bytes = arena_bytes_for(plan, needs, largest_bytes);
  while (largest_bytes > plan.arena_bytes && largest_bytes > file::sector_bytes) {
    largest_bytes -= largest_bytes / 16;
    plan.arena_bytes = arena_bytes_for(plan, needs, largest_bytes);
  }
  const bool much = needs.sorted_bytes > 4 * plan.arena_bytes;
  plan.block_bytes = std::max(block_within(plan.arena_bytes / (much ? 4 : 16) / plan.buckets),
                              needs.block_bytes_least);
  plan.sorters_bytes = needs.sorters_bytes(plan, largest_bytes);
  plan.arena_bytes = round_down(plan.arena_bytes, plan.block_bytes);
  const uint64_t blocks = plan.arena_bytes / plan.block_bytes;
  plan.write_blocks = static_cast<uint32_t>(
      std::clamp<uint64_t>(blocks / 16, 4, std::max<uint64_t>(4, 64 * MiB / plan.block_bytes)));
  // Whatever is left of the arena: every bucket fills a block, and some are being written.
  plan.buckets = static_cast<uint32_t>(std::min<uint64_t>(
      plan.buckets,
      std::max<uint64_t>(1,
                         buckets_within(blocks - std::min<uint64_t>(blocks, plan.write_blocks)))));
  // A bucket that is larger than the sample said is still sorted, with more of the margin.
  largest_bytes = std::min(2 * largest_bytes, plan.arena_bytes - plan.arena_bytes / 64);
  plan.block_list_bytes = needs.block_list_bytes;
  plan.splits = 1;
  for (uint64_t bytes = needs.sorted_bytes / plan.buckets;
       bytes > largest_bytes && plan.splits <= splits_max; bytes /= std::max(plan.buckets, 2u))
    ++plan.splits;
  return largest_bytes;
}

uint64_t largest_bucket_bytes(const BucketPlan& plan, uint64_t input_bytes) {
  return static_cast<uint64_t>(size_error * static_cast<double>(input_bytes) / plan.buckets);
}

uint64_t lists_bytes_of(const BucketPlan& plan, uint64_t input_bytes) {
  if (plan.fits) return 0;
  // The last block of each bucket is not full.
  uint64_t bytes = (ceil_div(input_bytes, plan.block_bytes) + plan.buckets) * plan.block_list_bytes;
  if (plan.splits > 1) {
    const size_t extent_bytes =
        std::min(plan.block_bytes, std::max(plan.read_block_bytes / 2, block_bytes_min));
    bytes += ceil_div(largest_bucket_bytes(plan, input_bytes), extent_bytes) * extent_list_bytes;
  }
  return bytes;
}

// Half of what a plan with all of the memory would read in: it will have less.
size_t extent_bytes_for(uint64_t memory_bytes, size_t block_bytes) {
  return std::min(block_bytes, block_within(memory_bytes / 128));
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
  return std::max(plan.lists_bytes, lists_free_bytes) / plan.block_list_bytes;
}

bool is_better(const BucketPlan& plan, const BucketPlan& than, uint64_t memory_bytes) {
  auto is_short = [&](const BucketPlan& of) {
    return of.lists_bytes <= memory_bytes / lists_divisor;
  };
  if (plan.splits > splits_max) return false;
  if (plan.block_bytes > block_bytes_min && plan.buckets < large_block_buckets_min) return false;
  if (!than.holds) return true;
  if (plan.splits != than.splits) return plan.splits < than.splits;
  return !is_short(than) && plan.lists_bytes < than.lists_bytes;
}

}  // namespace penstock::external
