#include "sort/in_place/in_place_sort.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <type_traits>
#include <vector>

#include "base/bits.h"
#include "base/check.h"
#include "base/out_of_memory.h"
#include "base/random.h"
#include "scatter/lines.h"
#include "sort/cache/cache_sort.h"
#include "sort/in_place/choose_map.h"
#include "sort/in_place/chunk_space.h"
#include "sort/in_place/heavy_keys.h"
#include "sort/in_place/in_place_plan.h"
#include "sort/in_place/shorter_ways.h"
#include "sort/kernels/kernels.h"
#include "sort/on_all_threads.h"

// The outline:
//
//   in order already, or backwards?        nothing, or a reversal
//   in order but for what was appended,
//   or stands out of place?                that is sorted, and merged
//   fits the cache?                        CacheSort
//   otherwise, all threads:
//     sample                               bounds of buckets, and about where they will be; keys
//                                          that are so many that they are better counted
//     distribute: every chunk of input     to lists of chunks, a bucket for each thread (ChunkSpace)
//     for each bucket, in order:
//       small                              read it into the cache, sort it there, store it
//       one key                            store it
//       large                              distribute it again, and so on
//
// Memory beside the array: the spare chunks of ChunkSpace, and for each thread a line per bucket
// and the slots of one bucket. Threads share the array and nothing else: the first pass hands out
// rounds of its chunks, which stay the thread's, the second one buckets.
//
// Memory that the system refuses. Everything that a pass needs is there before the pass begins, and lists of chunks
// grow in memory that is reserved (ChunkSpace). A bucket that cannot be sorted without more memory is stored as it
// is: the sort returns out_of_memory, and all items are in the array.
//
// Order and speed. Items of equal keys keep their order when input is read in order: then a thread
// reads one contiguous part, and a bucket is the first thread's list, then the second's, and so on.
// Otherwise input is read in the order that frees chunks where they are needed, by whichever thread
// comes.

namespace penstock::sorting {
namespace {

constexpr uint64_t thread_bytes_min = 4 << 20;  // below, a thread is not worth its start
constexpr size_t chunk_table_bytes = 32;        // of ChunkSpace and lists, for each chunk
constexpr size_t spare_table_bytes = 40;        // of shares, too
constexpr size_t nested_sample_items = 8192;

template <class T>
uint64_t extra_bytes_of(const InPlacePlan& plan, uint64_t items) {
  uint64_t bytes = plan.threads * CacheSort<T>::bytes_needed(plan.cache_items_max);
  if (plan.buckets == 0) return bytes;
  bytes += uint64_t{plan.spare_chunks} * plan.chunk_bytes;
  bytes += plan.threads * LineScatter<T>::bytes_needed(plan.buckets);
  bytes += ceil_div(items * sizeof(T), plan.chunk_bytes) * chunk_table_bytes +
           plan.spare_chunks * spare_table_bytes;
  if (std::is_integral_v<T>) bytes += plan.threads * sizeof(HeavyTally) + sizeof(HeavyKeys);
  return bytes;
}

// As many threads as have enough work, and memory within what is promised.
template <class T>
InPlacePlan plan_for(uint64_t items, const InPlaceOptions& options) {
  const uint64_t bytes = items * sizeof(T);
  auto threads = static_cast<unsigned>(
      std::clamp<uint64_t>(bytes / thread_bytes_min, 1, std::max(options.threads, 1u)));
  for (;; --threads) {
    InPlacePlan plan = plan_in_place(items, sizeof(T), threads, options.stable);
    if (threads == 1 || extra_bytes_of<T>(plan, items) <= extra_bytes_promised(bytes, threads))
      return plan;
  }
}

template <class T>
class InPlaceSort {
 public:
  using List = ChunkSpace::List;

  InPlaceSort(const T* in, size_t count, T* out, const InPlaceOptions& options,
              const InPlacePlan& plan)
      : in_(in),
        out_(out),
        count_(count),
        options_(options),
        plan_(plan),
        threads_(plan_.threads),
        in_order_(options.stable) {}

  // `sample`: encoded keys, sorted.
  Status run(std::span<const uint64_t> sample) {
    try {
      if (auto status = open(); !status) return status;
      choose_buckets(sample);
    } catch (const std::bad_alloc&) {
      return out_of_memory();
    }
    on_all_threads(workers_, [this](Worker& worker) { distribute(worker); });
    place_buckets();
    on_all_threads(workers_, [this](Worker& worker) { finish_buckets(worker); });
    for (const auto& worker : workers_) {
      if (!worker->status) return worker->status;
      if (options_.sum != nullptr) *options_.sum += worker->sum;
    }
    return {};
  }

