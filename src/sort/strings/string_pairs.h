#pragma once

// Strings in order, by pairs of eight bytes of the key and a value that tells where it is.
//
// The naive way moves strings, or pointers to them, and looks at two keys for each step of n log n:
// two misses of the cache. A pair of (a number made of the key, place) is a number with eight bytes
// beside it, and those are sorted in place at the speed of numbers, without a look at the strings.
//
// The number tells as much of the key as it can: the bits in which the keys differ
// (key_bits.h). What is equal in them is a group, and is put right by itself: few by the eight bytes
// behind them; many like the whole, by the bits behind those that are equal. Often there is nothing to put right,
// because the numbers were complete.
//
// (Keys end. What is behind the end of a shorter key is filled up with zeros, so a group may hold "a"
// and "a\0" and not be told apart by any number: such a group is left to comparisons. So is one that is
// `group_depth_max` deep, that the stack may end, too.)

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/thread.h"
#include "penstock/base.h"
#include "sort/in_place/in_place_sort.h"
#include "sort/item.h"
#include "sort/strings/key_bits.h"

namespace penstock::sorting {

// Below it the eight bytes behind those that are equal mostly suffice.
inline constexpr size_t group_items_min = 64;
inline constexpr unsigned group_depth_max = 64;
// What is less is not worth a thread.
inline constexpr size_t pairs_of_a_thread_min = 1 << 15;
// How far ahead of use a string is asked for, in pairs.
inline constexpr size_t prefetch_pairs = 16;

inline Status sort_by_number(std::span<KeyValue> pairs, unsigned threads) {
  return sort_in_place(pairs.data(), pairs.size(), {.order = {}, .threads = threads});
}

// Calls order_group(group) for each stretch of two pairs or more that have one number, and ahead(i) before it
// comes to pair i. All other pairs' keys become 0. REQUIRES: the pairs are sorted by number.
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

// Keys that are equal: in the order of the values, unless nobody can tell them apart.
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

// By comparing keys: order_of(pair, pair) is below, at or above 0.
template <class OrderOf>
void order_by_comparisons(std::span<KeyValue> group, OrderOf order_of) {
  std::sort(group.begin(), group.end(), [&](const KeyValue& a, const KeyValue& b) {
    const int order = order_of(a, b);
    return order != 0 ? order < 0 : a.value < b.value;
  });
  group.front().key = 0;
  for (size_t i = 1; i < group.size(); ++i) group[i].key = order_of(group[i - 1], group[i]) == 0;
}

// What values stand for.
template <class T>
concept KeysOfPairs = requires(const T& keys, uint64_t value) {
  { keys.key(value) } -> std::same_as<std::string_view>;
  // The key is wanted soon, from a byte on; its place in memory is wanted before that.
  keys.prefetch(value, size_t{});
  keys.prefetch_place(value);
  // Strings of equal keys are the same.
  { keys.equal_are_alike() } -> std::same_as<bool>;
};

// Thread safety: one thread, which has others help it.
template <KeysOfPairs Keys>
class StringPairs {
 public:
  StringPairs(const Keys& keys, bool descending, unsigned threads)
      : keys_(keys), descending_(descending), threads_(threads), bits_(descending) {}

  // Puts pairs, whose values are given, in the order of their keys, compared byte by byte; of equal ones in
  // the order of their values, unless these are alike. Then a pair's key says whether its
  // string's is equal to the one before: 1, or 0. Errors: out_of_memory.
  Status sort(std::span<KeyValue> pairs) {
    if (pairs.empty()) return {};
    see_window(pairs, 0);
    number(pairs);
    const Known known{.covered = bits_.covered(), .complete = bits_.complete()};
    if (auto status = sort_by_number(pairs, threads_); !status) return status;
    return order_in_threads(pairs, known);
  }

 private:
  // What is known of groups of equal numbers.
  struct Known {
    size_t covered = 0;     // their keys are alike up to here
    bool complete = false;  // their keys are equal
    unsigned depth = 0;
  };

  void prefetch(std::span<const KeyValue> pairs, size_t i, size_t from) const {
    if (i + 2 * prefetch_pairs < pairs.size())
      keys_.prefetch_place(pairs[i + 2 * prefetch_pairs].value);
    if (i + prefetch_pairs < pairs.size()) keys_.prefetch(pairs[i + prefetch_pairs].value, from);
  }

  // A group is one thread's, however many there are for the whole.
  size_t threads_for(size_t pairs) const {
    return std::clamp<size_t>(pairs / pairs_of_a_thread_min, 1, std::max(threads_, 1u));
  }
  // The part of a thread.
  template <class Pair>
  static std::span<Pair> part_of(std::span<Pair> pairs, size_t thread, size_t threads) {
    const size_t begin = pairs.size() * thread / threads;
    return pairs.subspan(begin, pairs.size() * (thread + 1) / threads - begin);
  }

