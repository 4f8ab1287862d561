#include "external/bucket/item_pairs.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "record/items.h"
#include "sort/in_place/in_place_sort.h"

// The naive way moves items, or pointers to them, and looks at two keys for each step of n log n:
// two misses of the cache. A pair of (eight bytes of the key, place) is a number with eight bytes
// beside it, and those are sorted in place at the speed of numbers, without a look at the items.
//
// The eight bytes begin behind what all keys of the bucket have in common, so that keys which begin
// alike ("http://www.") are told apart as far as possible. What is equal in them is a group, and is
// put right by itself: few by comparing keys; many like the whole, by the eight bytes behind what
// the group has in common. A group whose keys are all equal is sorted by place alone, which is what
// keeps the sort stable and one giant key cheap.
//
// Keys that are made for each item (record/key_order.h) are made anew for each look at them. Groups that
// are not large have theirs made once, and kept while they are put in order.
//
// (Keys end. Eight bytes of a shorter key are filled up with zeros, so a group may hold "a" and
// "a\0" and not be told apart by any eight bytes: such a group is left to comparisons. So is one
// that is `depth_max` deep, that the stack may end, too.)

namespace penstock::external {
namespace {

using sorting::KeyValue;

// Below it a sort by comparisons is as good.
constexpr size_t group_items_min = 64;
constexpr unsigned depth_max = 64;
// Of a group whose keys are kept, and what these take.
constexpr size_t kept_items_max = 4096;
constexpr size_t kept_bytes_max = 256 * KiB;
// What all keys have in common is not worth a look at each of them if it is less.
constexpr size_t common_bytes_min = 3;
constexpr size_t items_looked_at = 256;
// How far ahead of use an item is asked for: a group's, in pairs.
constexpr size_t prefetch_pairs = 16;

size_t common_prefix(std::string_view a, std::string_view b, size_t at_most) {
  const size_t n = std::min({a.size(), b.size(), at_most});
  if (std::memcmp(a.data(), b.data(), n) == 0) return n;
  return static_cast<size_t>(
      std::mismatch(a.begin(), a.begin() + static_cast<ptrdiff_t>(n), b.begin()).first - a.begin());
}

class PairSorter {
  struct Kept {
    uint32_t begin = 0;
    uint32_t end = 0;
    uint64_t place = 0;
  };

 public:
  static constexpr size_t kept_item_bytes = sizeof(Kept);

  PairSorter(const SortOptions& options, const ItemsInMemory& items, unsigned threads)
      : order_(options.order()), format_(options.format), items_(items), threads_(threads) {}

  Status sort(KeyValue* pairs) {
    if (!whole()) return not_what_was_written();
    const size_t skip = common_prefix_of_all();
    if (!make(pairs, skip)) return not_what_was_written();
    if (auto status = sort_by_key({pairs, items_.items}, threads_); !status) return status;
    return order_groups({pairs, items_.items}, 0);
  }

 private:
  // The last line has its newline, so that none is looked for behind the end.
  bool whole() const {
    if (items_.bytes == 0) return items_.items == 0;
    if (format_.fixed()) return items_.bytes == items_.items * format_.record_bytes;
    return items_.end()[-1] == std::byte(format_.line_end);
  }

  static std::unexpected<Error> not_what_was_written() {
    return failure(ErrorCode::corrupt, "find as many items as were written", "temporaries");
  }

  std::string_view key_at(uint64_t place, std::string& room) const {
    return order_.key(item_at(format_, items_.data + place, items_.end()), room);
  }

  // Most data have nothing in common, or next to nothing: a few items tell.
  size_t common_prefix_of_all() const {
    if (items_.items == 0) return 0;
    const std::byte* at = items_.data;
    std::string first_room;
    std::string room;
    const std::string_view first = key_at(0, first_room);
    size_t common = first.size();
    for (size_t item_number = 0; common > 0 && at < items_.end(); ++item_number) {
      if (item_number == items_looked_at && common < common_bytes_min) return 0;
      const std::string_view item = item_at(format_, at, items_.end());
      common = common_prefix(first, order_.key(item, room), common);
      at += item.size();
    }
    return common;
  }

  uint64_t key_from(std::string_view key, size_t skip) const {
    return order_.prefix_of_bytes(key.substr(std::min(skip, key.size())));
  }

  // False: there are not so many.
  bool make(KeyValue* pairs, size_t skip) const {
    uint64_t count = 0;
    std::string room;
    for (const std::byte* at = items_.data; at < items_.end(); ++count) {
      if (count == items_.items) return false;
      const std::string_view item = item_at(format_, at, items_.end());
      pairs[count] = {key_from(order_.key(item, room), skip),
                      static_cast<uint64_t>(at - items_.data)};
      at += item.size();
    }
    return count == items_.items;
  }

  static Status sort_by_key(std::span<KeyValue> pairs, unsigned threads) {
    return sorting::sort_in_place(pairs.data(), pairs.size(), {.order = {}, .threads = threads});
  }