 private:
  // A bucket's items: the lists of all threads, one behind the other.
  struct Bucket {
    std::vector<List*> lists;
    std::vector<uint64_t> items;  // of each list
    uint64_t count = 0;
    KeyRange keys;
    bool open_ended = false;  // `keys` is wider than the keys
  };

  // What a thread works with.
  struct Worker {
    Worker(unsigned number, CacheSort<T> sorter, uint32_t buckets)
        : index(number), cache(std::move(sorter)), scatter(buckets) {}

    unsigned index;
    CacheSort<T> cache;
    LineScatter<T> scatter;
    ChunkSpace::Share share;  // in place
    std::vector<List> lists;
    std::vector<uint64_t> counts;  // of items, by bucket
    Bucket bucket;                 // with room for the lists of all threads
    std::vector<Piece<T>> pieces;  // with room for those of a bucket that fits the cache
    std::vector<T> chunk;          // where a chunk is kept while its place is cleared
    ItemSum sum;                   // of what stands in its place, if it is asked for
    Status status;                 // out_of_memory: a bucket was stored as it is
  };

  bool in_place() const { return in_ == out_; }

  Status open() {
    // Chunks begin where a line may: at a multiple of 64 bytes, if items allow it.
    T* grid = out_;
    while (reinterpret_cast<uintptr_t>(grid) % 64 != 0 && grid < out_ + 64 / sizeof(T)) ++grid;
    aligned_ = reinterpret_cast<uintptr_t>(grid) % 64 == 0;
    if (!aligned_) grid = out_;
    chunk_items_ = plan_.chunk_bytes / sizeof(T);
    head_items_ = static_cast<size_t>(grid - out_);
    uint64_t chunks = (count_ - head_items_) / chunk_items_;
    tail_start_ = head_items_ + chunks * chunk_items_;
    auto space = ChunkSpace::open({.array = reinterpret_cast<std::byte*>(grid),
                                   .array_bytes = chunks * plan_.chunk_bytes,
                                   .chunk_bytes = plan_.chunk_bytes,
                                   .spare_chunks = plan_.spare_chunks,
                                   .array_is_input = in_place(),
                                   .lists = uint64_t{threads_} * plan_.buckets});
    if (!space) return std::unexpected(space.error());
    space_ = std::move(*space);
    for (unsigned i = 0; i < threads_; ++i) {
      auto cache = CacheSort<T>::open(plan_.cache_items_max, options_.order);
      if (!cache) return std::unexpected(cache.error());
      workers_.push_back(std::make_unique<Worker>(i, std::move(*cache), plan_.buckets));
    }
    return {};
  }

  void choose_buckets(std::span<const uint64_t> sample) {
    map_ = choose_map(sample, plan_.buckets,
                      static_cast<double>(plan_.cache_items_max) / static_cast<double>(count_));
    PENSTOCK_CHECK(plan_.spare_chunks / threads_ > map_.buckets, "too few spare chunks");
    std::vector<uint64_t> shares(map_.buckets, 0);
    for (uint64_t key : sample) ++shares[map_(key)];
    space_->divide(shares, plan_.shift_chunks);
    starts_.assign(map_.buckets + 1, 0);
    for (auto& worker : workers_) {
      open_lists(worker->scatter, worker->lists, map_);
      worker->counts.resize(map_.buckets);
      worker->chunk.resize(chunk_items_);
      worker->bucket.lists.reserve(threads_);
      worker->bucket.items.reserve(threads_);
      worker->pieces.reserve(plan_.cache_items_max / chunk_items_ + threads_ + 1);
    }
    if (!in_place()) return;
    for (auto& worker : workers_) worker->share = space_->share(threads_);
  }

  void open_lists(LineScatter<T>& scatter, std::vector<List>& lists, const BucketMap& map) {
    lists.resize(map.buckets);
    for (uint32_t j = 0; j < map.buckets; ++j) lists[j].region = j;
    if (!aligned_) scatter.expect_unaligned();
  }

