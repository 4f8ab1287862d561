#include "files/sort/bucket/item_pairs.h"

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "items/items.h"
#include "sorting/sort/in_place/in_place_sort.h"
#include "sorting/sort/strings/string_pairs.h"

// Items are found, and get a pair each; the pairs are sorted as strings in memory are
// (sorting/sort/strings/string_pairs.h).
//
// Keys that are computed from each item (items/keys/key_order.h) would be computed anew for each look
// at them. So their numbers are the eight bytes behind the prefix that all keys share; and groups
// that are not large have their keys computed once, and kept while the group is put in order.

namespace penstock::external {
namespace {

using sorting::KeyValue;

// Most items and bytes of a group whose keys are kept.
constexpr size_t kept_items_max = 4096;
constexpr size_t kept_bytes_max = 256 * KiB;
// Least length of a common prefix that is worth a comparison with every key.
constexpr size_t common_bytes_min = 3;
constexpr size_t items_looked_at = 256;

std::unexpected<Error> not_what_was_written() {
  return failure(ErrorCode::corrupt, "find as many items as were written", "temporaries");
}

// A last line needs its newline, so that none is searched for behind the end.
bool is_whole(const items::Format& format, const ItemsInMemory& items) {
  if (items.bytes == 0 || items.items == 0) return items.bytes == items.items;
  if (format.fixed()) return items.bytes == items.items * format.record_bytes;
  return !format.has_line_ends() || items.end()[-1] == std::byte(format.line_end);
}

// Calls use(number, item) for each item. Returns false if there are not `count`.
template <class Use>
bool pass_items(const items::Format& format, const ItemsInMemory& items, size_t count, Use use) {
  size_t ends[512];
  const std::byte* at = items.data;
  for (size_t i = 0; i < count;) {
    const size_t found =
        items::find_item_ends(format, at, items.end(), ends, std::min(std::size(ends), count - i));
    if (found == 0) return false;
    size_t begin = 0;
    for (size_t k = 0; k < found; begin = ends[k++])
      use(i + k, items::text_at(at + begin, ends[k] - begin));
    i += found;
    at += begin;
  }
  return at == items.end();
}

ItemPlace place_of(const ItemsInMemory& items, std::string_view item) {
  const auto* const at = reinterpret_cast<const std::byte*>(item.data());
  return {static_cast<uint64_t>(at - items.data), item.size()};
}

// Gives each pair its item's place. False: there are not so many.
bool find_items(const items::Format& format, const ItemsInMemory& items,
                std::span<KeyValue> pairs) {
  return pass_items(format, items, pairs.size(), [&](size_t i, std::string_view item) {
    pairs[i].value = place_of(items, item).value();
  });
}

// Keys that are a part of their item. A line's key is all but its end, which needs no search.
class PlainKeys {
 public:
  PlainKeys(const items::Format& format, const ItemsInMemory& items)
      : format_(format), has_line_ends_(format.has_line_ends()), items_(items) {}

  std::string_view key(uint64_t value) const {
    const std::string_view item = ItemPlace(value).item(format_, items_);
    return has_line_ends_ ? item.substr(0, item.size() - 1) : items::key_of(format_, item);
  }
  void prefetch(uint64_t value, size_t from) const {
    __builtin_prefetch(items_.data + ItemPlace(value).offset() + format_.key_offset + from);
  }
  void prefetch_place(uint64_t) const {}
  bool equal_are_alike() const { return format_.equal_keys_are_equal(); }

 private:
  const items::Format& format_;
  const bool has_line_ends_;
  const ItemsInMemory& items_;
};

class MadeKeyPairs {
  struct Kept {
    uint32_t begin = 0;
    uint32_t end = 0;
    uint64_t place = 0;
  };

 public:
  static constexpr size_t kept_item_bytes = sizeof(Kept);

  MadeKeyPairs(const SortOptions& options, const ItemsInMemory& items)
      : order_(options.order()), format_(options.format), items_(items) {}

  Status sort(std::span<KeyValue> pairs, unsigned threads) {
    if (pairs.empty()) return {};
    if (!make_from_keys(pairs)) return not_what_was_written();
    if (auto status = sorting::sort_by_number(pairs, threads); !status) return status;
    return order(pairs, 0);
  }

 private:
  std::string_view item_of(const KeyValue& pair) const {
    return ItemPlace(pair.value).item(format_, items_);
  }
  std::string_view key_of(const KeyValue& pair, std::string& room) const {
    return order_.key(item_of(pair), room);
  }
  // Prefetches the next items of a group, which lie at places of their own.
  void prefetch(std::span<const KeyValue> pairs, size_t i) const {
    if (i + sorting::prefetch_pairs >= pairs.size()) return;
    __builtin_prefetch(items_.data + ItemPlace(pairs[i + sorting::prefetch_pairs].value).offset());
  }

  // Common prefix of the first keys, an upper bound on that of all keys. Most data have next to no
  // common prefix, and then every key need not be compared.
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
      common = sorting::common_prefix(first, order_.key(item, room), 0, common);
      at += item.size();
    }
    return common < common_bytes_min ? 0 : common;
  }

