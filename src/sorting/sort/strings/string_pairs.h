#pragma once

// A sort of strings by pairs of eight bytes of the key and a value that locates the string.
//
// A sort that moves strings, or pointers to them, reads two keys for each step of n log n: two
// misses of the cache. A pair of (a number made of the key, place) is a number with eight bytes
// beside it, and those are sorted in place at the speed of numbers, without reading the strings.
//
// The number contains as much of the key as it can (key_digits.h), and if the values are small, a
// second one stands above them in their own word, so that numbers of 128 bits are sorted. Pairs of
// equal numbers are a group, which is sorted by itself: a small one by the eight bytes behind the
// equal ones; a large one like the whole, by the bytes behind the equal ones. Often no group is
// left, because the numbers were complete, or showed that the keys end.
//
// (Ends of keys. A shorter key is filled with zeros behind its end, so a group may contain "a" and
// "a\0", which no number distinguishes: comparisons sort such a group. They also sort one that is
// `group_depth_max` deep, because the stack is limited.)

#include <algorithm>
#include <array>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <string_view>
#include <vector>

#include "base/out_of_memory.h"
#include "base/thread.h"
#include "items/keys/codec.h"
#include "penstock/base.h"
#include "sorting/sort/in_place/in_place_sort.h"
#include "sorting/sort/item.h"
#include "sorting/sort/strings/key_digits.h"

namespace penstock::sorting {

// For smaller groups the eight bytes behind the equal ones mostly suffice.
inline constexpr size_t group_items_min = 128;
inline constexpr unsigned group_depth_max = 64;
// Fewer pairs are not worth a thread.
inline constexpr size_t pairs_of_a_thread_min = 1 << 15;
// Sampled keys: they suggest what all have in common, and the bytes needed behind it.
inline constexpr size_t sample_keys_min = 16;
inline constexpr size_t sample_keys_max = 256;
// Keys that are read in one call.
inline constexpr size_t keys_at_a_time = 64;
// A second number is worth its word if it has at least this many bits.
inline constexpr unsigned more_bits_min = 8;
// Distance of prefetching a string, in pairs.
inline constexpr size_t prefetch_pairs = 16;

inline Status sort_by_number(std::span<KeyValue> pairs, unsigned threads) {
  return sort_in_place(pairs.data(), pairs.size(), {.order = {}, .threads = threads});
}

// Calls order_group(group) for each stretch of two pairs or more with one number, and ahead(i)
// before it comes to pair i. Other pairs' keys become 0. REQUIRES: sorted by number.
template <class OrderGroup, class Ahead>
Status order_groups(std::span<KeyValue> pairs, OrderGroup order_group, Ahead ahead) {
  for (size_t i = 0; i < pairs.size();) {
    size_t end = i + 1;
    ahead(i);
    while (end < pairs.size() && pairs[end].key == pairs[i].key) ahead(end++);
    if (end - i == 1) {
      pairs[i].key = 0;
    } else if (auto status = order_group(pairs.subspan(i, end - i)); !status) {
      return status;
    }
    i = end;
  }
  return {};
}

template <class OrderGroup>
Status order_groups(std::span<KeyValue> pairs, OrderGroup order_group) {
  return order_groups(pairs, order_group, [](size_t) {});
}

// Orders equal keys by the values, unless these cannot be told apart (`alike`).
inline Status order_equal(std::span<KeyValue> group, bool alike) {
  if (!alike) {
    if (group.size() < group_items_min) {
      std::ranges::sort(group, {}, &KeyValue::value);
    } else {
      for (KeyValue& pair : group) pair.key = pair.value;
      if (auto status = sort_by_number(group, 1); !status) return status;
    }
  }
  for (KeyValue& pair : group) pair.key = 1;
  group.front().key = 0;
  return {};
}

// Orders by comparing keys: order_of(pair, pair) is below, at or above 0.
template <class OrderOf>
void order_by_comparisons(std::span<KeyValue> group, OrderOf order_of) {
  std::sort(group.begin(), group.end(), [&](const KeyValue& a, const KeyValue& b) {
    const int order = order_of(a, b);
    return order != 0 ? order < 0 : a.value < b.value;
  });
  group.front().key = 0;
  for (size_t i = 1; i < group.size(); ++i) group[i].key = order_of(group[i - 1], group[i]) == 0;
}

inline bool same_bytes(const char* a, const char* b, size_t bytes) {
  constexpr size_t word = sizeof(uint64_t);
  if (bytes < word || bytes > 8 * word) return std::memcmp(a, b, bytes) == 0;
  const auto difference = [&](size_t at) {
    uint64_t x;
    uint64_t y;
    std::memcpy(&x, a + at, word);
    std::memcpy(&y, b + at, word);
    return x ^ y;
  };
  uint64_t differences = difference(bytes - word);
  for (size_t i = 0; i + word < bytes; i += word) differences |= difference(i);
  return differences == 0;
}
// Returns how far two keys are alike, at most `at_most` bytes. REQUIRES: they are up to `from`.
inline size_t common_prefix(std::string_view a, std::string_view b, size_t from, size_t at_most) {
  const size_t end = std::min({a.size(), b.size(), at_most});
  if (end <= from) return end;
  if (same_bytes(a.data() + from, b.data() + from, end - from)) return end;
  while (a[from] == b[from]) ++from;
  return from;
}

// The strings to which values refer.
template <class T>
concept KeysOfPairs = requires(const T& keys, uint64_t value) {
  { keys.key(value) } -> std::same_as<std::string_view>;
  // Prefetches the key from a byte on; its place in memory is prefetched before that.
  keys.prefetch(value, size_t{});
  keys.prefetch_place(value);
  // Whether strings of equal keys are the same.
  { keys.equal_are_alike() } -> std::same_as<bool>;
};

// Thread safety: one thread, which others help.
template <KeysOfPairs Keys>
class StringPairs {
 public:
  // `value_bits`: the most bits of a value.
  StringPairs(const Keys& keys, bool descending, unsigned threads, unsigned value_bits = 64)
      : keys_(keys), descending_(descending), threads_(threads), value_bits_(value_bits) {}

