#include "external/memory_plan.h"

#include <algorithm>
#include <bit>

#include "base/bits.h"
#include "file/engine.h"
#include "file/file.h"
#include "os/memory.h"

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
  const auto most = static_cast<uint32_t>(
      std::clamp<uint64_t>(buckets_within(about_bytes / block_bytes_min), 2, needs.buckets_max));
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
  plan.block_bytes = block_within(plan.arena_bytes / (much ? 4 : 16) / plan.buckets);
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
  return std::min(2 * largest_bytes, plan.arena_bytes - plan.arena_bytes / 64);
}

}  // namespace penstock::external
