#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/bits.h"
#include "base/out_of_memory.h"
#include "base/random.h"
#include "penstock/base.h"
#include "penstock/sort.h"
#include "sorting/scatter/bucket_map.h"
#include "sorting/sort/cache/cache_sort.h"
#include "sorting/sort/in_place/choose_map.h"
#include "sorting/sort/in_place/chunk_sort.h"
#include "sorting/sort/in_place/chunk_space.h"
#include "sorting/sort/item.h"
#include "sorting/sort/records/cycle_sort.h"
#include "sorting/sort/records/record_keys.h"
#include "sorting/sort/records/record_plan.h"

// A sort by comparison moves whole records log n times, and misses the cache in most of its levels.
// Sorting pairs of a key's prefix and a pointer moves each record once, but from anywhere: a miss
// or two for each record, and a second array for the result. This sort does that on pieces that are
// in the cache:
//
//   in order already, or backwards?     nothing, or a reversal
//   otherwise:
//     distribute                        records to lists of chunks, by 8 bytes of their keys
//                                       (ChunkSpace)
//     for each bucket, in order:
//       small                           its pairs are sorted (CacheSort), and its records gathered
//       equal keys                      stored
//       large                           distributed again, by the first 8 bytes that differ
//
// Each record is read twice and written twice. Two differences to the sort of keys:
//
// 1. A record is as large as a cache line or larger, so no lines gather items: it goes straight to
//    its chunk. The cost is a miss when a bucket reaches its next cache line; bucket numbers are
//    computed for a whole chunk first, and the places of the records some way ahead are prefetched
//    for writing: 44 ns a record of 100 bytes for the whole sort instead of 51.
// 2. A bucket's own place is cleared first and its records go there straight from their chunks.
//    For that the regions of ChunkSpace are shifted by a bucket more for each thread, so that few
//    chunks are in the way of their own bucket, or of those that others write. (Stores past the
//    caches gained nothing here.)
//
// Prefixes. At a position `pos` of the key, the prefix of a record is the 8 bytes from there, as a
// big-endian number, filled with zeros beyond the key's end. The bytes that all records of a bucket
// have in common are found in one pass, however long, and skipped. Pairs of equal prefixes make a
// run; runs are sorted by the following bytes in the same way, the common part skipped, from an
// explicit stack of runs. Every prefix that is loaded decides something or is followed by bytes
// that do, so that the work is linear in the bytes of any records.
//
// Worst cases. A bucket that two more distributions have left large is stored in any order, and its
// pairs are sorted apart (16 bytes a record); then the records are permuted along the cycles. One
// thread sorts large records like that from the start: a random access to 2 KiB costs little, and
// records move once.

namespace penstock::sorting {

#include "sorting/scatter/search_kernel.h"

namespace {

constexpr size_t read_ahead_bytes = 2048;
constexpr size_t numbers_max = 256;   // records whose buckets are computed before any is stored
constexpr size_t places_ahead = 8;    // records
constexpr size_t gather_ahead = 12;   // records
constexpr size_t prefetch_lines = 4;  // lines of a record
constexpr size_t skip_bytes_min = 4;  // a common prefix of the sample that is worth a pass
constexpr size_t line_bytes = 64;

// A thread's memory, beside that of ChunkSort.
struct RecordTools {
  CacheSort<KeyValue> cache;
  std::unique_ptr<KeyValue[]> pairs;
};

// Scatters records straight to their chunks.
class RecordScatter {
 public:
  template <class Sort>
  RecordScatter(const Sort& sort, const BucketMap& map, size_t pos,
                std::vector<ChunkSpace::List>& lists, const ChunkSource& source)
      : map_(map),
        prefix_(sort.keys(), pos),
        record_bytes_(sort.keys().layout().record_bytes),
        lists_(lists),
        source_(source),
        destinations_(map.buckets) {}

