#pragma once

// A sort by chunks (ChunkSpace): all threads distribute the array to buckets, then each takes one
// bucket after the other and stores it in order. The sort of items (in_place_sort.cc) and that of
// records (../records/record_sort.cc) derive from it; their essays explain it.
//
// Out of memory. A pass begins when it has all of its memory, and lists of chunks grow in reserved
// memory (ChunkSpace). A bucket that cannot be sorted without more memory is stored unsorted: the
// sort returns out_of_memory, and all items are in the array.

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/bits.h"
#include "base/check.h"
#include "base/out_of_memory.h"
#include "base/random.h"
#include "sorting/scatter/bucket_map.h"
#include "sorting/scatter/lines.h"
#include "sorting/sort/cache/cache_sort.h"
#include "sorting/sort/in_place/choose_map.h"
#include "sorting/sort/in_place/chunk_space.h"
#include "sorting/sort/in_place/in_place_plan.h"
#include "sorting/sort/on_all_threads.h"

namespace penstock::sorting {

// Source of the chunks for a distribution's lists.
struct ChunkSource {
  ChunkSpace* space;
  ChunkSpace::Share* share = nullptr;  // the thread's share
  bool stays = false;                  // other threads may clear places at the same time

  std::byte* append(ChunkSpace::List& list) const {
    return share != nullptr ? share->append(list) : space->append(list, stays);
  }
};

// Tools are a thread's means to sort a bucket. Scatter distributes items:
//   Scatter(const Sort&, const BucketMap&, size_t pos, std::vector<List>&, const ChunkSource&)
//   add(const Item* items, size_t count, const Item* ahead)   `ahead` is read next, unless nullptr
//   count(std::vector<uint64_t>&)                             writes its rest, and counts each list
// Item is the type of an item, or std::byte if item_bytes is its size. The derived Sort has
//   finish(Worker&, Bucket&, uint64_t start, unsigned depth)  stores a bucket in order from `start`
//   common_pos(const Worker&, const Bucket&)                  bytes that all keys have in common;
//                                                             nullopt: all keys are equal
//   key_at(size_t pos)                                        the function from items to numbers
template <class Sort, class Item, class Tools, class Scatter>
class ChunkSort {
 public:
  using List = ChunkSpace::List;

 protected:
  // A bucket's items: the lists of all threads, one behind the other.
  struct Bucket {
    std::vector<List*> lists;
    std::vector<uint64_t> items;  // number in each list
    uint64_t count = 0;
    KeyRange keys;
    bool open_ended = false;  // `keys` is wider than the keys
    size_t pos = 0;           // bytes that the keys of all items have in common

    void begin(const BucketMap& map, uint32_t number, size_t common) {
      lists.clear();
      items.clear();
      count = 0;
      keys = map.keys_of(number);
      open_ended = number == 0 || number + 1 == map.buckets;
      pos = common;
    }
    void add(List& list, uint64_t list_items) {
      if (list_items == 0) return;
      lists.push_back(&list);
      items.push_back(list_items);
      count += list_items;
    }
  };

  // A thread's memory.
  struct Worker : Tools {
    Worker(unsigned number, Tools tools) : Tools(std::move(tools)), index(number) {}

    unsigned index;
    ChunkSpace::Share share;  // in place
    std::vector<List> lists;
    std::vector<uint64_t> counts;     // items of each bucket
    std::optional<Scatter> scatter;   // scatter of the first distribution
    Bucket bucket;                    // capacity for the lists of all threads
    std::vector<Piece<Item>> pieces;  // capacity for those of a bucket that is not divided again
    std::vector<std::byte> chunk;     // buffer for a chunk while its place is cleared
    Status status;                    // out_of_memory: a bucket was stored unsorted
  };

  ChunkSort(const std::byte* in, std::byte* out, size_t count, const ChunkPlan& plan)
      : in_(in), out_(out), count_(count), plan_(plan) {}

