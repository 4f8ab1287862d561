#include "external/bucket/item_pairs.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "external/bucket/key_bits.h"
#include "record/items.h"
#include "record/line_ends.h"
#include "sort/in_place/in_place_sort.h"

// The naive way moves items, or pointers to them, and looks at two keys for each step of n log n:
// two misses of the cache. A pair of (a number made of the key, place) is a number with eight bytes
// beside it, and those are sorted in place at the speed of numbers, without a look at the items.
//
// The number tells as much of the key as it can: the bits in which the bucket's keys differ
// (key_bits.h). What is equal in them is a group, and is put right by itself: few by comparing keys;
// many like the whole, by the bits behind those that are equal. Often there is nothing to put right,
// because the numbers were complete.
//
// Keys that are made for each item (record/key_order.h) would be made anew for each look at them. So
// their numbers are the eight bytes behind what all have in common; and groups that are not large have
// theirs made once, and kept while they are put in order.
//
// (Keys end. What is behind the end of a shorter key is filled up with zeros, so a group may hold "a"
// and "a\0" and not be told apart by any number: such a group is left to comparisons. So is one that is
// `group_depth_max` deep, that the stack may end, too.)

namespace penstock::external {
namespace {

using sorting::KeyValue;

// Below it a sort by comparisons is as good.
constexpr size_t group_items_min = 64;
constexpr unsigned group_depth_max = 64;
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
      : order_(options.order()),
        format_(options.format),
        items_(items),
        threads_(threads),
        bits_(order_.descending()) {}

  Status sort(KeyValue* pairs) {
    if (!whole()) return not_what_was_written();
    const std::span<KeyValue> all(pairs, items_.items);
    bool complete = false;
    if (format_.keys != nullptr) {
      if (!make_from_keys(all)) return not_what_was_written();
    } else {
      if (!find_items(all)) return not_what_was_written();
      if (all.empty()) return {};
      see_window(all);
      number(all);
      complete = bits_.complete();
    }
    if (auto status = sort_by_key(all, threads_); !status) return status;
    return order_groups(all, {.covered = bits_.covered(), .complete = complete});
  }

 private:
  // What is known of groups of equal numbers.
  struct Known {
    size_t covered = 0;     // their keys are alike up to here
    bool complete = false;  // their keys are equal
    unsigned depth = 0;
  };

  // The last line has its newline, so that none is looked for behind the end.
  bool whole() const {
    if (items_.bytes == 0) return items_.items == 0;
    if (format_.fixed()) return items_.bytes == items_.items * format_.record_bytes;
    return !format_.lines() || items_.end()[-1] == std::byte(format_.line_end);
  }

  static std::unexpected<Error> not_what_was_written() {
    return failure(ErrorCode::corrupt, "find as many items as were written", "temporaries");
  }

  std::string_view item_of(const KeyValue& pair) const {
    return ItemPlace(pair.value).item(format_, items_);
  }
  std::string_view key_of(const KeyValue& pair, std::string& room) const {
    return format_.keys != nullptr ? order_.key(item_of(pair), room) : plain_key_of(pair);
  }
  // A part of the item. Every line has its end here, which need not be looked at.
  std::string_view plain_key_of(const KeyValue& pair) const {
    const std::string_view item = item_of(pair);
    if (!format_.lines()) return record::key_of(format_, item);
    return item.substr(0, item.size() - 1);
  }

  // False: there are not so many.
  bool find_items(std::span<KeyValue> pairs) const {
    if (format_.lines() && !format_.csv) return find_lines(pairs);
    const std::byte* at = items_.data;
    for (KeyValue& pair : pairs) {
      const size_t bytes = record::item_bytes_at(format_, at, items_.end());
      if (bytes == 0) return false;
      pair.value = ItemPlace(static_cast<uint64_t>(at - items_.data), bytes).value();
      at += bytes;
    }
    return at == items_.end();
  }

  bool find_lines(std::span<KeyValue> pairs) const {
    size_t ends[512];
    const std::byte* at = items_.data;
    for (size_t i = 0; i < pairs.size();) {
      const size_t count = record::find_line_ends(at, items_.end(), format_.line_end, ends,
                                                  std::min(std::size(ends), pairs.size() - i));
      if (count == 0) return false;
      const auto offset = static_cast<uint64_t>(at - items_.data);
      size_t begin = 0;
      for (size_t k = 0; k < count; begin = ends[k++])
        pairs[i + k].value = ItemPlace(offset + begin, ends[k] - begin).value();
      i += count;
      at += begin;
    }
    return at == items_.end();
  }