  uint64_t key_from(std::string_view key, size_t skip) const {
    return order_.prefix_of_bytes(key.substr(std::min(skip, key.size())));
  }

  // Computes the pairs of all items. Returns false if there are not so many.
  bool make_from_keys(std::span<KeyValue> pairs) const {
    std::string first_room;
    std::string room;
    size_t skip = common_prefix_of_some();
    const std::string_view first =
        order_.key(item_at(format_, items_.data, items_.end()), first_room);
    for (;;) {
      // Common prefix of all keys. If it is shorter than `skip`, numbers are computed again.
      size_t common = skip;
      const bool found_all =
          pass_items(format_, items_, pairs.size(), [&](size_t i, std::string_view item) {
            const std::string_view key = order_.key(item, room);
            if (common > 0) common = sorting::common_prefix(first, key, 0, common);
            pairs[i] = {key_from(key, skip), place_of(items_, item).value()};
          });
      if (!found_all) return false;
      if (common == skip) return true;
      skip = common;
    }
  }

  // ---- groups

  Status order(std::span<KeyValue> pairs, unsigned depth) {
    return sorting::order_groups(
        pairs, [&](std::span<KeyValue> group) { return order_group(group, depth); });
  }

  Status order_group(std::span<KeyValue> group, unsigned depth) {
    if (group.size() <= kept_items_max && keep_keys(group)) return order_by_kept_keys(group);
    if (group.size() < sorting::group_items_min || depth == sorting::group_depth_max)
      return compare(group);
    return divide(group, depth);
  }

  Status divide(std::span<KeyValue> group, unsigned depth) {
    std::string first_room;
    std::string room;
    const std::string_view first = key_of(group.front(), first_room);
    size_t common = first.size();
    bool equal = true;
    for (size_t i = 1; i < group.size(); ++i) {
      prefetch(group, i);
      const std::string_view key = key_of(group[i], room);
      common = sorting::common_prefix(first, key, 0, common);
      equal = equal && common == first.size() && key.size() == first.size();
    }
    if (equal) return sorting::order_equal(group, format_.equal_keys_are_equal());
    for (size_t i = 0; i < group.size(); ++i) {
      prefetch(group, i);
      group[i].key = key_from(key_of(group[i], room), common);
    }
    if (auto status = sorting::sort_by_number(group, 1); !status) return status;
    if (group.front().key == group.back().key) return compare(group);
    return order(group, depth + 1);
  }

  // Keeps the group's keys without their common prefix. Returns false if they take too much memory.
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
      common = sorting::common_prefix(kept_key(kept_.front()), kept_key(kept_.back()), 0, common);
    }
    for (Kept& kept : kept_) kept.begin += static_cast<uint32_t>(common);
    return true;
  }

  // Orders by the next eight bytes, like any group, and equal ones by the rest of the keys.
  Status order_by_kept_keys(std::span<KeyValue> group) {
    for (size_t i = 0; i < group.size(); ++i)
      group[i] = {order_.prefix_of_bytes(kept_key(kept_[i])), i};
    if (auto status = sorting::sort_by_number(group, 1); !status) return status;
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

  Status compare(std::span<KeyValue> group) const {
    std::string room_a;
    std::string room_b;
    sorting::order_by_comparisons(group, [&](const KeyValue& a, const KeyValue& b) {
      return order_.compare_keys(key_of(a, room_a), key_of(b, room_b));
    });
    return {};
  }

  const items::ItemOrder order_;
  const items::Format& format_;
  const ItemsInMemory& items_;
  std::string keys_;  // keys of the current group, one behind the other
  std::vector<Kept> kept_;
};

}  // namespace

Status sort_pairs(const SortOptions& options, const ItemsInMemory& items, sorting::KeyValue* pairs,
                  unsigned threads) {
  const std::span<KeyValue> all(pairs, items.items);
  if (!is_whole(options.format, items)) return not_what_was_written();
  if (options.format.keys != nullptr) return MadeKeyPairs(options, items).sort(all, threads);
  if (!find_items(options.format, items, all)) return not_what_was_written();
  const PlainKeys keys(options.format, items);
  return sorting::StringPairs(keys, options.order().descending(), threads).sort(all);
}

uint64_t sort_pairs_extra_bytes(const items::Format& format, uint64_t items, unsigned threads) {
  // The buffer of keys doubles as it grows.
  const uint64_t kept_bytes =
      format.keys == nullptr ? 0
                             : 2 * kept_bytes_max + kept_items_max * MadeKeyPairs::kept_item_bytes;
  // All threads sort all pairs together, or each sorts a group of its own.
  const uint64_t together =
      sorting::extra_bytes<KeyValue>(items, {.order = {}, .threads = threads});
  const uint64_t each =
      sorting::extra_bytes<KeyValue>(items / threads, {.order = {}, .threads = 1});
  return std::max(together, threads * each) + kept_bytes + threads * sizeof(sorting::KeyDigits);
}

}  // namespace penstock::external
