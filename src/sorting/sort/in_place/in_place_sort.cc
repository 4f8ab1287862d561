#include "sorting/sort/in_place/in_place_sort.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <type_traits>
#include <vector>

#include "base/bits.h"
#include "base/out_of_memory.h"
#include "base/random.h"
#include "sorting/scatter/lines.h"
#include "sorting/sort/cache/cache_sort.h"
#include "sorting/sort/in_place/choose_map.h"
#include "sorting/sort/in_place/chunk_sort.h"
#include "sorting/sort/in_place/chunk_space.h"
#include "sorting/sort/in_place/heavy_keys.h"
#include "sorting/sort/in_place/in_place_plan.h"
#include "sorting/sort/in_place/shorter_ways.h"
#include "sorting/sort/kernels/kernels.h"

// The outline:
//
//   in order already, or backwards?        nothing, or a reversal
//   in order except for appended items,
//   or for items out of place?             those are sorted, and merged
//   fits the cache?                        CacheSort
//   otherwise, all threads:
//     sample                               bounds of buckets, and about their places; keys that
//                                          are so many that they are better counted
//     distribute: every chunk of input     to lists of chunks, a list for each bucket and thread
//                                          (ChunkSpace)
//     for each bucket, in order:
//       small                              read it into the cache, sort it there, store it
//       one key                            store it
//       large                              distribute it again, and so on
//
// Memory beside the array: the spare chunks of ChunkSpace, and for each thread a line per bucket
// and the slots of one bucket. Threads share only the array: the first pass hands out rounds of its
// chunks, which stay the thread's, the second one buckets.
//
// Order and speed. Items of equal keys keep their order if input is read in order: then a thread
// reads one contiguous part, and a bucket is the first thread's list, then the second's, and so on.
// Otherwise input is read in the order that frees chunks at the right places, by any thread at any
// time.

namespace penstock::sorting {
namespace {

constexpr uint64_t thread_bytes_min = 4 << 20;  // below, a thread is not worth its start
constexpr size_t chunk_table_bytes = 32;        // ChunkSpace and lists, for each chunk
constexpr size_t spare_table_bytes = 40;        // ChunkSpace, lists and shares

template <class T>
uint64_t extra_bytes_of(const ChunkPlan& plan, uint64_t items) {
  uint64_t bytes = plan.threads * CacheSort<T>::bytes_needed(plan.bucket_items_max);
  if (plan.buckets == 0) return bytes;
  bytes += uint64_t{plan.spare_chunks} * plan.chunk_bytes();
  bytes += plan.threads * LineScatter<T>::bytes_needed(plan.buckets);
  bytes += ceil_div(items * sizeof(T), plan.chunk_bytes()) * chunk_table_bytes +
           plan.spare_chunks * spare_table_bytes;
  if (std::is_integral_v<T>) bytes += plan.threads * sizeof(HeavyTally) + sizeof(HeavyKeys);
  return bytes;
}

// Plans as many threads as have enough work, and memory within the promise.
template <class T>
ChunkPlan plan_for(uint64_t items, const InPlaceOptions& options) {
  const uint64_t bytes = items * sizeof(T);
  auto threads = static_cast<unsigned>(
      std::clamp<uint64_t>(bytes / thread_bytes_min, 1, std::max(options.threads, 1u)));
  for (;; --threads) {
    ChunkPlan plan = plan_in_place(items, sizeof(T), threads, options.stable);
    if (threads == 1 || extra_bytes_of<T>(plan, items) <= extra_bytes_promised(bytes, threads))
      return plan;
  }
}

// A thread's memory, beside that of ChunkSort.
template <class T>
struct ItemTools {
  CacheSort<T> cache;
  ItemSum sum = {};  // sum of the items that are in their places, if requested
};

// Scatters items to lists of chunks by way of a line for each bucket.
template <class T>
class ItemScatter {
 public:
  template <class Sort>
  ItemScatter(const Sort& sort, const BucketMap& map, size_t, std::vector<ChunkSpace::List>& lists,
              const ChunkSource& source)
      : map_(map),
        order_(sort.order()),
        lists_(lists),
        source_(source),
        chunk_bytes_(source.space->chunk_bytes()),
        lines_(map.buckets) {
    if (!sort.is_aligned()) lines_.expect_unaligned();
    lines_.ask_for_room({make_room, this});
  }
  ItemScatter(const ItemScatter&) = delete;
  ItemScatter& operator=(const ItemScatter&) = delete;

  void add(const T* items, size_t count, const T* ahead) {
    lines_.add(items, count, map_, order_, ahead != nullptr ? ahead : items + count);
  }
  void count(std::vector<uint64_t>& counts) {
    for (uint32_t j = 0; j < map_.buckets; ++j) {
      lines_.flush(j);
      counts[j] = lists_[j].chunks.size() * (chunk_bytes_ / sizeof(T)) - lines_.items_left(j);
    }
  }

 private:
  static void make_room(void* self, uint32_t bucket, Room& room, const std::byte*) {
    auto* scatter = static_cast<ItemScatter*>(self);
    std::byte* chunk = scatter->source_.append(scatter->lists_[bucket]);
    room = {chunk, chunk + scatter->chunk_bytes_};
  }

