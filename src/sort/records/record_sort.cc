#include <algorithm>
#include <atomic>
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
#include "base/check.h"
#include "base/out_of_memory.h"
#include "base/random.h"
#include "penstock/base.h"
#include "penstock/sort.h"
#include "scatter/bucket_map.h"
#include "sort/cache/cache_sort.h"
#include "sort/in_place/choose_map.h"
#include "sort/in_place/chunk_space.h"
#include "sort/item.h"
#include "sort/on_all_threads.h"
#include "sort/records/cycle_sort.h"
#include "sort/records/record_keys.h"
#include "sort/records/record_plan.h"

// From the naive way upward. A sort by comparison moves whole records log n times, and misses the
// cache in most of its levels. Sorting pairs of a key's prefix and a pointer moves each record
// once, but from anywhere: a miss or two for each record, and a second array for the result. The
// idea is to do that where everything is in the cache:
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
// 1. A record is as large as a cache line or larger, so there are no lines that gather items: it
//    goes straight to its chunk. What it costs is the miss when a bucket comes to its next cache
//    line; bucket numbers are computed for a whole chunk first, and the places of the records some
//    way ahead are prefetched for writing: 44 ns a record of 100 bytes for the whole sort instead
//    of 51.
// 2. A bucket's own place is cleared first and its records go there straight from the chunks where
//    they lie. For that the regions of ChunkSpace are shifted by a bucket more for each thread, so
//    that few chunks are in the way of their own bucket, or of those that others write. (Stores
//    past the caches gained nothing here.)
//
// Prefixes. At a position `pos` of the key, the prefix of a record is the 8 bytes from there, as a
// big-endian number, filled with zeros beyond the key's end. What all records of a bucket have in
// common is found in one pass, however long, and skipped. Pairs of equal prefixes make a run; runs
// are sorted by what follows in the same way, the common part skipped, from a stack of runs of our
// own. Every prefix that is loaded decides something or is followed by bytes that do, so that the
// work is linear in the bytes of the records, whatever they hold.
//
// Memory that the system refuses. As in in_place_sort.cc: everything that a pass needs is there before it begins, and a
// bucket that needs more is stored as it is, with out_of_memory.
//
// Worst cases. A bucket that two more distributions have left large is stored in any order, and its
// pairs sorted apart (16 bytes a record); then the records are permuted along the cycles. Large
// records, with one thread, are sorted like that in the first place: a random access to 2 KiB costs
// little, and records move once.

namespace penstock::sorting {

#include "scatter/search_kernel.h"

namespace {

constexpr size_t nested_sample_records = 8192;
constexpr size_t read_ahead_bytes = 2048;
constexpr size_t numbers_max = 256;   // records whose buckets are computed before any is stored
constexpr size_t places_ahead = 8;    // records
constexpr size_t gather_ahead = 12;   // records
constexpr size_t prefetch_lines = 4;  // of a record
constexpr size_t skip_bytes_min = 4;  // a common prefix of the sample that is worth a pass
constexpr size_t line_bytes = 64;

class RecordSort {
 public:
  using List = ChunkSpace::List;

  RecordSort(std::byte* records, size_t count, const Keys& keys, const SortOptions& options)
      : records_(records),
        count_(count),
        record_bytes_(keys.layout().record_bytes),
        keys_(keys),
        threads_(record_threads(count, record_bytes_, options.threads)),
        in_order_(options.stable),
        plan_(plan_records(count, record_bytes_, threads_, in_order_)) {}

  Status run() {
    if (plan_.buckets == 0) return sort_small();
    try {
      if (auto status = open(); !status) return status;
      if (!choose_buckets()) return {};
    } catch (const std::bad_alloc&) {
      return out_of_memory();
    }
    on_all_threads(workers_, [this](Worker& worker) { distribute(worker); });
    place_buckets();
    on_all_threads(workers_, [this](Worker& worker) { finish_buckets(worker); });
    for (const auto& worker : workers_) {
      if (!worker->status) return worker->status;
    }
    return {};
  }

 private:
  struct Piece {
    const std::byte* records;
    size_t count;
  };

  // A bucket's records: the lists of all threads, one behind the other.
  struct Bucket {
    std::vector<List*> lists;
    std::vector<uint64_t> records;  // of each list
    uint64_t count = 0;
    bool one_prefix = false;
  };

  // Where a distribution writes.
  struct Destination {
    std::byte* next = nullptr;
    std::byte* limit = nullptr;
  };