  void add(const std::byte* records, size_t count, const std::byte* ahead) {
    const size_t bytes = record_bytes_;
    uint32_t numbers[numbers_max];
    for (size_t start = 0; start < count; start += numbers_max) {
      const size_t here = std::min(numbers_max, count - start);
      number(records, here, bytes, prefix_, map_, numbers);
      // Fetch the records that will be read next into the cache meanwhile.
      const std::byte* next = start + here < count ? records + here * bytes : ahead;
      const size_t next_bytes = std::min(here * bytes, record_chunk_bytes_max);
      size_t fetched = 0;
      for (size_t i = 0; i < here; ++i, records += bytes) {
        if (next != nullptr) {
          for (; fetched < next_bytes && fetched < (i + 1) * bytes; fetched += line_bytes)
            __builtin_prefetch(next + fetched, 0, 2);
        }
        if (i + places_ahead < here) {
          const auto place =
              reinterpret_cast<uintptr_t>(destinations_[numbers[i + places_ahead]].next);
          for (size_t k = 1; k <= prefetch_lines && (k - 1) * line_bytes < bytes; ++k)
            __builtin_prefetch(reinterpret_cast<const void*>(place + k * line_bytes), 1, 3);
        }
        Destination& destination = destinations_[numbers[i]];
        if (destination.next == destination.limit) [[unlikely]] {
          destination.next = source_.append(lists_[numbers[i]]);
          destination.limit = destination.next + source_.space->chunk_bytes();
        }
        copy_record(destination.next, records, bytes);
        destination.next += bytes;
      }
    }
  }

  void count(std::vector<uint64_t>& counts) const {
    const size_t chunk_bytes = source_.space->chunk_bytes();
    for (uint32_t j = 0; j < map_.buckets; ++j) {
      const auto room = static_cast<size_t>(destinations_[j].limit - destinations_[j].next);
      counts[j] = (lists_[j].chunks.size() * chunk_bytes - room) / record_bytes_;
    }
  }

 private:
  struct Destination {
    std::byte* next = nullptr;
    std::byte* limit = nullptr;
  };

  static void search_all(const uint64_t* prefixes, size_t count, const BucketMap& map,
                         uint32_t* numbers) {
    constexpr size_t group = 16;
    const SearchTree<uint64_t> tree = {map.tree.data(), map.tree_levels, map.buckets - 1};
    size_t i = 0;
    for (; i + group <= count; i += group) search<group>(prefixes + i, tree, numbers + i);
    for (; i < count; ++i) search<1>(prefixes + i, tree, numbers + i);
  }

  static void number(const std::byte* records, size_t count, size_t record_bytes,
                     const PrefixLoad& prefix, const BucketMap& map, uint32_t* numbers) {
    if (map.searches()) {
      uint64_t prefixes[numbers_max];
      for (size_t i = 0; i < count; ++i) prefixes[i] = prefix(records + i * record_bytes);
      return search_all(prefixes, count, map, numbers);
    }
    for (size_t i = 0; i < count; ++i) {
      const uint64_t key = prefix(records + i * record_bytes);
      const uint64_t place =
          (std::clamp(key, map.range.low, map.range.high) - map.zero) >> map.shift;
      numbers[i] = static_cast<uint32_t>(place * map.multiplier >> 32);
    }
  }

  const BucketMap& map_;
  const PrefixLoad prefix_;
  const size_t record_bytes_;
  std::vector<ChunkSpace::List>& lists_;
  const ChunkSource source_;
  std::vector<Destination> destinations_;
};

class RecordSort : public ChunkSort<RecordSort, std::byte, RecordTools, RecordScatter> {
 public:
  RecordSort(std::byte* records, size_t count, const Keys& keys, const ChunkPlan& plan)
      : ChunkSort(records, records, count, plan),
        records_(records),
        count_(count),
        record_bytes_(plan.item_bytes),
        keys_(keys) {}

  Status run() {
    if (plan().buckets == 0) return sort_small();
    bool are_equal = false;
    Status ready = or_out_of_memory([&] {
      Status status = open();
      if (status) are_equal = !choose_buckets();
      return status;
    });
    if (!ready || are_equal) return ready;
    return distribute_and_finish();
  }

  const Keys& keys() const { return keys_; }

 private:
  friend ChunkSort;

  Status open() {
    if (auto status = open_space(records_); !status) return status;
    for (unsigned i = 0; i < plan().threads; ++i) {
      auto cache = CacheSort<KeyValue>::open(plan().bucket_items_max, {});
      if (!cache) return std::unexpected(cache.error());
      if (auto status = open_worker(std::move(*cache)); !status) return status;
    }
    return {};
  }

  Status open_worker(CacheSort<KeyValue> cache) {
    std::unique_ptr<KeyValue[]> pairs(new (std::nothrow) KeyValue[plan().bucket_items_max]);
    if (pairs == nullptr) return out_of_memory();
    add_worker({std::move(cache), std::move(pairs)});
    return {};
  }