  const BucketMap& map_;
  const KeyOrder order_;
  std::vector<ChunkSpace::List>& lists_;
  const ChunkSource source_;
  const size_t chunk_bytes_;
  LineScatter<T> lines_;
};

template <class T>
class InPlaceSort : public ChunkSort<InPlaceSort<T>, T, ItemTools<T>, ItemScatter<T>> {
  using Base = ChunkSort<InPlaceSort<T>, T, ItemTools<T>, ItemScatter<T>>;
  using typename Base::Bucket;
  using typename Base::Worker;

 public:
  InPlaceSort(const T* in, size_t count, T* out, const InPlaceOptions& options,
              const ChunkPlan& plan)
      : Base(reinterpret_cast<const std::byte*>(in), reinterpret_cast<std::byte*>(out), count,
             plan),
        out_(out),
        options_(options) {}

  // `sample`: encoded keys, sorted.
  Status run(std::span<const uint64_t> sample) {
    Status ready = or_out_of_memory([&] {
      Status status = open();
      if (status) this->choose_buckets(sample, 0);
      return status;
    });
    if (!ready) return ready;
    if (auto status = this->distribute_and_finish(); !status) return status;
    if (options_.sum != nullptr) {
      for (const auto& worker : this->workers()) *options_.sum += worker->sum;
    }
    return {};
  }

  const KeyOrder& order() const { return options_.order; }
  bool is_aligned() const { return aligned_; }

 private:
  friend Base;

  Status open() {
    // Chunks begin at a multiple of 64 bytes, like lines, if items allow it.
    T* grid = out_;
    while (reinterpret_cast<uintptr_t>(grid) % 64 != 0 && grid < out_ + 64 / sizeof(T)) ++grid;
    aligned_ = reinterpret_cast<uintptr_t>(grid) % 64 == 0;
    if (!aligned_) grid = out_;
    if (auto status = this->open_space(reinterpret_cast<std::byte*>(grid)); !status) return status;
    for (unsigned i = 0; i < this->plan().threads; ++i) {
      auto cache = CacheSort<T>::open(this->plan().bucket_items_max, options_.order);
      if (!cache) return std::unexpected(cache.error());
      this->add_worker({std::move(*cache)});
    }
    return {};
  }

  // Numbers have no bytes to skip.
  std::optional<size_t> common_pos(const Worker&, const Bucket&) const { return 0; }
  auto key_at(size_t) const {
    return [this](const T* item) { return key_of(encode(*item, options_.order)); };
  }

  // Stores the bucket's items in order at out_ + start.
  void finish(Worker& worker, Bucket& bucket, uint64_t start, unsigned depth) {
    if (start >= options_.first) {
      this->copy_out(worker, bucket, start);
    } else if (bucket.keys.low == bucket.keys.high) {
      store_one_key(worker, bucket, start);
    } else if (bucket.count <= worker.cache.items_max()) {
      sort_in_cache(worker, bucket, start);
    } else if (depth == 2) {
      sort_apart(worker, bucket, start);
    } else {
      return this->divide_again(worker, bucket, start, depth);
    }
    if (options_.sum != nullptr) kernels_.add_to_sum(out_ + start, bucket.count, worker.sum);
  }

  void sort_in_cache(Worker& worker, Bucket& bucket, uint64_t start) {
    this->list_pieces(worker, bucket);
    if (bucket.open_ended) bucket.keys = range_of(worker.pieces);
    worker.cache.load(worker.pieces, bucket.count, bucket.keys);
    this->space().release(bucket.lists);
    this->clear(start, bucket.count);
    worker.cache.store(out_ + start);
  }

  KeyRange range_of(const std::vector<Piece<T>>& pieces) const {
    KeyRange keys = {~uint64_t{0}, 0};
    for (const Piece<T>& piece : pieces) {
      if (piece.count == 0) continue;
      KeyRange here = kernels_.range_of(piece.items, piece.count, options_.order);
      keys = {std::min(keys.low, here.low), std::max(keys.high, here.high)};
    }
    return keys;
  }

  // Stores a bucket of one key. Without values nothing needs to be read. Keys of 128 bits with one
  // high word are then sorted in place, as pairs of their low words.
  void store_one_key(Worker& worker, Bucket& bucket, uint64_t start) {
    if constexpr (std::is_integral_v<T>) {
      this->space().begin_reading(bucket.lists);
      this->space().release(bucket.lists);
      this->clear(start, bucket.count);
      std::fill_n(out_ + start, bucket.count,
                  decode(static_cast<T>(bucket.keys.low), options_.order));
    } else {
      this->copy_out(worker, bucket, start);
    }
    if constexpr (std::is_same_v<T, Key128>) {
      auto* pairs = reinterpret_cast<KeyValue*>(out_ + start);
      Status sorted = or_out_of_memory([&] {
        return sort_in_place(pairs, bucket.count,
                             {.order = {.flip = options_.order.flip != 0 ? ~uint64_t{0} : 0}});
      });
      if (!sorted) worker.status = std::move(sorted);
    }
  }