  // Chunks begin at `grid`, which is `out` or up to a chunk behind it.
  Status open_space(std::byte* grid) {
    head_items_ = static_cast<size_t>(grid - out_) / plan_.item_bytes;
    const uint64_t chunks = (count_ - head_items_) / plan_.chunk_items;
    tail_start_ = head_items_ + chunks * plan_.chunk_items;
    auto space = ChunkSpace::open({.array = grid,
                                   .array_bytes = chunks * plan_.chunk_bytes(),
                                   .chunk_bytes = plan_.chunk_bytes(),
                                   .spare_chunks = plan_.spare_chunks,
                                   .array_is_input = in_place(),
                                   .lists = uint64_t{plan_.threads} * plan_.buckets});
    if (!space) return std::unexpected(space.error());
    space_ = std::move(*space);
    return {};
  }

  Worker& add_worker(Tools tools) {
    const auto index = static_cast<unsigned>(workers_.size());
    workers_.push_back(std::make_unique<Worker>(index, std::move(tools)));
    return *workers_.back();
  }

  // `sample`: keys, sorted. All items have the first `pos` bytes of their keys in common.
  void choose_buckets(std::span<const uint64_t> sample, size_t pos) {
    map_ = map_for(sample, plan_.buckets, count_);
    pos_ = pos;
    PENSTOCK_CHECK(plan_.spare_chunks / plan_.threads > map_.buckets, "too few spare chunks");
    std::vector<uint64_t> shares(map_.buckets, 0);
    for (const uint64_t key : sample) ++shares[map_(key)];
    space_->divide(shares, plan_.shift_chunks);
    starts_.assign(map_.buckets + 1, 0);
    for (auto& worker : workers_) {
      if (in_place()) worker->share = space_->share(plan_.threads);
      open_lists(worker->lists, map_);
      worker->scatter.emplace(
          sort(), map_, pos_, worker->lists,
          ChunkSource{.space = space_.get(), .share = in_place() ? &worker->share : nullptr});
      worker->counts.resize(map_.buckets);
      worker->chunk.resize(plan_.chunk_bytes());
      worker->bucket.lists.reserve(plan_.threads);
      worker->bucket.items.reserve(plan_.threads);
      worker->pieces.reserve(plan_.bucket_items_max / plan_.chunk_items + plan_.threads + 1);
    }
  }

  // REQUIRES: choose_buckets() has been called.
  Status distribute_and_finish() {
    on_all_threads(workers_, [this](Worker& worker) { distribute(worker); });
    place_buckets();
    on_all_threads(workers_, [this](Worker& worker) { finish_buckets(worker); });
    for (const auto& worker : workers_) {
      if (!worker->status) return worker->status;
    }
    return {};
  }

  bool in_place() const { return in_ == out_; }
  std::byte* place(uint64_t start) const { return out_ + start * plan_.item_bytes; }
  const Item* item(const Item* items, size_t index) const {
    return item(reinterpret_cast<const std::byte*>(items) + index * plan_.item_bytes);
  }

  // Called before anything is read: throws std::bad_alloc if a large bucket has too many pieces.
  void list_pieces(Worker& worker, const Bucket& bucket) {
    worker.pieces.clear();
    size_t pieces = 0;
    for (const List* list : bucket.lists) pieces += list->chunks.size();
    worker.pieces.reserve(pieces);
    space_->begin_reading(bucket.lists);
    for (size_t l = 0; l < bucket.lists.size(); ++l) {
      uint64_t left = bucket.items[l];
      for (const uint32_t chunk : bucket.lists[l]->chunks) {
        const uint64_t here = std::min<uint64_t>(left, plan_.chunk_items);
        worker.pieces.push_back({item(space_->address(chunk)), here});
        left -= here;
      }
    }
  }

  void clear(uint64_t start, uint64_t count) { space_->clear(place(start), place(start + count)); }