  // The next items of a group, each at its own place: what is `from` bytes behind the beginning of the key.
  void prefetch(std::span<const KeyValue> pairs, size_t i, size_t from = 0) const {
    if (i + prefetch_pairs >= pairs.size()) return;
    __builtin_prefetch(items_.data + ItemPlace(pairs[i + prefetch_pairs].value).offset() +
                       format_.key_offset + from);
  }

  // To be looked through are the keys, which are alike up to `from`. REQUIRES: there is one.
  void look(std::span<const KeyValue> pairs, size_t from) {
    bits_.start(plain_key_of(pairs.front()), from);
    for (size_t i = 0; i < pairs.size(); ++i) {
      prefetch(pairs, i, from);
      bits_.look(plain_key_of(pairs[i]));
    }
    bits_.choose();
  }
  // Through the first window that shows a difference; and through one that begins there, if there is
  // more to be seen.
  void see_window(std::span<const KeyValue> pairs, size_t from = 0) {
    look(pairs, from);
    while (bits_.all_alike() && bits_.bytes_max() > bits_.covered()) look(pairs, bits_.covered());
    if (bits_.has_room() && bits_.first_difference() > from) look(pairs, bits_.first_difference());
  }
  void number(std::span<KeyValue> pairs) const {
    for (size_t i = 0; i < pairs.size(); ++i) {
      prefetch(pairs, i, bits_.from());
      pairs[i].key = bits_.of(plain_key_of(pairs[i]));
    }
  }

  // ---- keys that are made

  // What the first keys have in common, which others may have less of. Most data have nothing in
  // common, or next to nothing, and that is not worth a look at each of them.
  size_t common_prefix_of_some() const {
    const std::byte* at = items_.data;
    std::string first_room;
    std::string room;
    std::string_view first;
    size_t common = 0;
    for (size_t number = 0; number < items_looked_at && at < items_.end(); ++number) {
      const std::string_view item = item_at(format_, at, items_.end());
      if (number == 0) {
        first = order_.key(item, first_room);
        common = first.size();
      }
      common = common_prefix(first, order_.key(item, room), common);
      at += item.size();
    }
    return common < common_bytes_min ? 0 : common;
  }

  uint64_t key_from(std::string_view key, size_t skip) const {
    return order_.prefix_of_bytes(key.substr(std::min(skip, key.size())));
  }

  // False: there are not so many.
  bool make_from_keys(std::span<KeyValue> pairs) const {
    if (pairs.empty()) return true;
    std::string first_room;
    std::string room;
    size_t skip = common_prefix_of_some();
    const std::string_view first =
        order_.key(item_at(format_, items_.data, items_.end()), first_room);
    for (;;) {
      const std::byte* at = items_.data;
      // What all have in common: numbers made with a larger one are made once more.
      size_t common = skip;
      for (KeyValue& pair : pairs) {
        const size_t bytes = record::item_bytes_at(format_, at, items_.end());
        if (bytes == 0) return false;
        const std::string_view key = order_.key(record::text_at(at, bytes), room);
        if (common > 0) common = common_prefix(first, key, common);
        pair = {key_from(key, skip),
                ItemPlace(static_cast<uint64_t>(at - items_.data), bytes).value()};
        at += bytes;
      }
      if (at != items_.end()) return false;
      if (common == skip) return true;
      skip = common;
    }
  }

  // ---- groups

  static Status sort_by_key(std::span<KeyValue> pairs, unsigned threads) {
    return sorting::sort_in_place(pairs.data(), pairs.size(), {.order = {}, .threads = threads});
  }

  // Sorted by number: what is equal in it.
  Status order_groups(std::span<KeyValue> pairs, const Known& known) {
    for (size_t i = 0; i < pairs.size();) {
      size_t end = i + 1;
      while (end < pairs.size() && pairs[end].key == pairs[i].key) ++end;
      if (end - i == 1) {
        pairs[i].key = 0;
      } else if (auto status = order_group(pairs.subspan(i, end - i), known); !status) {
        return status;
      }
      i = end;
    }
    return {};
  }