  // Sorted by key: what is equal in it. Where the whole key was in it, nothing is left to do.
  Status order_groups(std::span<KeyValue> pairs, unsigned depth) {
    for (size_t i = 0; i + 1 < pairs.size();) {
      size_t end = i + 1;
      while (end < pairs.size() && pairs[end].key == pairs[i].key) ++end;
      if (end - i > 1) {
        if (auto status = order_group(pairs.subspan(i, end - i), depth); !status) return status;
      }
      i = end;
    }
    return {};
  }

  Status order_group(std::span<KeyValue> group, unsigned depth) {
    if (format_.keys != nullptr && group.size() <= kept_items_max && keep_keys(group))
      return order_by_kept_keys(group);
    if (group.size() < group_items_min || depth == depth_max) return compare(group);
    std::string first_room;
    std::string room;
    const std::string_view first = key_at(group.front().value, first_room);
    size_t common = first.size();
    bool equal = true;
    for (size_t i = 1; i < group.size(); ++i) {
      if (i + prefetch_pairs < group.size())
        __builtin_prefetch(items_.data + group[i + prefetch_pairs].value + format_.key_offset);
      const std::string_view key = key_at(group[i].value, room);
      common = common_prefix(first, key, common);
      equal = equal && common == first.size() && key.size() == first.size();
    }
    if (equal) {
      for (KeyValue& pair : group) pair.key = pair.value;
      return sort_by_key(group, 1);
    }
    for (size_t i = 0; i < group.size(); ++i) {
      if (i + prefetch_pairs < group.size())
        __builtin_prefetch(items_.data + group[i + prefetch_pairs].value + format_.key_offset);
      group[i].key = key_from(key_at(group[i].value, room), common);
    }
    if (auto status = sort_by_key(group, 1); !status) return status;
    if (group.front().key == group.back().key) return compare(group);
    return order_groups(group, depth + 1);
  }

  // Behind what they have in common. False: they take too much room.
  bool keep_keys(std::span<const KeyValue> group) {
    keys_.clear();
    kept_.clear();
    kept_.reserve(kept_items_max);
    size_t common = kept_bytes_max;
    for (size_t i = 0; i < group.size(); ++i) {
      if (i + prefetch_pairs < group.size())
        __builtin_prefetch(items_.data + group[i + prefetch_pairs].value);
      const size_t begin = keys_.size();
      order_.append_key(item_at(format_, items_.data + group[i].value, items_.end()), keys_);
      if (keys_.size() > kept_bytes_max) return false;
      kept_.push_back({.begin = static_cast<uint32_t>(begin),
                       .end = static_cast<uint32_t>(keys_.size()),
                       .place = group[i].value});
      common = common_prefix(kept_key(kept_.front()), kept_key(kept_.back()), common);
    }
    for (Kept& kept : kept_) kept.begin += static_cast<uint32_t>(common);
    return true;
  }

  // By the next eight bytes, as any group; what is equal in these, by the rest.
  Status order_by_kept_keys(std::span<KeyValue> group) {
    for (size_t i = 0; i < group.size(); ++i)
      group[i] = {order_.prefix_of_bytes(kept_key(kept_[i])), i};
    if (auto status = sort_by_key(group, 1); !status) return status;
    auto precedes = [&](const KeyValue& one, const KeyValue& other) {
      const Kept& a = kept_[one.value];
      const Kept& b = kept_[other.value];
      const int order = order_.compare_keys(kept_key(a), kept_key(b));
      return order != 0 ? order < 0 : a.place < b.place;
    };
    for (size_t i = 0, end = 0; i < group.size(); i = end) {
      while (end < group.size() && group[end].key == group[i].key) ++end;
      const auto equal = group.subspan(i, end - i);
      if (equal.size() > 1) std::sort(equal.begin(), equal.end(), precedes);
    }
    for (KeyValue& pair : group) pair.value = kept_[pair.value].place;
    return {};
  }

  std::string_view kept_key(const Kept& kept) const {
    return std::string_view(keys_).substr(kept.begin, kept.end - kept.begin);
  }

  Status compare(std::span<KeyValue> group) const {
    std::string room_a;
    std::string room_b;
    std::sort(group.begin(), group.end(), [&](const KeyValue& a, const KeyValue& b) {
      const int order = order_.compare_keys(key_at(a.value, room_a), key_at(b.value, room_b));
      return order != 0 ? order < 0 : a.value < b.value;
    });
    return {};
  }

  const record::ItemOrder order_;
  const record::Format& format_;
  const ItemsInMemory& items_;
  const unsigned threads_;
  std::string keys_;  // of the group whose keys are kept, one behind the other
  std::vector<Kept> kept_;
};

}  // namespace

Status sort_pairs(const SortOptions& options, const ItemsInMemory& items, sorting::KeyValue* pairs,
                  unsigned threads) {
  return PairSorter(options, items, threads).sort(pairs);
}

uint64_t sort_pairs_extra_bytes(const record::Format& format, uint64_t items, unsigned threads) {
  // A key's room doubles as it grows.
  const uint64_t kept_bytes =
      format.keys == nullptr ? 0
                             : 2 * kept_bytes_max + kept_items_max * PairSorter::kept_item_bytes;
  return sorting::extra_bytes<KeyValue>(items, {.order = {}, .threads = threads}) + kept_bytes;
}

}  // namespace penstock::external