  // Stores items whose order is right, or does not matter.
  void copy_out(Worker& worker, const Bucket& bucket, uint64_t start) {
    for (size_t l = 0; l < bucket.lists.size(); ++l) {
      uint64_t left = bucket.items[l];
      for (size_t i = 0; left != 0; ++i) {
        const uint64_t here = std::min<uint64_t>(left, plan_.chunk_items);
        const size_t bytes = here * plan_.item_bytes;
        std::memcpy(worker.chunk.data(), space_->begin_reading(*bucket.lists[l], i), bytes);
        space_->release(*bucket.lists[l], i);
        clear(start, here);
        std::memcpy(place(start), worker.chunk.data(), bytes);
        start += here;
        left -= here;
      }
      bucket.lists[l]->chunks.clear();
    }
  }

  void store_unsorted(Worker& worker, const Bucket& bucket, uint64_t start) {
    copy_out(worker, bucket, start);
    worker.status = out_of_memory();
  }

  void divide_again(Worker& worker, const Bucket& bucket, uint64_t start, unsigned depth) {
    std::unique_ptr<Division> division;
    bool reads = false;
    try {
      list_pieces(worker, bucket);
      reads = true;
      if (const std::optional<size_t> pos = sort().common_pos(worker, bucket)) {
        division = std::make_unique<Division>(*this, nested_map(worker, bucket, start, *pos), *pos,
                                              bucket.lists.front()->region);
      }
    } catch (const std::bad_alloc&) {
      if (reads) space_->end_reading(bucket.lists);
      return store_unsorted(worker, bucket, start);
    }
    if (division == nullptr) {
      // Chunks being read would stand in the way of their own output.
      space_->end_reading(bucket.lists);
      return copy_out(worker, bucket, start);
    }
    size_t piece = 0;
    for (List* list : bucket.lists) {
      for (size_t i = 0; i < list->chunks.size(); ++i, ++piece) {
        const bool more = piece + 1 < worker.pieces.size();
        division->scatter.add(worker.pieces[piece].items, worker.pieces[piece].count,
                              more ? worker.pieces[piece + 1].items : nullptr);
        space_->release(*list, i);
      }
      list->chunks.clear();
    }
    division->scatter.count(division->counts);
    scatter::finish_stores();
    space_->end_reading(division->all);
    for (uint32_t j = 0; j < division->map.buckets; ++j) {
      division->part.begin(division->map, j, division->pos);
      division->part.add(division->lists[j], division->counts[j]);
      if (division->counts[j] != 0) sort().finish(worker, division->part, start, depth + 1);
      start += division->counts[j];
    }
    space_->recycle(division->all);
  }

  const ChunkPlan& plan() const { return plan_; }
  ChunkSpace& space() const { return *space_; }
  const std::vector<std::unique_ptr<Worker>>& workers() const { return workers_; }

 private:
  // Memory for the division of a bucket, complete before the first item moves.
  struct Division {
    Division(ChunkSort& chunk_sort, BucketMap bucket_map, size_t common, uint32_t region)
        : map(std::move(bucket_map)),
          pos(common),
          lists(map.buckets),
          scatter(chunk_sort.sort(), map, pos, lists,
                  ChunkSource{.space = chunk_sort.space_.get(), .stays = true}),
          counts(map.buckets) {
      for (List& list : lists) {
        list.region = region;
        all.push_back(&list);
      }
      part.lists.reserve(1);
      part.items.reserve(1);
    }

    BucketMap map;
    size_t pos;
    std::vector<List> lists;
    Scatter scatter;
    std::vector<uint64_t> counts;
    std::vector<List*> all;
    Bucket part;
  };

  static constexpr size_t nested_sample_items = 8192;
  static constexpr size_t job_bytes = 2 << 20;  // job for input that is not the array

  Sort& sort() { return static_cast<Sort&>(*this); }
  static const Item* item(const std::byte* bytes) { return reinterpret_cast<const Item*>(bytes); }

  BucketMap map_for(std::span<const uint64_t> sample, uint32_t buckets, uint64_t count) const {
    return choose_map(sample, buckets,
                      static_cast<double>(plan_.bucket_items_max) / static_cast<double>(count));
  }