  struct Appender {
    InPlaceSort* sort;
    std::vector<List>* lists;
    ChunkSpace::Share* share = nullptr;  // of the thread's own
    bool stays = false;                  // other threads may call clear() at the same time

    static void make_room(void* self, uint32_t bucket, Room& room, const std::byte*) {
      auto* appender = static_cast<Appender*>(self);
      List& list = (*appender->lists)[bucket];
      std::byte* chunk = appender->share != nullptr
                             ? appender->share->append(list)
                             : appender->sort->space_->append(list, appender->stays);
      room = {chunk, chunk + appender->sort->plan_.chunk_bytes};
    }
    RoomMaker maker() { return {make_room, this}; }
  };

  // Writes what lines still hold, and counts.
  uint64_t close_list(LineScatter<T>& scatter, uint32_t bucket, const List& list) {
    scatter.flush(bucket);
    return list.chunks.size() * chunk_items_ - scatter.items_left(bucket);
  }

  // From here on items are on their way, and nothing is allocated.
  void distribute(Worker& worker) noexcept {
    Appender appender = {
        .sort = this, .lists = &worker.lists, .share = in_place() ? &worker.share : nullptr};
    worker.scatter.ask_for_room(appender.maker());
    auto add = [&](const T* items, size_t count, const T* ahead) {
      worker.scatter.add(items, count, map_, options_.order, ahead);
    };
    if (!in_place()) {
      distribute_from_outside(worker, add);
    } else {
      if (worker.index == 0) add(in_, head_items_, in_);
      space_->read_array({worker.index, threads_, in_order_, next_}, worker.share,
                         [&](uint32_t chunk, uint32_t next) {
                           add(reinterpret_cast<const T*>(space_->address(chunk)), chunk_items_,
                               reinterpret_cast<const T*>(space_->address(next)));
                         });
      if (worker.index + 1 == threads_) add(in_ + tail_start_, count_ - tail_start_, in_);
    }
    for (uint32_t j = 0; j < map_.buckets; ++j)
      worker.counts[j] = close_list(worker.scatter, j, worker.lists[j]);
    finish_stores();
    if (in_place()) space_->join(worker.share, worker.lists);
  }

  template <class Add>
  void distribute_from_outside(Worker& worker, Add add) {
    uint64_t jobs = ceil_div(count_, job_items);
    auto read = [&](uint64_t job) {
      uint64_t start = job * job_items;
      auto here = std::min<uint64_t>(job_items, count_ - start);
      add(in_ + start, here, in_ + start + here);
    };
    if (in_order_) {
      for (uint64_t i = jobs * worker.index / threads_; i < jobs * (worker.index + 1) / threads_;
           ++i)
        read(i);
      return;
    }
    for (;;) {
      uint64_t job = next_.fetch_add(1, std::memory_order_relaxed);
      if (job >= jobs) return;
      read(job);
    }
  }

  void place_buckets() {
    for (uint32_t j = 0; j < map_.buckets; ++j) {
      starts_[j + 1] = starts_[j];
      for (unsigned t = 0; t < threads_; ++t) starts_[j + 1] += workers_[t]->counts[j];
    }
    PENSTOCK_CHECK(starts_.back() == count_, "a sort has lost items");
    next_ = 0;
  }

  void finish_buckets(Worker& worker) noexcept {
    for (;;) {
      uint32_t j = next_.fetch_add(1, std::memory_order_relaxed);
      if (j >= map_.buckets) return;
      Bucket& bucket = worker.bucket;
      bucket.lists.clear();
      bucket.items.clear();
      bucket.count = 0;
      for (unsigned t = 0; t < threads_; ++t) {
        if (workers_[t]->counts[j] == 0) continue;
        bucket.lists.push_back(&workers_[t]->lists[j]);
        bucket.items.push_back(workers_[t]->counts[j]);
        bucket.count += workers_[t]->counts[j];
      }
      bucket.keys = map_.keys_of(j);
      bucket.open_ended = j == 0 || j + 1 == map_.buckets;
      finish(worker, bucket, starts_[j], 0);
    }
  }

  // Stores the bucket's items in order at out_ + start.
  void finish(Worker& worker, Bucket& bucket, uint64_t start, unsigned depth) {
    if (bucket.count == 0) return;
    if (start >= options_.first) {
      copy_out(worker, bucket, start);
    } else if (bucket.keys.low == bucket.keys.high) {
      store_one_key(worker, bucket, start);
    } else if (bucket.count <= worker.cache.items_max()) {
      sort_in_cache(worker, bucket, start);
    } else if (depth == 2) {
      sort_apart(worker, bucket, start);
    } else {
      return divide_again(worker, bucket, start, depth);
    }
    if (options_.sum != nullptr) kernels_.add_to_sum(out_ + start, bucket.count, worker.sum);
  }