  // To be looked through are the keys, which are alike up to `from`. REQUIRES: there is one.
  void look(std::span<const KeyValue> pairs, size_t from) {
    bits_.start(keys_.key(pairs.front().value), from);
    auto look_at = [&](std::span<const KeyValue> part, KeyBits& bits) {
      for (size_t i = 0; i < part.size(); ++i) {
        prefetch(part, i, from);
        bits.look(keys_.key(part[i].value));
      }
    };
    if (const size_t threads = threads_for(pairs.size()); threads == 1) {
      look_at(pairs, bits_);
    } else {
      std::vector<KeyBits> seen(threads, bits_);
      in_threads(threads, [&](size_t i) { look_at(part_of(pairs, i, threads), seen[i]); });
      for (const KeyBits& bits : seen) bits_.add(bits);
    }
    bits_.choose();
  }
  // Through the first window that shows a difference; and through one that begins there, if there is
  // more to be seen.
  void see_window(std::span<const KeyValue> pairs, size_t from) {
    look(pairs, from);
    while (bits_.all_alike() && bits_.bytes_max() > bits_.covered()) look(pairs, bits_.covered());
    if (bits_.has_room() && bits_.first_difference() > from) look(pairs, bits_.first_difference());
  }
  void number(std::span<KeyValue> pairs) const {
    const size_t threads = threads_for(pairs.size());
    in_threads(threads, [&](size_t thread) {
      const std::span<KeyValue> part = part_of(pairs, thread, threads);
      for (size_t i = 0; i < part.size(); ++i) {
        prefetch(part, i, bits_.from());
        part[i].key = bits_.of(keys_.key(part[i].value));
      }
    });
  }

  // Each has about as many pairs, and whole groups.
  Status order_in_threads(std::span<KeyValue> pairs, const Known& known) {
    const size_t threads = threads_for(pairs.size());
    if (threads == 1) return order(pairs, known);
    std::vector<size_t> cuts(threads + 1, pairs.size());
    for (size_t i = 0; i < threads; ++i) {
      size_t cut = pairs.size() * i / threads;
      while (cut > 0 && cut < pairs.size() && pairs[cut].key == pairs[cut - 1].key) ++cut;
      cuts[i] = cut;
    }
    std::vector<Status> done(threads);
    in_threads(threads, [&](size_t i) {
      done[i] = StringPairs(keys_, descending_, 1)
                    .order(pairs.subspan(cuts[i], cuts[i + 1] - cuts[i]), known);
    });
    for (const Status& status : done) {
      if (!status) return status;
    }
    return {};
  }

  Status order(std::span<KeyValue> pairs, const Known& known) {
    auto order_one = [&](std::span<KeyValue> group) { return order_group(group, known); };
    if (known.complete) return order_groups(pairs, order_one);
    // (The first one of a group is not asked for.)
    auto in_group = [&](size_t i) { return i < pairs.size() && pairs[i].key == pairs[i - 1].key; };
    return order_groups(pairs, order_one, [&](size_t i) {
      if (in_group(i + 2 * prefetch_pairs))
        keys_.prefetch_place(pairs[i + 2 * prefetch_pairs].value);
      if (in_group(i + prefetch_pairs))
        keys_.prefetch(pairs[i + prefetch_pairs].value, known.covered);
    });
  }

  Status order_group(std::span<KeyValue> group, const Known& known) {
    if (known.complete) return order_equal(group, keys_.equal_are_alike());
    if (group.size() < group_items_min) return order_few(group, known.covered);
    if (known.depth == group_depth_max) return compare(group, known.covered);
    see_window(group, known.covered);
    if (bits_.all_alike()) {
      return bits_.complete() ? order_equal(group, keys_.equal_are_alike()) : compare(group, 0);
    }
    number(group);
    const Known then{
        .covered = bits_.covered(), .complete = bits_.complete(), .depth = known.depth + 1};
    if (auto status = sort_by_number(group, 1); !status) return status;
    return order(group, then);
  }

  // A string is looked at once, for the eight bytes behind those that all have in common. These tell most
  // apart, and how long a string is the rest of those that end there.
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
      const uint64_t number = covered < key.size() ? KeyBits::word_at(key, covered) : 0;
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

  // Keys that are alike up to `covered`.
  Status compare(std::span<KeyValue> group, size_t covered) const {
    order_by_comparisons(group, [&](const KeyValue& a, const KeyValue& b) {
      const std::string_view left = keys_.key(a.value);
      const std::string_view right = keys_.key(b.value);
      // Zeros that fill up a shorter one are no part of it.
      const size_t from = std::min({covered, left.size(), right.size()});
      const int order = left.substr(from).compare(right.substr(from));
      return descending_ ? -order : order;
    });
    return {};
  }

  const Keys& keys_;
  const bool descending_;
  const unsigned threads_;
  KeyBits bits_;
};

}  // namespace penstock::sorting