  static void open_lists(std::vector<List>& lists, const BucketMap& map) {
    lists.resize(map.buckets);
    for (uint32_t j = 0; j < map.buckets; ++j) lists[j].region = j;
  }

  // Nothing is allocated from here on, because items are between two places.
  void distribute(Worker& worker) noexcept {
    const auto add = [&](uint64_t start, uint64_t count, const Item* ahead) {
      worker.scatter->add(item(in_ + start * plan_.item_bytes), count, ahead);
    };
    if (!in_place()) {
      distribute_from_outside(worker, add);
    } else {
      if (worker.index == 0) add(0, head_items_, nullptr);
      space_->read_array({worker.index, plan_.threads, plan_.in_order, next_}, worker.share,
                         [&](uint32_t chunk, uint32_t next) {
                           worker.scatter->add(item(space_->address(chunk)), plan_.chunk_items,
                                               item(space_->address(next)));
                         });
      if (worker.index + 1 == plan_.threads) add(tail_start_, count_ - tail_start_, nullptr);
    }
    worker.scatter->count(worker.counts);
    scatter::finish_stores();
    if (in_place()) space_->join(worker.share, worker.lists);
  }

  template <class Add>
  void distribute_from_outside(const Worker& worker, Add add) {
    const uint64_t job_items = job_bytes / plan_.item_bytes;
    const uint64_t jobs = ceil_div(count_, job_items);
    auto read = [&](uint64_t job) {
      const uint64_t start = job * job_items;
      const uint64_t end = std::min<uint64_t>(start + job_items, count_);
      add(start, end - start, item(in_ + end * plan_.item_bytes));
    };
    if (plan_.in_order) {
      const uint64_t end = jobs * (worker.index + 1) / plan_.threads;
      for (uint64_t i = jobs * worker.index / plan_.threads; i < end; ++i) read(i);
      return;
    }
    for (;;) {
      const uint64_t job = next_.fetch_add(1, std::memory_order_relaxed);
      if (job >= jobs) return;
      read(job);
    }
  }

  void place_buckets() {
    for (uint32_t j = 0; j < map_.buckets; ++j) {
      starts_[j + 1] = starts_[j];
      for (const auto& worker : workers_) starts_[j + 1] += worker->counts[j];
    }
    PENSTOCK_CHECK(starts_.back() == count_, "a sort has lost items");
    next_ = 0;
  }

  void finish_buckets(Worker& worker) noexcept {
    for (;;) {
      const uint32_t j = next_.fetch_add(1, std::memory_order_relaxed);
      if (j >= map_.buckets) return;
      worker.bucket.begin(map_, j, pos_);
      for (const auto& from : workers_) worker.bucket.add(from->lists[j], from->counts[j]);
      if (worker.bucket.count != 0) sort().finish(worker, worker.bucket, starts_[j], 0);
    }
  }

  BucketMap nested_map(const Worker& worker, const Bucket& bucket, uint64_t seed, size_t pos) {
    const auto key = sort().key_at(pos);
    Random random(seed + bucket.count);
    std::vector<uint64_t> sample(std::min<size_t>(nested_sample_items, bucket.count / 4 + 1));
    for (uint64_t& number : sample) {
      const Piece<Item>& piece = worker.pieces[random.below(worker.pieces.size())];
      number = key(item(piece.items, random.below(piece.count)));
    }
    sort_sample(sample);
    return map_for(sample, plan_.nested_buckets, bucket.count);
  }

  const std::byte* in_;
  std::byte* out_;
  size_t count_;
  ChunkPlan plan_;

  size_t head_items_ = 0;  // items in front of the first chunk
  size_t tail_start_ = 0;  // start of the items behind the last chunk
  std::unique_ptr<ChunkSpace> space_;
  std::vector<std::unique_ptr<Worker>> workers_;
  BucketMap map_;
  size_t pos_ = 0;
  std::atomic<uint32_t> next_{0};
  std::vector<uint64_t> starts_;
};

}  // namespace penstock::sorting