  // A distribution to lists of its own.
  struct Scatter {
    RecordSort* sort;
    const BucketMap& map;
    PrefixLoad prefix;
    std::vector<List>& lists;
    std::vector<Destination> destinations;
    ChunkSpace::Share* share;  // nullptr: others may clear places meanwhile

    Scatter(RecordSort* owner, const BucketMap& bucket_map, size_t pos, std::vector<List>& to,
            ChunkSpace::Share* own)
        : sort(owner),
          map(bucket_map),
          prefix(owner->keys_, pos),
          lists(to),
          destinations(bucket_map.buckets),
          share(own) {
      lists.resize(map.buckets);
      for (uint32_t j = 0; j < map.buckets; ++j) lists[j].region = j;
    }
    std::byte* append(List& list) {
      return share != nullptr ? share->append(list) : sort->space_->append(list, true);
    }

    void add(const std::byte* records, size_t count, const std::byte* ahead) {
      const size_t bytes = sort->record_bytes_;
      uint32_t numbers[numbers_max];
      for (size_t start = 0; start < count; start += numbers_max) {
        const size_t here = std::min(numbers_max, count - start);
        number(records, here, bytes, prefix, map, numbers);
        // Meanwhile what will be read next comes into the cache.
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
                reinterpret_cast<uintptr_t>(destinations[numbers[i + places_ahead]].next);
            for (size_t k = 1; k <= prefetch_lines && (k - 1) * line_bytes < bytes; ++k)
              __builtin_prefetch(reinterpret_cast<const void*>(place + k * line_bytes), 1, 3);
          }
          Destination& destination = destinations[numbers[i]];
          if (destination.next == destination.limit) [[unlikely]] {
            destination.next = append(lists[numbers[i]]);
            destination.limit = destination.next + sort->chunk_bytes();
          }
          copy_record(destination.next, records, bytes);
          destination.next += bytes;
        }
      }
    }

    void count(std::vector<uint64_t>& counts) const {
      for (uint32_t j = 0; j < map.buckets; ++j) {
        const auto room = static_cast<size_t>(destinations[j].limit - destinations[j].next);
        counts[j] = lists[j].chunks.size() * sort->plan_.chunk_records - room / sort->record_bytes_;
      }
    }
  };

  // A thread's own memory.
  struct Worker {
    Worker(unsigned number, CacheSort<KeyValue> sorter, std::unique_ptr<KeyValue[]> memory)
        : index(number), cache(std::move(sorter)), pairs(std::move(memory)) {}

    unsigned index;
    CacheSort<KeyValue> cache;
    std::unique_ptr<KeyValue[]> pairs;
    ChunkSpace::Share share;
    std::vector<List> lists;
    std::vector<uint64_t> counts;    // records in each list
    std::optional<Scatter> scatter;  // of the first distribution
    Bucket bucket;                   // with room for the lists of all threads
    std::vector<Piece> pieces;       // with room for those of a bucket that fits the cache
    std::vector<std::byte> chunk;    // where a chunk is kept while its place is cleared
    Status status;                   // out_of_memory: a bucket was stored as it is
  };

  size_t chunk_bytes() const { return plan_.chunk_records * record_bytes_; }

  Status open() {
    const uint64_t chunks = count_ / plan_.chunk_records;
    tail_start_ = chunks * plan_.chunk_records;
    auto space = ChunkSpace::open({.array = records_,
                                   .array_bytes = chunks * chunk_bytes(),
                                   .chunk_bytes = chunk_bytes(),
                                   .spare_chunks = plan_.spare_chunks,
                                   .array_is_input = true,
                                   .lists = uint64_t{threads_} * plan_.buckets});
    if (!space) return std::unexpected(space.error());
    space_ = std::move(*space);
    for (unsigned i = 0; i < threads_; ++i) {
      auto cache = CacheSort<KeyValue>::open(plan_.bucket_records_max, {});
      if (!cache) return std::unexpected(cache.error());
      if (auto status = open_worker(std::move(*cache)); !status) return status;
    }
    return {};
  }

  Status open_worker(CacheSort<KeyValue> cache) {
    std::unique_ptr<KeyValue[]> pairs(new (std::nothrow) KeyValue[plan_.bucket_records_max]);
    if (pairs == nullptr) return out_of_memory();
    workers_.push_back(std::make_unique<Worker>(static_cast<unsigned>(workers_.size()),
                                                std::move(cache), std::move(pairs)));
    return {};
  }