  // Sorts few records: their pairs are sorted, and they are gathered in other memory. It comes from
  // malloc(), which keeps it for the next sort: new pages cost more than the sort of 256 records.
  Status sort_small() {
    const size_t bytes = count_ * record_bytes_;
    const size_t scratch_bytes = round_up(CacheSort<KeyValue>::bytes_needed(count_), line_bytes);
    const std::unique_ptr<void, decltype(&std::free)> memory(
        std::aligned_alloc(line_bytes, scratch_bytes + round_up(bytes, line_bytes)), &std::free);
    if (memory == nullptr) return out_of_memory();
    auto* const scratch = static_cast<std::byte*>(memory.get());
    std::byte* const gathered = scratch + scratch_bytes;
    if (auto status = open_worker({scratch, count_, {}}); !status) return status;
    Worker& worker = *workers().front();
    worker.pieces = {{records_, count_}};
    sort_pairs(worker, count_, 0);
    gather_pairs(worker, count_, gathered);
    std::memcpy(records_, gathered, bytes);
    return {};
  }

  // Returns false if all keys are equal.
  bool choose_buckets() {
    Random random(count_);
    std::vector<const std::byte*> sampled(plan().sample_items);
    for (auto& record : sampled) record = records_ + random.below(count_) * record_bytes_;
    size_t common = keys_.bytes();
    for (const std::byte* record : sampled)
      common = keys_.common(sampled.front(), record, 0, common);
    size_t pos = 0;
    if (common >= skip_bytes_min || common == keys_.bytes()) {
      const std::byte* record = records_;
      for (size_t i = 0; i < count_ && common != 0; ++i, record += record_bytes_)
        common = keys_.common(sampled.front(), record, 0, common);
      if (common == keys_.bytes()) return false;
      pos = common;
    }
    const PrefixLoad prefix(keys_, pos);
    std::vector<uint64_t> sample(sampled.size());
    for (size_t i = 0; i < sample.size(); ++i) sample[i] = prefix(sampled[i]);
    sort_sample(sample);
    ChunkSort::choose_buckets(sample, pos);
    return true;
  }

  std::optional<size_t> common_pos(const Worker& worker, const Bucket& bucket) const {
    size_t common = keys_.bytes();
    const std::byte* const first = worker.pieces.front().items;
    for (const Piece<std::byte>& piece : worker.pieces) {
      for (size_t i = 0; i < piece.count && common > bucket.pos; ++i)
        common = keys_.common(first, item(piece.items, i), bucket.pos, common);
    }
    if (common == keys_.bytes()) return {};
    return common;
  }
  PrefixLoad key_at(size_t pos) const { return {keys_, pos}; }

  // Stores the bucket's records in order, from the start-th place on.
  void finish(Worker& worker, Bucket& bucket, uint64_t start, unsigned depth) {
    const bool one_prefix = bucket.keys.low == bucket.keys.high;
    if (one_prefix && bucket.pos + prefix_bytes >= keys_.bytes())
      return copy_out(worker, bucket, start);
    if (bucket.count <= plan().bucket_items_max) return gather(worker, bucket, start);
    if (depth < record_depth_max) return divide_again(worker, bucket, start, depth);
    copy_out(worker, bucket, start);
    Status status = or_out_of_memory(
        [&] { return sort_by_cycles(place(start), bucket.count, keys_, bucket.pos, 1); });
    if (!status) worker.status = std::move(status);
  }

  // Sorts the pairs of the records of all pieces.
  void sort_pairs(Worker& worker, size_t count, size_t pos) {
    const PrefixLoad prefix(keys_, pos);
    KeyRange range = {~uint64_t{0}, 0};
    KeyValue* pair = worker.pairs.get();
    for (size_t p = 0; p < worker.pieces.size(); ++p) {
      const Piece<std::byte>& piece = worker.pieces[p];
      const std::byte* record = piece.items;
      const std::byte* const end = record + piece.count * record_bytes_;
      // Fetch whole records into the cache, not only the keys.
      const std::byte* fetch = record;
      for (; record < end; record += record_bytes_, ++pair) {
        for (; fetch < end && fetch < record + read_ahead_bytes; fetch += line_bytes)
          __builtin_prefetch(fetch, 0, 2);
        *pair = {prefix(record), value_of(record)};
        range = {std::min(range.low, pair->key), std::max(range.high, pair->key)};
      }
    }
    auto sort_run = [&worker](KeyValue* run, size_t run_count, const KeyRange& keys) -> Status {
      const Piece<KeyValue> input = {run, run_count};
      worker.cache.load({&input, 1}, run_count, keys);
      worker.cache.store(run);
      return {};
    };
    (void)sort_run(worker.pairs.get(), count, range);
    (void)sort_ties(worker.pairs.get(), count, keys_, pos, sort_run);
  }