  Status order_group(std::span<KeyValue> group, const Known& known) {
    if (known.complete) return order_equal(group);
    if (format_.keys != nullptr && group.size() <= kept_items_max && keep_keys(group))
      return order_by_kept_keys(group);
    if (group.size() < group_items_min || known.depth == group_depth_max)
      return compare(group, known.covered);
    return format_.keys != nullptr ? divide_made(group, known) : divide(group, known);
  }

  // Their keys are equal: they stay as they lie.
  Status order_equal(std::span<KeyValue> group) {
    if (!equal_keys_are_equal(format_)) {
      if (group.size() < group_items_min) {
        std::sort(group.begin(), group.end(),
                  [](const KeyValue& a, const KeyValue& b) { return a.value < b.value; });
      } else {
        for (KeyValue& pair : group) pair.key = pair.value;
        if (auto status = sort_by_key(group, 1); !status) return status;
      }
    }
    for (KeyValue& pair : group) pair.key = 1;
    group.front().key = 0;
    return {};
  }

  Status divide(std::span<KeyValue> group, const Known& known) {
    see_window(group, known.covered);
    if (bits_.all_alike()) return bits_.complete() ? order_equal(group) : compare(group, 0);
    number(group);
    const Known then{
        .covered = bits_.covered(), .complete = bits_.complete(), .depth = known.depth + 1};
    if (auto status = sort_by_key(group, 1); !status) return status;
    return order_groups(group, then);
  }

  Status divide_made(std::span<KeyValue> group, const Known& known) {
    std::string first_room;
    std::string room;
    const std::string_view first = key_of(group.front(), first_room);
    size_t common = first.size();
    bool equal = true;
    for (size_t i = 1; i < group.size(); ++i) {
      prefetch(group, i);
      const std::string_view key = key_of(group[i], room);
      common = common_prefix(first, key, common);
      equal = equal && common == first.size() && key.size() == first.size();
    }
    if (equal) return order_equal(group);
    for (size_t i = 0; i < group.size(); ++i) {
      prefetch(group, i);
      group[i].key = key_from(key_of(group[i], room), common);
    }
    if (auto status = sort_by_key(group, 1); !status) return status;
    if (group.front().key == group.back().key) return compare(group, 0);
    return order_groups(group, {.depth = known.depth + 1});
  }

  // Behind what they have in common. False: they take too much room.
  bool keep_keys(std::span<const KeyValue> group) {
    keys_.clear();
    kept_.clear();
    kept_.reserve(kept_items_max);
    size_t common = kept_bytes_max;
    for (size_t i = 0; i < group.size(); ++i) {
      prefetch(group, i);
      const size_t begin = keys_.size();
      order_.append_key(item_of(group[i]), keys_);
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
      for (size_t k = equal.size(); k-- > 1;)
        equal[k].key = kept_key(kept_[equal[k].value]) == kept_key(kept_[equal[k - 1].value]);
      equal.front().key = 0;
    }
    for (KeyValue& pair : group) pair.value = kept_[pair.value].place;
    return {};
  }

  std::string_view kept_key(const Kept& kept) const {
    return std::string_view(keys_).substr(kept.begin, kept.end - kept.begin);
  }

  // Keys that are alike up to `covered`.
  Status compare(std::span<KeyValue> group, size_t covered) const {
    std::string room_a;
    std::string room_b;
    auto order_of = [&](const KeyValue& a, const KeyValue& b) {
      const std::string_view left = key_of(a, room_a);
      const std::string_view right = key_of(b, room_b);
      // Zeros that fill up a shorter one are no part of it.
      const size_t from = std::min({covered, left.size(), right.size()});
      return order_.compare_keys(left.substr(from), right.substr(from));
    };
    std::sort(group.begin(), group.end(), [&](const KeyValue& a, const KeyValue& b) {
      const int order = order_of(a, b);
      return order != 0 ? order < 0 : a.value < b.value;
    });
    group.front().key = 0;
    for (size_t i = 1; i < group.size(); ++i) group[i].key = order_of(group[i - 1], group[i]) == 0;
    return {};
  }

  const record::ItemOrder order_;
  const record::Format& format_;
  const ItemsInMemory& items_;
  const unsigned threads_;
  KeyBits bits_;
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