  // Few records: their pairs are sorted, and they are gathered in other memory. It comes from malloc(),
  // which keeps it for the next sort: new pages cost more than the sort of 256 records.
  Status sort_small() {
    const size_t bytes = count_ * record_bytes_;
    const size_t scratch_bytes = round_up(CacheSort<KeyValue>::bytes_needed(count_), line_bytes);
    const std::unique_ptr<void, decltype(&std::free)> memory(
        std::aligned_alloc(line_bytes, scratch_bytes + round_up(bytes, line_bytes)), &std::free);
    if (memory == nullptr) return out_of_memory();
    auto* const scratch = static_cast<std::byte*>(memory.get());
    std::byte* const gathered = scratch + scratch_bytes;
    if (auto status = open_worker({scratch, count_, {}}); !status) return status;
    Worker& worker = *workers_.front();
    worker.pieces = {{records_, count_}};
    sort_pairs(worker, count_, 0);
    gather_pairs(worker, count_, gathered);
    std::memcpy(records_, gathered, bytes);
    return {};
  }

  // False: all keys are equal.
  bool choose_buckets() {
    Random random(count_);
    std::vector<const std::byte*> sampled(plan_.sample_records);
    for (auto& record : sampled) record = records_ + random.below(count_) * record_bytes_;
    size_t common = keys_.bytes();
    for (const std::byte* record : sampled)
      common = keys_.common(sampled.front(), record, 0, common);
    pos_ = 0;
    if (common >= skip_bytes_min || common == keys_.bytes()) {
      const std::byte* record = records_;
      for (size_t i = 0; i < count_ && common != 0; ++i, record += record_bytes_)
        common = keys_.common(sampled.front(), record, 0, common);
      if (common == keys_.bytes()) return false;
      pos_ = common;
    }
    const PrefixLoad prefix(keys_, pos_);
    std::vector<uint64_t> sample(sampled.size());
    for (size_t i = 0; i < sample.size(); ++i) sample[i] = prefix(sampled[i]);
    sort_sample(sample);
    map_ = map_for(sample, plan_.buckets, count_);
    PENSTOCK_CHECK(plan_.spare_chunks / threads_ > map_.buckets, "too few spare chunks");
    std::vector<uint64_t> shares(map_.buckets, 0);
    for (uint64_t key : sample) ++shares[map_(key)];
    space_->divide(shares, plan_.shift_chunks);
    starts_.assign(map_.buckets + 1, 0);
    for (auto& worker : workers_) {
      worker->share = space_->share(threads_);
      worker->scatter.emplace(this, map_, pos_, worker->lists, &worker->share);
      worker->counts.resize(map_.buckets);
      worker->bucket.lists.reserve(threads_);
      worker->bucket.records.reserve(threads_);
      worker->pieces.reserve(plan_.bucket_records_max / plan_.chunk_records + threads_ + 1);
      worker->chunk.resize(chunk_bytes());
    }
    return true;
  }

  BucketMap map_for(std::span<const uint64_t> sample, uint32_t buckets, uint64_t count) const {
    return choose_map(sample, buckets,
                      static_cast<double>(plan_.bucket_records_max) / static_cast<double>(count));
  }

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

  // From here on records are on their way, and nothing is allocated.
  void distribute(Worker& worker) noexcept {
    Scatter& scatter = *worker.scatter;
    space_->read_array({worker.index, threads_, in_order_, next_}, worker.share,
                       [&](uint32_t chunk, uint32_t next) {
                         scatter.add(space_->address(chunk), plan_.chunk_records,
                                     space_->address(next));
                       });
    if (worker.index + 1 == threads_)
      scatter.add(records_ + tail_start_ * record_bytes_, count_ - tail_start_, nullptr);
    scatter.count(worker.counts);
    space_->join(worker.share, worker.lists);
  }

  void place_buckets() {
    for (uint32_t j = 0; j < map_.buckets; ++j) {
      starts_[j + 1] = starts_[j];
      for (const auto& worker : workers_) starts_[j + 1] += worker->counts[j];
    }
    PENSTOCK_CHECK(starts_.back() == count_, "a sort has lost records");
    next_ = 0;
  }

  static bool one_prefix(const BucketMap& map, uint32_t bucket) {
    const KeyRange keys = map.keys_of(bucket);
    return keys.low == keys.high;
  }

