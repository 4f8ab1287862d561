#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "files/sort/number_encoder.h"
#include "files/sort/number_type.h"
#include "files/sort/split/bucket_ends.h"
#include "files/sort/split/distributor.h"
#include "files/sort/split/number_window.h"
#include "files/sort/split/splitters.h"
#include "items/keys/codec.h"
#include "sorting/scatter/lines.h"
#include "sorting/sort/item.h"

// A number is so small that a branch and a copy to the end of its bucket cost more than the disk
// does. The inner loop is therefore the one of the sort in memory (sorting/scatter/lines.h): items
// gather in a line of 256 bytes for each bucket, and full lines bypass the caches.
//
// One thread makes room when a block ends, once in many thousand items, and everything else happens
// there: the full block is kept, or goes to its bucket's temporary, and a free one takes its place
// (block_keeper.cc). It distributes 2.4 GB/s, which a few disks side by side exceed.
//
// So from some threads on (bucket_plan.cc) each thread counts a window, which takes a quarter more,
// is given room for it in turn, and fills that beside the others (number_window.h): 4 threads are
// 1.8 times and 8 are 2.4 times as fast. Since room is given in turn, equal keys keep their order,
// and each bucket fills one block whatever the number of threads.
//
// A bucket of one key whose items have no values is only counted.
//
// Errors: the inner loop cannot be left, so after the first failed write the rest of the window is
// discarded, and then the run ends.

namespace penstock::external {
namespace {

// Largest bucket of a map by range, as a multiple of its share; else splitters are used.
constexpr double uneven_max = 1.2;

// Cuts the keys into equal ranges if these hold about equally many keys, which is faster to
// classify, and otherwise at the sample's quantiles.
scatter::BucketMap map_for(std::vector<uint64_t> sample, uint32_t buckets) {
  std::sort(sample.begin(), sample.end());
  if (sample.size() >= size_t{8} * buckets && sample.front() != sample.back()) {
    auto map = scatter::BucketMap::by_range({sample.front(), sample.back()}, buckets);
    std::vector<uint64_t> counts(map.buckets, 0);
    for (uint64_t key : sample) ++counts[map(key)];
    uint64_t most = *std::max_element(counts.begin(), counts.end());
    if (static_cast<double>(most) * buckets <= uneven_max * static_cast<double>(sample.size()))
      return map;
  }
  return scatter::BucketMap::by_splitters(number_bounds(std::move(sample), buckets));
}

// Common part of the distributors with one and with several threads.
template <class T>
class NumberDistributor : public Distributor {
 public:
  NumberDistributor(Context& context, const SplitInput& input, scatter::BucketMap map)
      : Distributor(input, map.buckets, sizeof(T)),
        map_(std::move(map)),
        encoder_(context.options.format.type, context.options.descending,
                 input.encoded || items::keys_are_plain(context.options.format.type,
                                                        context.options.descending)),
        block_bytes_(input.arena.block_bytes()),
        keys_(input.keys),
        counted_(map_.buckets) {
    for (uint32_t bucket = 0; bucket < map_.buckets; ++bucket)
      constant_.push_back(constant(bucket));
  }

  void find(const std::byte* at, const std::byte* end, bool, ItemWindow& window) override {
    const size_t bytes = static_cast<size_t>(end - at) / sizeof(T) * sizeof(T);
    window.begin = at;
    window.ends.assign(bytes > 0 ? 1 : 0, bytes);
  }

  void describe(uint32_t number, SplitBucket& bucket) const override {
    bucket.bytes += counted_[number] * sizeof(T);
    bucket.items = bucket.bytes / sizeof(T);
    bucket.keys = keys_of(number);
    bucket.constant = constant_[number];
  }

 protected:
  static constexpr bool has_values = std::is_same_v<T, sorting::KeyValue>;

  bool only_counted(uint32_t bucket) const { return !has_values && constant_[bucket]; }

