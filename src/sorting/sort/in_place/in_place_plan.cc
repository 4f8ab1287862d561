#include "sorting/sort/in_place/in_place_plan.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/bits.h"

namespace penstock::sorting {
namespace {

// Size of a bucket of the first level: with its slots it should fit a second-level cache of 2 MiB.
constexpr size_t bucket_bytes_wanted = 512 * KiB;
constexpr uint32_t buckets_min = 8;
constexpr uint32_t buckets_max = 1024;
constexpr uint32_t buckets_more = 2048;  // if a thousand would leave the buckets too large
constexpr size_t bucket_bytes_large = 4 * MiB;
// Slots are addressed by 32 bits, and take up to twice the bytes of their items.
constexpr uint64_t cache_bytes_limit = GiB;
constexpr size_t chunk_bytes_min = KiB;
constexpr size_t chunk_bytes_max = 16 * KiB;
constexpr uint32_t nested_buckets_min = 16;
constexpr uint32_t nested_buckets_max = 256;
constexpr unsigned nested_levels = 2;

}  // namespace

ChunkPlan plan_in_place(uint64_t items, size_t item_bytes, unsigned threads, bool in_order) {
  ChunkPlan plan{.item_bytes = item_bytes, .threads = threads, .in_order = in_order};
  uint64_t bytes = items * item_bytes;
  if (bytes <= cache_bytes_max) {
    plan.bucket_items_max = items;
    return plan;
  }
  uint64_t wanted = ceil_div(bytes, bucket_bytes_wanted);
  plan.buckets = static_cast<uint32_t>(std::clamp<uint64_t>(wanted, buckets_min, buckets_max));
  if (bytes / plan.buckets > bucket_bytes_large) plan.buckets = buckets_more;
  // Twice the mean: it is better to sort an uneven bucket at once than to divide it again.
  plan.bucket_items_max =
      std::clamp<uint64_t>(2 * bytes / plan.buckets, cache_bytes_max, cache_bytes_limit) /
      item_bytes;

  plan.nested_buckets = std::clamp(plan.buckets, nested_buckets_min, nested_buckets_max);

  // Chunks: those that may be partly filled at one time (one for each bucket and thread, and one
  // more for each bucket, because the input's pace is not exactly the buckets'; a thread's share
  // needs its buckets and one more) should take a hundredth of the items, or 24 MiB and 8 MiB for
  // each thread: with less, sixteen threads had chunks of 1 KiB.
  uint64_t partly_filled = (uint64_t{threads} + 1) * plan.buckets +
                           uint64_t{threads} * (nested_levels * plan.nested_buckets + 8) + 8;
  uint64_t allowed =
      std::max<uint64_t>(bytes / 100, std::min<uint64_t>(bytes / 4, 24 * MiB + threads * 8 * MiB));
  plan.chunk_items =
      std::clamp<size_t>(std::bit_floor(std::max<uint64_t>(allowed / partly_filled, 1)),
                         chunk_bytes_min, chunk_bytes_max) /
      item_bytes;
  const uint64_t sample_max = std::max<uint64_t>(65536, std::min<uint64_t>(items / 2048, 262144));
  plan.sample_items = static_cast<uint32_t>(std::clamp<uint64_t>(items / 256, 1024, sample_max));
  // The sample estimates the items in front of a bucket. Somewhere in the array the error exceeds
  // 1.25 / sqrt(sample) of all items in one of 23 sorts, 0.75 / sqrt(sample) in one of three. And
  // output should lie behind the other threads' input, as far as memory allows. With few items,
  // memory is worth more than moves.
  const uint64_t chunks = bytes / plan.chunk_bytes();
  const bool many = bytes >= 64 * MiB;
  const double error = (many ? 1.25 : 0.75) / std::sqrt(static_cast<double>(plan.sample_items));
  const uint64_t others = many ? std::min<uint64_t>((threads - 1) * ceil_div(chunks, plan.buckets),
                                                    allowed / 2 / plan.chunk_bytes())
                               : 0;
  plan.shift_chunks = in_order ? 0
                               : static_cast<uint32_t>(static_cast<double>(chunks) * error) +
                                     static_cast<uint32_t>(others) + 1;
  plan.spare_chunks = static_cast<uint32_t>(partly_filled) + plan.shift_chunks;
  return plan;
}

uint64_t extra_bytes_promised(uint64_t bytes, unsigned threads) {
  return bytes >= GiB ? bytes / 50 + 32 * MiB + threads * 32 * MiB
                      : std::max<uint64_t>(bytes, 3 * MiB);
}

}  // namespace penstock::sorting