  // The last resort for a bucket that two more distributions have not made small. Takes its size of
  // memory once more; samples would have to miss again and again.
  void sort_apart(Worker& worker, Bucket& bucket, uint64_t start) {
    std::unique_ptr<T[]> items(new (std::nothrow) T[bucket.count]);
    try {
      if (items != nullptr) this->list_pieces(worker, bucket);
    } catch (const std::bad_alloc&) {
      items.reset();
    }
    if (items == nullptr) return this->store_unsorted(worker, bucket, start);
    T* to = items.get();
    for (const Piece<T>& piece : worker.pieces) {
      kernels_.encode(piece.items, piece.count, options_.order, to);
      to += piece.count;
    }
    this->space().release(bucket.lists);
    this->clear(start, bucket.count);
    quick_sort_to(items.get(), bucket.count, out_ + start);
    kernels_.decode(out_ + start, bucket.count, options_.order);
  }

  T* out_;
  InPlaceOptions options_;
  const Kernels<T>& kernels_ = kernels<T>();
  bool aligned_ = true;
};

// Sorts without the heavy keys, which are put back in any case: until then they exist as counts
// only. Errors: std::bad_alloc, before any item moves.
template <class T>
Status sort_counted(const T* in, size_t count, T* out, const InPlaceOptions& options,
                    std::unique_ptr<HeavyKeys> keys) {
  HeavyCounts<T> heavy(std::move(keys), plan_for<T>(count, options).threads);
  const size_t others = heavy.take_out(in, count, out);
  InPlaceOptions all = options;
  all.first = ~uint64_t{0};
  Status status = or_out_of_memory([&] { return sort_to<T>(out, others, out, all); });
  heavy.put_back(out, others, options.order);
  return status;
}

}  // namespace

// Detects order that exists already, at the cost of reading as far as it goes.
template <class T>
Status sort_to(const T* in, size_t count, T* out, const InPlaceOptions& options) {
  if (count == 0) return {};
  if (!goes_up_and_down(in, count, options.order)) {
    const size_t in_order = kernels<T>().ascending(in, count, options.order);
    if (in_order < count && sort_reversed(in, count, out, options)) return {};
    const size_t appended = count - in_order;
    const bool few = appended <= count / appended_share;
    if (few && in != out) std::memcpy(static_cast<void*>(out), in, count * sizeof(T));
    if (appended == 0) return {};
    if (few) return sort_appended(out, in_order, count, options);
  }
  if (const size_t kept = set_aside(in, count, out, options); kept != 0) {
    in = out;
    if (count - kept <= count / appended_share) return sort_appended(out, kept, count, options);
  }

  if (sorted_by_passes<T>(count)) return sort_by_passes(in, count, out, options.order);
  const ChunkPlan plan = plan_for<T>(count, options);
  if (plan.buckets == 0) return sort_small(in, count, out, options);
  std::vector<uint64_t> sample;
  try {
    sample.resize(plan.sample_items);
    Random random(count);
    for (uint64_t& key : sample) key = key_of(encode(in[random.below(count)], options.order));
    sort_sample(sample);
    if constexpr (std::is_integral_v<T>) {
      if (auto heavy = find_heavy_keys<T>(sample, options.order))
        return sort_counted(in, count, out, options, std::move(heavy));
    }
  } catch (const std::bad_alloc&) {
    return out_of_memory();
  }
  InPlaceSort<T> sorter(in, count, out, options, plan);
  return sorter.run(sample);
}

template <class T>
Status sort_in_place(T* items, size_t count, const InPlaceOptions& options) {
  if (options.sum == nullptr) return sort_to<T>(items, count, items, options);
  ItemSum sum;
  InPlaceOptions summed = options;
  summed.sum = &sum;
  if (auto status = sort_to<T>(items, count, items, summed); !status) return status;
  // The shorter ways add up no items, or not all.
  if (sum.items != count) {
    sum = {};
    kernels<T>().add_to_sum(items, count, sum);
  }
  *options.sum += sum;
  return {};
}

template <class T>
uint64_t extra_bytes(size_t count, const InPlaceOptions& options) {
  const uint64_t extra = sorted_by_passes<T>(count)
                             ? std::max(count * sizeof(T), quick_bytes_max)
                             : extra_bytes_of<T>(plan_for<T>(count, options), count);
  // The copy of the appended items is made after their sort.
  return std::max<uint64_t>(extra, count / appended_share * sizeof(T));
}

#define PENSTOCK_INSTANTIATE(T)                                         \
  template Status sort_in_place(T*, size_t, const InPlaceOptions&);     \
  template Status sort_to(const T*, size_t, T*, const InPlaceOptions&); \
  template uint64_t extra_bytes<T>(size_t, const InPlaceOptions&);
PENSTOCK_INSTANTIATE(uint32_t)
PENSTOCK_INSTANTIATE(uint64_t)
PENSTOCK_INSTANTIATE(KeyValue)
PENSTOCK_INSTANTIATE(Key128)
#undef PENSTOCK_INSTANTIATE

}  // namespace penstock::sorting