  void finish_buckets(Worker& worker) noexcept {
    for (;;) {
      const uint32_t j = next_.fetch_add(1, std::memory_order_relaxed);
      if (j >= map_.buckets) return;
      Bucket& bucket = worker.bucket;
      bucket.lists.clear();
      bucket.records.clear();
      bucket.count = 0;
      for (const auto& from : workers_) {
        if (from->counts[j] == 0) continue;
        bucket.lists.push_back(&from->lists[j]);
        bucket.records.push_back(from->counts[j]);
        bucket.count += from->counts[j];
      }
      bucket.one_prefix = one_prefix(map_, j);
      finish(worker, bucket, starts_[j], pos_, 0);
    }
  }

  // Stores the bucket's records in order, from the start-th place on. They share the first `pos`
  // bytes of their keys.
  void finish(Worker& worker, Bucket& bucket, uint64_t start, size_t pos, unsigned depth) {
    if (bucket.count == 0) return;
    if (bucket.one_prefix && pos + prefix_bytes >= keys_.bytes())
      return copy_out(worker, bucket, start);
    if (bucket.count <= plan_.bucket_records_max) return gather(worker, bucket, start, pos);
    if (depth < record_depth_max) return divide_again(worker, bucket, start, pos, depth);
    copy_out(worker, bucket, start);
    Status status = or_out_of_memory([&] {
      return sort_by_cycles(records_ + start * record_bytes_, bucket.count, keys_, pos, 1);
    });
    if (!status) worker.status = std::move(status);
  }

  // Before anything is read: std::bad_alloc, where a large bucket has more pieces than there is room for.
  void list_pieces(Worker& worker, Bucket& bucket) {
    worker.pieces.clear();
    size_t pieces = 0;
    for (const List* list : bucket.lists) pieces += list->chunks.size();
    worker.pieces.reserve(pieces);
    space_->begin_reading(bucket.lists);
    for (size_t l = 0; l < bucket.lists.size(); ++l) {
      uint64_t left = bucket.records[l];
      for (uint32_t chunk : bucket.lists[l]->chunks) {
        const uint64_t here = std::min<uint64_t>(left, plan_.chunk_records);
        worker.pieces.push_back({space_->address(chunk), here});
        left -= here;
      }
    }
  }