  // Sorts pairs, whose values are given, by their keys, byte by byte; equal ones by their values,
  // unless these are alike. Then a pair's key is 1 if its string is equal to the one before,
  // otherwise 0. Errors: out_of_memory.
  Status sort(std::span<KeyValue> pairs) {
    if (pairs.size() > 1) return order_group(pairs, {});
    for (KeyValue& pair : pairs) pair.key = 0;
    return {};
  }

 private:
  // Properties of groups of equal numbers.
  struct GroupFacts {
    size_t covered = 0;     // their keys are alike up to here
    bool zeros = false;     // some keys have bytes 0 where others end
    bool complete = false;  // their keys are equal
    KeysEnd keys_end;       // shows numbers whose keys are equal
    unsigned depth = 0;
  };

  void prefetch(std::span<const KeyValue> pairs, size_t i, size_t from) const {
    if (i + 2 * prefetch_pairs < pairs.size())
      keys_.prefetch_place(pairs[i + 2 * prefetch_pairs].value);
    if (i + prefetch_pairs < pairs.size()) keys_.prefetch(pairs[i + prefetch_pairs].value, from);
  }

  // One thread sorts a group, however many sort the whole.
  size_t threads_for(size_t pairs) const {
    return std::clamp<size_t>(pairs / pairs_of_a_thread_min, 1, std::max(threads_, 1u));
  }
  // The part of one thread.
  template <class Pair>
  static std::span<Pair> part_of(std::span<Pair> pairs, size_t thread, size_t threads) {
    const size_t begin = pairs.size() * thread / threads;
    return pairs.subspan(begin, pairs.size() * (thread + 1) / threads - begin);
  }

  // Calls use(first, keys) for the keys of some pairs, a few of them at a time.
  template <class Use>
  void for_keys(std::span<const KeyValue> pairs, size_t from, Use use) const {
    std::array<std::string_view, keys_at_a_time> keys;
    for (size_t first = 0; first < pairs.size(); first += keys.size()) {
      const size_t count = std::min(keys.size(), pairs.size() - first);
      for (size_t i = 0; i < count; ++i) {
        prefetch(pairs, first + i, from);
        keys[i] = keys_.key(pairs[first + i].value);
      }
      use(first, std::span<const std::string_view>(keys).first(count));
    }
  }

  // Looks at all keys, which are alike up to `from`. REQUIRES: at least one.
  void look(std::span<const KeyValue> pairs, size_t from, bool zeros) {
    const std::string_view first_key = keys_.key(pairs.front().value);
    std::array<std::string_view, sample_keys_max> room;
    const auto sample =
        std::span(room).first(std::clamp(pairs.size() / 16, sample_keys_min, sample_keys_max));
    size_t common = first_key.size();
    for (size_t i = 0; i < sample.size(); ++i) {
      sample[i] = keys_.key(pairs[i * pairs.size() / sample.size()].value);
      common = common_prefix(first_key, sample[i], from, common);
    }
    for (;;) {
      const size_t begin = std::max(from, common);
      digits_->start(begin, zeros);
      digits_->look(sample);
      digits_->narrow();
      const size_t threads = threads_for(pairs.size());
      std::vector<SeenBytes> seen(threads - 1);
      std::vector<size_t> alike(threads, begin);
      in_threads(threads, [&](size_t i) {
        size_t here = begin;
        for_keys(part_of(pairs, i, threads), begin,
                 [&](size_t, std::span<const std::string_view> keys) {
                   if (here > from) {
                     for (const std::string_view key : keys)
                       here = common_prefix(first_key, key, from, here);
                   }
                   if (i == 0) {
                     digits_->look(keys);
                   } else {
                     digits_->look_to(keys, seen[i - 1]);
                   }
                 });
        alike[i] = here;
      });
      common = std::ranges::min(alike);
      if (common < begin) continue;
      for (const SeenBytes& part : seen) digits_->add(part);
      digits_->choose();
      return;
    }
  }