  const scatter::BucketMap map_;
  NumberEncoder<T> encoder_;
  const uint64_t block_bytes_;

 private:
  scatter::KeyRange keys_of(uint32_t bucket) const {
    scatter::KeyRange keys = map_.keys_of(bucket);
    return {std::max(keys.low, keys_.low), std::min(keys.high, keys_.high)};
  }
  bool constant(uint32_t bucket) const {
    scatter::KeyRange keys = keys_of(bucket);
    return keys.low == keys.high;
  }

  const scatter::KeyRange keys_;

 protected:
  std::vector<uint64_t> counted_;  // items that are not stored
  std::vector<bool> constant_;     // whether a bucket has one key
};

// Distributes with one thread.
template <class T>
class LoneNumberDistributor final : public NumberDistributor<T> {
 public:
  LoneNumberDistributor(Context& context, const SplitInput& input, scatter::BucketMap map)
      : NumberDistributor<T>(context, input, std::move(map)),
        scatter_(map_.buckets),
        unread_blocks_(map_.buckets) {
    scatter_.ask_for_room({[](void* self, uint32_t bucket, scatter::Room& room, const std::byte*) {
                             static_cast<LoneNumberDistributor*>(self)->make_room(bucket, room);
                           },
                           this});
    if (has_values && context.options.unique &&
        std::ranges::find(constant_, true) != constant_.end())
      rests_.resize(map_.buckets);
  }

  std::unique_ptr<ItemWindow> new_window() const override { return std::make_unique<ItemWindow>(); }

  void look(ItemWindow&) const override {}

  void put(ItemWindow& window) override {
    const std::byte* at = window.begin;
    for (auto left = static_cast<size_t>(window.end() - at) / sizeof(T); left > 0;) {
      const std::span<const T> encoded = encoder_.encode(at, left);
      add_encoded(encoded.data(), encoded.size());
      at += encoded.size_bytes();
      left -= encoded.size();
    }
  }

  void close() override {
    for (uint32_t bucket = 0; bucket < map_.buckets; ++bucket) close(bucket);
    scatter::finish_stores();
  }

  void describe(uint32_t number, SplitBucket& bucket) const override {
    NumberDistributor<T>::describe(number, bucket);
    if (!rests_.empty()) bucket.rest = rests_[number].sum;
  }

 private:
  using NumberDistributor<T>::has_values;
  using NumberDistributor<T>::keeper;
  using NumberDistributor<T>::map_;
  using NumberDistributor<T>::encoder_;
  using NumberDistributor<T>::block_bytes_;
  using NumberDistributor<T>::counted_;
  using NumberDistributor<T>::constant_;

  // Sum of the repeats of a constant bucket, of which only the first item is read again.
  struct Rest {
    bool has_first = false;
    ItemSum sum;
  };

  // Adds few items at a time, so that they are still in the cache when they are summed up.
  void add_encoded(const T* encoded, size_t count) {
    constexpr size_t items_max = 8192 / sizeof(T);
    while (count > 0) {
      const size_t here = std::min(count, items_max);
      scatter_.add(encoded, here, map_, {}, encoded + here);
      this->read += sum_of(std::span(encoded, here));
      if (!rests_.empty()) add_to_rests(encoded, here);
      encoded += here;
      count -= here;
    }
  }

  void add_to_rests(const T* encoded, size_t count) {
    for (const T& item : std::span(encoded, count)) {
      const uint32_t bucket = map_(scatter::key_of(item));
      if (!constant_[bucket]) continue;
      Rest& rest = rests_[bucket];
      if (rest.has_first) rest.sum += sorting::sum_of_one(item);
      rest.has_first = true;
    }
  }

