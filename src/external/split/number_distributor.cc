#include <algorithm>
#include <cstring>

#include "external/number_encoder.h"
#include "external/number_type.h"
#include "external/split/distributor.h"
#include "external/split/splitters.h"
#include "record/codec.h"
#include "scatter/lines.h"
#include "sort/item.h"

// The naive way copies every number to the end of its bucket and looks whether there is room, and a
// number is so small that a branch and a copy for each cost more than the disk does. Here the inner
// loop is the one of the sort in memory (scatter/lines.h): items gather in a line of 256 bytes
// for each bucket, and full lines go past the caches into the bucket's block. Where a block ends
// the loop asks for room, once in many thousand items, and everything else happens there: the full
// block is kept, or goes to its bucket's temporary, and a free one takes its place
// (block_keeper.cc).
//
// A bucket of one key whose items have no values is only counted.
//
// Errors: the inner loop cannot be left, so after the first failed write the rest of the window is
// thrown away, and then the run ends.

namespace penstock::external {
namespace {

// By range, if no bucket gets more than this many times its share by the sample; else by splitters.
constexpr double uneven_max = 1.2;

// Cuts the keys into equal ranges where these hold about equally much, which is faster to
// classify, or else where the sample says.
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

template <class T>
class NumberDistributor final : public Distributor {
 public:
  NumberDistributor(Context& context, const SplitInput& input, scatter::BucketMap map)
      : Distributor(input, map.buckets, sizeof(T)),
        options_(context.options),
        encoder_(
            options_.format.type, options_.descending,
            input.encoded || record::keys_are_plain(options_.format.type, options_.descending)),
        map_(std::move(map)),
        keys_(input.keys),
        block_items_(input.arena.block_bytes() / sizeof(T)),
        scatter_(map_.buckets),
        counted_(map_.buckets) {
    scatter_.ask_for_room({[](void* self, uint32_t bucket, scatter::Room& room, const std::byte*) {
                             static_cast<NumberDistributor*>(self)->make_room(bucket, room);
                           },
                           this});
    if (!has_values || !options_.unique) return;
    for (uint32_t bucket = 0; bucket < map_.buckets; ++bucket)
      constant_.push_back(constant(bucket));
    if (std::ranges::find(constant_, true) != constant_.end()) rests_.resize(map_.buckets);
  }

  // The inner loop does all at once.
  bool looks() const override { return false; }
  void find(const std::byte* at, const std::byte* end, bool, ItemWindow& window) override {
    const size_t bytes = static_cast<size_t>(end - at) / sizeof(T) * sizeof(T);
    window.begin = at;
    window.ends.assign(bytes > 0 ? 1 : 0, bytes);
  }
  void look(ItemWindow&) const override {}

  void put(const ItemWindow& window) override {
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
    bucket.bytes += counted_[number].items * sizeof(T);
    bucket.items = bucket.bytes / sizeof(T);
    bucket.keys = keys_of(number);
    bucket.constant = constant(number);
    if (!rests_.empty()) bucket.rest = rests_[number].sum;
  }

 private:
  using Scatter = scatter::LineScatter<T>;
  static constexpr bool has_values = std::is_same_v<T, sorting::KeyValue>;

  // Of one key and no values: its block is filled again and again.
  struct Counted {
    std::byte* block = nullptr;
    uint64_t items = 0;
  };
  // Of buckets of which only the first item is read again: what the others add up to.
  struct Rest {
    bool has_first = false;
    ItemSum sum;
  };

  scatter::KeyRange keys_of(uint32_t bucket) const {
    scatter::KeyRange keys = map_.keys_of(bucket);
    return {std::max(keys.low, keys_.low), std::min(keys.high, keys_.high)};
  }
  bool constant(uint32_t bucket) const {
    scatter::KeyRange keys = keys_of(bucket);
    return keys.low == keys.high;
  }

  // So few at a time that what was just distributed is in the cache when it is added up.
  void add_encoded(const T* encoded, size_t count) {
    constexpr size_t items_max = 8192 / sizeof(T);
    while (count > 0) {
      const size_t here = std::min(count, items_max);
      scatter_.add(encoded, here, map_, {}, encoded + here);
      read += sum_of(std::span(encoded, here));
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

  // In the inner loop: the bucket has no block, or it is full.
  void make_room(uint32_t bucket, scatter::Room& room) {
    Counted& counted = counted_[bucket];
    if (counted.block != nullptr) {
      counted.items += block_items_;
      room = block_at(counted.block);
      return;
    }
    const bool first = !keeper.has_block(bucket);
    scatter::finish_stores();  // any full block may be written now
    std::byte* block = keeper.next_block(bucket);
    if (first && !has_values && constant(bucket)) counted.block = block;
    room = block_at(block);
  }
  scatter::Room block_at(std::byte* block) const {
    return {block, block + block_items_ * sizeof(T)};
  }

  // What its line and its present block hold is counted.
  void close(uint32_t bucket) {
    scatter_.flush(bucket);
    if (!keeper.has_block(bucket)) return;
    const uint64_t rest = block_items_ - scatter_.items_left(bucket);
    if (counted_[bucket].block == nullptr) return keeper.close(bucket, rest * sizeof(T));
    counted_[bucket].items += rest;
    keeper.drop(bucket);
  }

  const SortOptions& options_;
  NumberEncoder<T> encoder_;
  const scatter::BucketMap map_;
  const scatter::KeyRange keys_;
  const size_t block_items_;
  Scatter scatter_;
  std::vector<Counted> counted_;
  std::vector<bool> constant_;
  std::vector<Rest> rests_;  // empty: every item is read again, or is its key
};

}  // namespace

std::unique_ptr<Distributor> number_distributor(Context& context, const SplitInput& input,
                                                std::vector<uint64_t> sample) {
  return with_number_type(context.options.format.type,
                          [&]<class T>() -> std::unique_ptr<Distributor> {
                            return std::make_unique<NumberDistributor<T>>(
                                context, input, map_for(std::move(sample), input.plan.buckets));
                          });
}

}  // namespace penstock::external