  // Gives each pair its number; a second one goes above its value: then these are Key128.
  void number(std::span<KeyValue> pairs) const {
    const size_t threads = threads_for(pairs.size());
    in_threads(threads, [&](size_t thread) {
      const std::span<KeyValue> part = part_of(pairs, thread, threads);
      std::array<uint64_t, keys_at_a_time> numbers;
      std::array<uint64_t, keys_at_a_time> more;
      for_keys(part, digits_->from(), [&](size_t first, std::span<const std::string_view> keys) {
        digits_->number(keys, numbers.data(), more.data());
        KeyValue* const to = part.data() + first;
        if (!digits_->has_more()) {
          for (size_t i = 0; i < keys.size(); ++i) to[i].key = numbers[i];
        } else {
          for (size_t i = 0; i < keys.size(); ++i) {
            const Key128 item = {.low = more[i] << value_bits_ | to[i].value, .high = numbers[i]};
            std::memcpy(static_cast<void*>(to + i), &item, sizeof(item));
          }
        }
      });
    });
  }

  // Sorts by number; equal numbers become equal keys, with keys_end() for ends of strings.
  Status sort_numbered(std::span<KeyValue> pairs, unsigned threads, KeysEnd& keys_end) const {
    static_assert(sizeof(Key128) == sizeof(KeyValue));
    if (!digits_->has_more()) return sort_by_number(pairs, threads);
    auto* const items = reinterpret_cast<Key128*>(pairs.data());
    if (auto status = sort_in_place(items, pairs.size(), {.order = {}, .threads = threads});
        !status)
      return status;
    // The number of a group, and below it whether its strings end.
    const uint64_t value_mask = (uint64_t{1} << value_bits_) - 1;
    uint64_t groups = 0;
    Key128 before = {};
    for (size_t i = 0; i < pairs.size(); ++i) {
      Key128 item;
      std::memcpy(&item, &pairs[i], sizeof(item));
      const uint64_t value = item.low & value_mask;
      item.low >>= value_bits_;
      groups += i == 0 || !(item == before);
      before = item;
      pairs[i] = {.key = groups << 1 | !keys_end(item.low), .value = value};
    }
    keys_end = {.weight = 1, .radix = 2};
    return {};
  }

  // Divides the pairs among threads, about as many for each, and in whole groups.
  Status order_in_threads(std::span<KeyValue> pairs, const GroupFacts& facts) {
    const size_t threads = threads_for(pairs.size());
    if (threads == 1) return order(pairs, facts);
    std::vector<size_t> cuts(threads + 1, pairs.size());
    for (size_t i = 0; i < threads; ++i) {
      size_t cut = pairs.size() * i / threads;
      while (cut > 0 && cut < pairs.size() && pairs[cut].key == pairs[cut - 1].key) ++cut;
      cuts[i] = cut;
    }
    std::vector<Status> done(threads);
    in_threads(threads, [&](size_t i) {
      done[i] = or_out_of_memory([&] {
        return StringPairs(keys_, descending_, 1, value_bits_)
            .order(pairs.subspan(cuts[i], cuts[i + 1] - cuts[i]), facts);
      });
    });
    for (const Status& status : done) {
      if (!status) return status;
    }
    return {};
  }

  Status order(std::span<KeyValue> pairs, const GroupFacts& facts) {
    auto order_one = [&](std::span<KeyValue> group) {
      if (facts.complete || facts.keys_end(group.front().key))
        return order_equal(group, keys_.equal_are_alike());
      return order_group(group, facts);
    };
    if (facts.complete) return order_groups(pairs, order_one);
    auto in_group = [&](size_t i) {
      return i + 1 < pairs.size() &&
             (pairs[i].key == pairs[i - 1].key || pairs[i].key == pairs[i + 1].key);
    };
    return order_groups(pairs, order_one, [&](size_t i) {
      if (in_group(i + 2 * prefetch_pairs))
        keys_.prefetch_place(pairs[i + 2 * prefetch_pairs].value);
      if (in_group(i + prefetch_pairs))
        keys_.prefetch(pairs[i + prefetch_pairs].value, facts.covered);
    });
  }