  // The pairs of the records of all pieces, in order.
  void sort_pairs(Worker& worker, size_t count, size_t pos) {
    const PrefixLoad prefix(keys_, pos);
    KeyRange range = {~uint64_t{0}, 0};
    KeyValue* pair = worker.pairs.get();
    for (size_t p = 0; p < worker.pieces.size(); ++p) {
      const Piece& piece = worker.pieces[p];
      const std::byte* record = piece.records;
      const std::byte* const end = record + piece.count * record_bytes_;
      // All of it comes to the cache, not only the keys.
      const std::byte* fetch = record;
      for (; record < end; record += record_bytes_, ++pair) {
        for (; fetch < end && fetch < record + read_ahead_bytes; fetch += line_bytes)
          __builtin_prefetch(fetch, 0, 2);
        *pair = {prefix(record), value_of(record)};
        range = {std::min(range.low, pair->key), std::max(range.high, pair->key)};
      }
    }
    auto sort_run = [&worker](KeyValue* run, size_t run_count, const KeyRange& keys) -> Status {
      const sorting::Piece<KeyValue> input = {run, run_count};
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

  // A bucket that fits the cache. Its place is cleared before it is read: what is read stays where
  // it is, and nobody waits for a reader that waits.
  void gather(Worker& worker, Bucket& bucket, uint64_t start, size_t pos) {
    clear(start, bucket.count);
    list_pieces(worker, bucket);
    try {
      sort_pairs(worker, bucket.count, pos);
    } catch (const std::bad_alloc&) {
      space_->end_reading(bucket.lists);
      return store_unsorted(worker, bucket, start);
    }
    gather_pairs(worker, bucket.count, records_ + start * record_bytes_);
    space_->release(bucket.lists);
  }

  void clear(uint64_t start, uint64_t count) {
    space_->clear(records_ + start * record_bytes_, records_ + (start + count) * record_bytes_);
  }

  // Records whose order is right, or does not matter yet.
  void copy_out(Worker& worker, Bucket& bucket, uint64_t start) {
    for (size_t l = 0; l < bucket.lists.size(); ++l) {
      uint64_t left = bucket.records[l];
      for (size_t i = 0; left != 0; ++i) {
        const uint64_t here = std::min<uint64_t>(left, plan_.chunk_records);
        std::memcpy(worker.chunk.data(), space_->begin_reading(*bucket.lists[l], i),
                    here * record_bytes_);
        space_->release(*bucket.lists[l], i);
        clear(start, here);
        std::memcpy(records_ + start * record_bytes_, worker.chunk.data(), here * record_bytes_);
        start += here;
        left -= here;
      }
      bucket.lists[l]->chunks.clear();
    }
  }

  void store_unsorted(Worker& worker, Bucket& bucket, uint64_t start) {
    copy_out(worker, bucket, start);
    worker.status = out_of_memory();
  }

  // Memory for the division of a bucket, complete before the first record moves.
  struct Division {
    Division(RecordSort* sort, BucketMap bucket_map, size_t pos, uint32_t region)
        : map(std::move(bucket_map)),
          scatter(sort, map, pos, lists, nullptr),
          counts(map.buckets),
          part{.lists = std::vector<List*>(1), .records = std::vector<uint64_t>(1)} {
      for (List& list : lists) {
        list.region = region;
        all.push_back(&list);
      }
    }

    BucketMap map;
    std::vector<List> lists;
    Scatter scatter;
    std::vector<uint64_t> counts;
    std::vector<List*> all;
    Bucket part;
  };

  void divide_again(Worker& worker, Bucket& bucket, uint64_t start, size_t pos, unsigned depth) {
    std::unique_ptr<Division> division;
    size_t common = keys_.bytes();
    bool reads = false;
    try {
      list_pieces(worker, bucket);
      reads = true;
      // Skips what all have in common.
      const std::byte* const first = worker.pieces.front().records;
      for (const Piece& piece : worker.pieces) {
        for (size_t i = 0; i < piece.count && common > pos; ++i)
          common = keys_.common(first, piece.records + i * record_bytes_, pos, common);
      }
      if (common != keys_.bytes()) {
        division = std::make_unique<Division>(this, nested_map(worker, bucket, start, common),
                                              common, bucket.lists.front()->region);
      }
    } catch (const std::bad_alloc&) {
      if (reads) space_->end_reading(bucket.lists);
      return store_unsorted(worker, bucket, start);
    }
    if (division == nullptr) {
      // What is read would stand in the way of its own output.
      space_->end_reading(bucket.lists);
      return copy_out(worker, bucket, start);
    }
    auto& [map, lists, scatter, counts, all, part] = *division;
    size_t piece = 0;
    for (size_t l = 0; l < bucket.lists.size(); ++l) {
      const size_t chunks = bucket.lists[l]->chunks.size();
      for (size_t i = 0; i < chunks; ++i, ++piece) {
        const bool more = piece + 1 < worker.pieces.size();
        scatter.add(worker.pieces[piece].records, worker.pieces[piece].count,
                    more ? worker.pieces[piece + 1].records : nullptr);
        space_->release(*bucket.lists[l], i);
      }
      bucket.lists[l]->chunks.clear();
    }
    scatter.count(counts);
    space_->end_reading(all);
    for (uint32_t j = 0; j < map.buckets; ++j) {
      part.lists[0] = &lists[j];
      part.records[0] = counts[j];
      part.count = counts[j];
      part.one_prefix = one_prefix(map, j);
      finish(worker, part, start, common, depth + 1);
      start += counts[j];
    }
    space_->recycle(all);
  }

  BucketMap nested_map(const Worker& worker, const Bucket& bucket, uint64_t seed,
                       size_t pos) const {
    const PrefixLoad prefix(keys_, pos);
    Random random(seed + bucket.count);
    std::vector<uint64_t> sample(std::min<size_t>(nested_sample_records, bucket.count / 4 + 1));
    for (uint64_t& key : sample) {
      const Piece& piece = worker.pieces[random.below(worker.pieces.size())];
      key = prefix(piece.records + random.below(piece.count) * record_bytes_);
    }
    sort_sample(sample);
    return map_for(sample, plan_.nested_buckets, bucket.count);
  }

  std::byte* records_;
  size_t count_;
  size_t record_bytes_;
  Keys keys_;
  unsigned threads_;
  bool in_order_;
  RecordPlan plan_;

  size_t tail_start_ = 0;  // records behind the last whole chunk
  std::unique_ptr<ChunkSpace> space_;
  std::vector<std::unique_ptr<Worker>> workers_;
  size_t pos_ = 0;  // bytes that all keys have in common
  BucketMap map_;
  std::atomic<uint32_t> next_{0};
  std::vector<uint64_t> starts_;
};

// Records that are in order, or backwards without equal keys (or with, where order does not
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
    return sorting::RecordSort(bytes, count, keys, options).run();
  });
}

}  // namespace penstock