  void gather_pairs(const Worker& worker, size_t count, std::byte* to) const {
    const KeyValue* pairs = worker.pairs.get();
    for (size_t i = 0; i < count; ++i, to += record_bytes_) {
      if (i + gather_ahead < count) {
        const std::byte* ahead = record_of(pairs[i + gather_ahead]);
        for (size_t k = 0; k < prefetch_lines && k * line_bytes < record_bytes_ + line_bytes; ++k)
          __builtin_prefetch(ahead + k * line_bytes, 0, 3);
      }
      copy_record(to, record_of(pairs[i]), record_bytes_);
    }
  }

  // Stores a bucket that fits the cache. Its place is cleared before it is read: the chunks that
  // are read stay in place, and nobody waits for a reader that waits.
  void gather(Worker& worker, Bucket& bucket, uint64_t start) {
    clear(start, bucket.count);
    list_pieces(worker, bucket);
    try {
      sort_pairs(worker, bucket.count, bucket.pos);
    } catch (const std::bad_alloc&) {
      space().end_reading(bucket.lists);
      return store_unsorted(worker, bucket, start);
    }
    gather_pairs(worker, bucket.count, place(start));
    space().release(bucket.lists);
  }

  std::byte* records_;
  size_t count_;
  size_t record_bytes_;
  Keys keys_;
};

// Sorts records that are in order, or backwards without equal keys (or with, if order does not
// matter).
bool sort_monotone(std::byte* records, size_t count, const Keys& keys, bool stable) {
  const size_t bytes = keys.layout().record_bytes;
  auto runs_while = [&](auto holds) {
    const std::byte* record = records + bytes;
    for (size_t i = 1; i < count; ++i, record += bytes) {
      if (!holds(keys.compare(record - bytes, record, 0))) return false;
    }
    return true;
  };
  if (runs_while([](int order) { return order <= 0; })) return true;
  if (!runs_while([stable](int order) { return stable ? order > 0 : order >= 0; })) return false;
  std::byte* front = records;
  std::byte* back = records + (count - 1) * bytes;
  for (; front < back; front += bytes, back -= bytes) std::swap_ranges(front, front + bytes, back);
  return true;
}

}  // namespace

}  // namespace penstock::sorting

namespace penstock {

Status sort_records(void* records, size_t count, const RecordLayout& layout,
                    const SortOptions& options) {
  auto refuse = [](const char* subject, std::string hint) {
    return failure(ErrorCode::invalid_argument, "sort records", subject, std::move(hint));
  };
  if (layout.record_bytes == 0) return refuse("a record of 0 bytes", "a size of records");
  if (layout.record_bytes > record_bytes_max)
    return refuse("a record's size", "records of at most 64 KiB; sort an index of larger ones");
  if (layout.key_bytes == 0) return refuse("a key of 0 bytes", "a key of a byte or more");
  if (layout.key_offset >= layout.record_bytes ||
      layout.key_bytes > layout.record_bytes - layout.key_offset)
    return refuse("a key outside of the record",
                  "a key that ends where the record ends, or before");
  if (count < 2) return {};
  auto* bytes = static_cast<std::byte*>(records);
  const sorting::Keys keys(layout, options.descending);
  if (sorting::sort_monotone(bytes, count, keys, options.stable)) return {};
  return or_out_of_memory([&] {
    if (layout.record_bytes >= sorting::cycle_record_bytes_min && options.threads <= 1)
      return sorting::sort_by_cycles(bytes, count, keys, 0, 1);
    const unsigned threads = sorting::record_threads(count, layout.record_bytes, options.threads);
    const auto plan = sorting::plan_records(count, layout.record_bytes, threads, options.stable);
    return sorting::RecordSort(bytes, count, keys, plan).run();
  });
}

}  // namespace penstock