  // Before anything is read: std::bad_alloc, where a large bucket has more pieces than there is room for.
  void list_pieces(Worker& worker, Bucket& bucket) {
    worker.pieces.clear();
    size_t pieces = 0;
    for (const List* list : bucket.lists) pieces += list->chunks.size();
    worker.pieces.reserve(pieces);
    space_->begin_reading(bucket.lists);
    for (size_t l = 0; l < bucket.lists.size(); ++l) {
      uint64_t left = bucket.items[l];
      for (uint32_t chunk : bucket.lists[l]->chunks) {
        uint64_t here = std::min<uint64_t>(left, chunk_items_);
        worker.pieces.push_back({reinterpret_cast<const T*>(space_->address(chunk)), here});
        left -= here;
      }
    }
  }

  void sort_in_cache(Worker& worker, Bucket& bucket, uint64_t start) {
    list_pieces(worker, bucket);
    if (bucket.open_ended) bucket.keys = range_of(worker.pieces);
    worker.cache.load(worker.pieces, bucket.count, bucket.keys);
    space_->release(bucket.lists);
    clear(start, bucket.count);
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

  void clear(uint64_t start, uint64_t count) {
    space_->clear(reinterpret_cast<const std::byte*>(out_ + start),
                  reinterpret_cast<const std::byte*>(out_ + start + count));
  }

  // Without values nothing needs to be read. Keys of 128 bits that have one high word are pairs by
  // their low ones, and their place is now an array of its own.
  void store_one_key(Worker& worker, Bucket& bucket, uint64_t start) {
    if constexpr (std::is_integral_v<T>) {
      space_->begin_reading(bucket.lists);
      space_->release(bucket.lists);
      clear(start, bucket.count);
      std::fill_n(out_ + start, bucket.count,
                  decode(static_cast<T>(bucket.keys.low), options_.order));
    } else {
      copy_out(worker, bucket, start);
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

  // Items whose order is right, or of no interest.
  void copy_out(Worker& worker, Bucket& bucket, uint64_t start) {
    for (size_t l = 0; l < bucket.lists.size(); ++l) {
      uint64_t left = bucket.items[l];
      for (size_t i = 0; left != 0; ++i) {
        uint64_t here = std::min<uint64_t>(left, chunk_items_);
        std::memcpy(worker.chunk.data(), space_->begin_reading(*bucket.lists[l], i),
                    here * sizeof(T));
        space_->release(*bucket.lists[l], i);
        clear(start, here);
        std::memcpy(static_cast<void*>(out_ + start), worker.chunk.data(), here * sizeof(T));
        start += here;
        left -= here;
      }
    }
  }

  // Memory for the division of a bucket, complete before the first item moves.
  struct Division {
    explicit Division(BucketMap bucket_map)
        : map(std::move(bucket_map)), scatter(map.buckets), counts(map.buckets), all(map.buckets) {}

    BucketMap map;
    LineScatter<T> scatter;
    std::vector<List> lists;
    std::vector<uint64_t> counts;
    std::vector<List*> all;
    Bucket part;
  };

  // Begins to read the bucket. Nothing, where memory does not suffice: then nobody reads it.
  std::optional<Division> prepare_division(Worker& worker, Bucket& bucket, uint64_t start) {
    bool reads = false;
    try {
      list_pieces(worker, bucket);
      reads = true;
      std::vector<uint64_t> sample;
      Random random(start + bucket.count);
      size_t wanted = std::min<size_t>(nested_sample_items, bucket.count / 4);
      sample.reserve(wanted);
      for (size_t i = 0; i < wanted; ++i) {
        const Piece<T>& piece = worker.pieces[random.below(worker.pieces.size())];
        sample.push_back(key_of(encode(piece.items[random.below(piece.count)], options_.order)));
      }
      sort_sample(sample);
      std::optional<Division> division(std::in_place,
                                       choose_map(sample, plan_.nested_buckets,
                                                  static_cast<double>(worker.cache.items_max()) /
                                                      static_cast<double>(bucket.count)));
      open_lists(division->scatter, division->lists, division->map);
      for (uint32_t j = 0; j < division->map.buckets; ++j) {
        division->lists[j].region = bucket.lists.front()->region;
        division->all[j] = &division->lists[j];
      }
      division->part.lists.resize(1);
      division->part.items.resize(1);
      return division;
    } catch (const std::bad_alloc&) {
      if (reads) space_->end_reading(bucket.lists);
      return {};
    }
  }

  void divide_again(Worker& worker, Bucket& bucket, uint64_t start, unsigned depth) {
    std::optional<Division> division = prepare_division(worker, bucket, start);
    if (!division) return store_unsorted(worker, bucket, start);
    auto& [map, scatter, lists, counts, all, part] = *division;
    Appender appender = {.sort = this, .lists = &lists, .stays = true};
    scatter.ask_for_room(appender.maker());
    for (size_t l = 0; l < bucket.lists.size(); ++l) {
      uint64_t left = bucket.items[l];
      for (size_t i = 0; left != 0; ++i) {
        uint64_t here = std::min<uint64_t>(left, chunk_items_);
        const auto* chunk = reinterpret_cast<const T*>(space_->begin_reading(*bucket.lists[l], i));
        scatter.add(chunk, here, map, options_.order, chunk + here);
        space_->release(*bucket.lists[l], i);
        left -= here;
      }
      bucket.lists[l]->chunks.clear();
    }
    for (uint32_t j = 0; j < map.buckets; ++j) counts[j] = close_list(scatter, j, lists[j]);
    finish_stores();
    space_->end_reading(all);
    for (uint32_t j = 0; j < map.buckets; ++j) {
      part.lists[0] = &lists[j];
      part.items[0] = counts[j];
      part.count = counts[j];
      part.keys = map.keys_of(j);
      part.open_ended = j == 0 || j + 1 == map.buckets;
      if (part.count != 0) finish(worker, part, start, depth + 1);
      start += counts[j];
    }
    space_->recycle(all);
  }

  // The last resort: a bucket that two more distributions have not made small. Takes its size of
  // memory once more; samples would have to miss again and again.
  void sort_apart(Worker& worker, Bucket& bucket, uint64_t start) {
    std::unique_ptr<T[]> items(new (std::nothrow) T[bucket.count]);
    if (items == nullptr) return store_unsorted(worker, bucket, start);
    space_->begin_reading(bucket.lists);
    T* to = items.get();
    for (size_t l = 0; l < bucket.lists.size(); ++l) {
      uint64_t left = bucket.items[l];
      for (const uint32_t chunk : bucket.lists[l]->chunks) {
        const uint64_t here = std::min<uint64_t>(left, chunk_items_);
        kernels_.encode(reinterpret_cast<const T*>(space_->address(chunk)), here, options_.order,
                        to);
        to += here;
        left -= here;
      }
    }
    space_->release(bucket.lists);
    clear(start, bucket.count);
    quick_sort_to(items.get(), bucket.count, out_ + start);
    kernels_.decode(out_ + start, bucket.count, options_.order);
  }

  void store_unsorted(Worker& worker, Bucket& bucket, uint64_t start) {
    copy_out(worker, bucket, start);
    worker.status = out_of_memory();
  }

  static constexpr uint64_t job_items = (2u << 20) / sizeof(T);

  const T* in_;
  T* out_;
  size_t count_;
  InPlaceOptions options_;
  InPlacePlan plan_;
  unsigned threads_;
  bool in_order_;
  const Kernels<T>& kernels_ = kernels<T>();

  bool aligned_ = true;
  size_t chunk_items_ = 0;
  size_t head_items_ = 0;  // before the first chunk
  size_t tail_start_ = 0;  // behind the last
  std::unique_ptr<ChunkSpace> space_;
  std::vector<std::unique_ptr<Worker>> workers_;
  BucketMap map_;
  std::atomic<uint32_t> next_{0};
  std::vector<uint64_t> starts_;
};

// Without the heavy keys, which are put back among the others in any case: until then they are counts alone.
// Errors: std::bad_alloc, before any item moves.
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

// Order that is there already is found at the cost of reading as far as it goes.
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
  const InPlacePlan plan = plan_for<T>(count, options);
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
  // The shorter ways do not add up, or not all.
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
  // The copy of what was appended is written when the sort of it is done.
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

}  // namespace penstock::sorting