  // Called by the inner loop when the bucket has no block or a full one.
  void make_room(uint32_t bucket, scatter::Room& room) {
    if (unread_blocks_[bucket] != nullptr) {
      counted_[bucket] += block_bytes_ / sizeof(T);
      room = block_at(unread_blocks_[bucket]);
      return;
    }
    const bool first = !keeper.has_block(bucket);
    scatter::finish_stores();  // any full block may be written now
    std::byte* block = keeper.next_block(bucket);
    if (first && this->only_counted(bucket)) unread_blocks_[bucket] = block;
    room = block_at(block);
  }
  scatter::Room block_at(std::byte* block) const { return {block, block + block_bytes_}; }

  // Counts the items in the bucket's line and in its last block.
  void close(uint32_t bucket) {
    scatter_.flush(bucket);
    if (!keeper.has_block(bucket)) return;
    const uint64_t rest = block_bytes_ / sizeof(T) - scatter_.items_left(bucket);
    if (unread_blocks_[bucket] == nullptr) return keeper.close(bucket, rest * sizeof(T));
    counted_[bucket] += rest;
    keeper.drop(bucket);
  }

  scatter::LineScatter<T> scatter_;
  std::vector<std::byte*> unread_blocks_;  // scratch blocks of counted buckets, reused when full
  std::vector<Rest> rests_;                // empty if all items are read again or equal their key
};

// Distributes with several threads.
template <class T>
class SharedNumberDistributor final : public NumberDistributor<T> {
 public:
  SharedNumberDistributor(Context& context, const SplitInput& input, scatter::BucketMap map)
      : NumberDistributor<T>(context, input, std::move(map)),
        ends_(keeper, map_.buckets, block_bytes_) {
    PENSTOCK_CHECK(!(has_values && context.options.unique),
                   "one thread distributes pairs whose repeats are dropped");
  }

  std::unique_ptr<ItemWindow> new_window() const override {
    return std::make_unique<NumberWindow<T>>(map_, encoder_);
  }

  void look(ItemWindow& window) const override { numbers(window).count(); }

  void put(ItemWindow& window) override {
    NumberWindow<T>& numbers = this->numbers(window);
    uint64_t blocks = 0;
    for (uint32_t bucket = 0; bucket < map_.buckets; ++bucket) {
      if (!this->only_counted(bucket))
        blocks += ends_.blocks_for(bucket, numbers.items(bucket) * sizeof(T));
    }
    PENSTOCK_CHECK(keeper.can_provide(blocks), "the plan has two blocks for each bucket");
    keeper.provide(blocks);
    window.fill_number = keeper.begin_fill();
    for (uint32_t bucket = 0; bucket < map_.buckets; ++bucket) {
      if (this->only_counted(bucket)) {
        this->counted_[bucket] += numbers.items(bucket);
        continue;
      }
      ends_.allocate(bucket, numbers.items(bucket) * sizeof(T),
                     [&](std::byte* from, std::byte* to) { numbers.add_room(bucket, from, to); });
    }
    this->read += window.sum;
  }

  void fill(ItemWindow& window) override {
    numbers(window).fill();
    keeper.end_fill(*window.fill_number);
  }

  void close() override { ends_.close(); }

 private:
  using NumberDistributor<T>::has_values;
  using NumberDistributor<T>::keeper;
  using NumberDistributor<T>::map_;
  using NumberDistributor<T>::encoder_;
  using NumberDistributor<T>::block_bytes_;

  static NumberWindow<T>& numbers(ItemWindow& window) {
    return static_cast<NumberWindow<T>&>(window);
  }

  BucketEnds ends_;
};

}  // namespace

std::unique_ptr<Distributor> number_distributor(Context& context, const SplitInput& input,
                                                std::vector<uint64_t> sample) {
  return with_number_type(
      context.options.format.type, [&]<class T>() -> std::unique_ptr<Distributor> {
        auto map = map_for(std::move(sample), input.plan.buckets);
        if (input.plan.split_threads > 1)
          return std::make_unique<SharedNumberDistributor<T>>(context, input, std::move(map));
        return std::make_unique<LoneNumberDistributor<T>>(context, input, std::move(map));
      });
}

}  // namespace penstock::external
