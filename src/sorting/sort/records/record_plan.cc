#include "sorting/sort/records/record_plan.h"

#include <algorithm>
#include <cmath>

#include "base/bits.h"
#include "sorting/sort/item.h"

namespace penstock::sorting {
namespace {

constexpr size_t record_bucket_bytes_wanted = MiB;   // also fits a second-level cache with slots
constexpr size_t pair_bytes = 3 * sizeof(KeyValue);  // a record's pair, and its share of slots
// Records of up to this many buckets are sorted at once, without a distribution, which does not pay
// before they are several times the second-level cache.
constexpr uint64_t gathered_buckets_max = 4;
constexpr uint64_t bucket_bytes_max = 4 * MiB;
constexpr uint64_t bucket_growth_max = 8;  // larger buckets are divided again
constexpr size_t record_chunk_bytes_min = 2 * KiB;
constexpr size_t nested_bytes = 2 * MiB;  // chunks, at most, that a distribution leaves unfilled
constexpr uint64_t bytes_per_thread_min = 8 * MiB;
constexpr uint64_t records_per_thread_min = 256;

}  // namespace

ChunkPlan plan_records(uint64_t count, size_t record_bytes, unsigned threads, bool in_order) {
  ChunkPlan plan{.item_bytes = record_bytes, .threads = threads, .in_order = in_order};
  const uint64_t bytes = count * record_bytes;
  const uint64_t wanted =
      std::max<uint64_t>(record_bucket_bytes_wanted / (record_bytes + pair_bytes), 16);
  if (count <= gathered_buckets_max * wanted) {
    plan.bucket_items_max = count;
    return plan;
  }
  const uint64_t allowed =
      std::max<uint64_t>(bytes / 100, std::min<uint64_t>(bytes / 8, 16 * MiB + threads * 8 * MiB));
  uint64_t buckets = std::clamp<uint64_t>(ceil_div(count, wanted), 4, 1024);
  if (count / buckets > 4 * wanted) buckets = 2048;
  // A chunk contains at least one record.
  buckets = std::clamp<uint64_t>(allowed / (uint64_t{threads + 1} * record_bytes), 4, buckets);
  plan.buckets = static_cast<uint32_t>(buckets);
  // Twice the mean: it is better to gather an uneven bucket at once than to divide it again.
  const uint64_t most =
      std::max(wanted, std::min(bucket_growth_max * wanted, bucket_bytes_max / record_bytes));
  plan.bucket_items_max = std::clamp<uint64_t>(2 * count / buckets, wanted, most);

  const uint64_t lists = uint64_t{threads + 1} * buckets;
  const uint64_t chunk_bytes =
      std::clamp<uint64_t>(allowed / lists, record_chunk_bytes_min, record_chunk_bytes_max);
  plan.chunk_items = std::max<uint64_t>(chunk_bytes / record_bytes, 1);
  const uint64_t chunks = count / plan.chunk_items;
  plan.nested_buckets = static_cast<uint32_t>(std::clamp<uint64_t>(
      std::min<uint64_t>(nested_bytes, allowed / (4 * threads)) / plan.chunk_bytes(), 8, 256));
  plan.sample_items = static_cast<uint32_t>(std::clamp<uint64_t>(bytes / (25 * KiB), 1024, 65536));
  // See plan_in_place().
  const double error = 1.25 / std::sqrt(static_cast<double>(plan.sample_items));
  const uint64_t bucket_chunks = plan.bucket_items_max / plan.chunk_items + 1;
  // The shift towards the end is the sample's error and a bucket for each thread, as far as memory
  // allows: output then lies behind all input that is being read. Without the buckets, sixteen
  // threads were as fast as four.
  const uint64_t mean_chunks = ceil_div(chunks, buckets);
  const uint64_t others =
      std::clamp(allowed / 2 / plan.chunk_bytes(), mean_chunks, threads * mean_chunks);
  plan.shift_chunks = in_order ? 0
                               : static_cast<uint32_t>(static_cast<double>(chunks) * error) +
                                     static_cast<uint32_t>(others) + 1;
  plan.spare_chunks = static_cast<uint32_t>(
      lists +
      threads * (record_depth_max * (plan.nested_buckets + 4) + bucket_chunks + threads + 8) + 8 +
      plan.shift_chunks);
  return plan;
}

unsigned record_threads(size_t count, size_t record_bytes, unsigned threads) {
  const uint64_t each =
      std::max<uint64_t>(bytes_per_thread_min, records_per_thread_min * record_bytes);
  const uint64_t most = uint64_t{count} * record_bytes / each;
  return static_cast<unsigned>(std::clamp<uint64_t>(most, 1, std::max(threads, 1u)));
}

}  // namespace penstock::sorting