  // Orders strings that are alike up to facts.covered.
  Status order_group(std::span<KeyValue> group, const GroupFacts& facts) {
    if (group.size() < group_items_min) return order_few(group, facts.covered);
    if (facts.depth == group_depth_max) return compare(group, facts.covered);
    if (digits_ == nullptr) {
      const unsigned more_bits = 64 - value_bits_;
      digits_.reset(new (std::nothrow)
                        KeyDigits(descending_, more_bits < more_bits_min ? 0 : more_bits));
      if (digits_ == nullptr) return out_of_memory();
    }
    look(group, facts.covered, facts.zeros);
    while (digits_->all_alike() && digits_->bytes_max() > digits_->covered())
      look(group, digits_->covered(), digits_->zeros());
    if (digits_->all_alike())
      return digits_->complete() ? order_equal(group, keys_.equal_are_alike()) : compare(group, 0);
    number(group);
    GroupFacts then{.covered = digits_->covered(),
                    .zeros = digits_->zeros(),
                    .complete = digits_->complete(),
                    .keys_end = digits_->keys_end(),
                    .depth = facts.depth + 1};
    const auto threads = static_cast<unsigned>(threads_for(group.size()));
    if (auto status = sort_numbered(group, threads, then.keys_end); !status) return status;
    return facts.depth == 0 ? order_in_threads(group, then) : order(group, then);
  }

  // Orders few strings. Each is read once, for the eight bytes behind those that all have in
  // common. These distinguish most, and the length those that end there.
  Status order_few(std::span<KeyValue> group, size_t covered) {
    struct Few {
      uint64_t number, bytes, value;
    };
    std::array<Few, group_items_min> room;
    const std::span<Few> few = std::span(room).first(group.size());
    const size_t seen_bytes = covered + sizeof(uint64_t);
    const uint64_t flip = descending_ ? ~uint64_t{0} : 0;
    for (size_t i = 0; i < few.size(); ++i) {
      const std::string_view key = keys_.key(group[i].value);
      const uint64_t number = covered < key.size() ? word_at(key, covered) : 0;
      few[i] = {number ^ flip, std::min(key.size(), seen_bytes + 1) ^ flip, group[i].value};
    }
    std::sort(few.begin(), few.end(), [](const Few& a, const Few& b) {
      if (a.number != b.number) return a.number < b.number;
      return a.bytes != b.bytes ? a.bytes < b.bytes : a.value < b.value;
    });
    for (size_t i = 0, end = 0; i < few.size(); i = end) {
      while (end < few.size() && few[end].number == few[i].number &&
             few[end].bytes == few[i].bytes) {
        group[end] = {1, few[end].value};
        ++end;
      }
      group[i].key = 0;
      const bool goes_on = (few[i].bytes ^ flip) > seen_bytes;
      if (!goes_on || end - i == 1) continue;
      if (auto status = compare(group.subspan(i, end - i), seen_bytes); !status) return status;
    }
    return {};
  }

  // The eight bytes at `at`, big-endian, with zeros behind the end. REQUIRES: at < key.size().
  static uint64_t word_at(std::string_view key, size_t at) {
    const auto* data = reinterpret_cast<const std::byte*>(key.data());
    const size_t left = key.size() - at;
    if (left >= sizeof(uint64_t)) return items::load_big_endian(data + at);
    if (key.size() < sizeof(uint64_t)) return items::prefix_of(data + at, left);
    return items::load_big_endian(data + key.size() - sizeof(uint64_t))
           << 8 * (sizeof(uint64_t) - left);
  }

  // Compares keys that are alike up to `covered`.
  Status compare(std::span<KeyValue> group, size_t covered) const {
    order_by_comparisons(group, [&](const KeyValue& a, const KeyValue& b) {
      const std::string_view left = keys_.key(a.value);
      const std::string_view right = keys_.key(b.value);
      // Zeros that fill a shorter key are not part of it.
      const size_t from = std::min({covered, left.size(), right.size()});
      const int order = left.substr(from).compare(right.substr(from));
      return descending_ ? -order : order;
    });
    return {};
  }

  const Keys& keys_;
  const bool descending_;
  const unsigned threads_;
  const unsigned value_bits_;
  std::unique_ptr<KeyDigits> digits_;  // digits of the group that is being divided
};

}  // namespace penstock::sorting
