#pragma once

// The keys of records in a sort: prefixes, comparisons, and the order of pairs with equal prefixes
// by their whole keys. record_sort.cc explains the reasons.

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

#include "penstock/base.h"
#include "penstock/sort.h"
#include "sorting/scatter/bucket_map.h"
#include "sorting/sort/item.h"

namespace penstock::sorting {

constexpr size_t prefix_bytes = 8;

[[gnu::always_inline]] inline void copy_record(std::byte* to, const std::byte* from, size_t bytes) {
#if defined(__x86_64__)
  if (bytes - 16 <= 512 - 16) {
    const auto load = [](const std::byte* at) {
      return _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
    };
    const auto store = [](std::byte* at, __m128i words) {
      _mm_storeu_si128(reinterpret_cast<__m128i*>(at), words);
    };
    const __m128i last = load(from + bytes - 16);
    std::byte* const last_to = to + bytes - 16;
    for (; to < last_to; to += 16, from += 16) store(to, load(from));
    store(last_to, last);
    return;
  }
#endif
  std::memcpy(to, from, bytes);
}

// The place of keys in records, and their comparison.
class Keys {
 public:
  Keys(const RecordLayout& layout, bool descending) : layout_(layout), descending_(descending) {}

  size_t bytes() const { return layout_.key_bytes; }
  const std::byte* of(const std::byte* record) const { return record + layout_.key_offset; }

  // Returns how many bytes two keys have in common, counted from the front. REQUIRES: those up to
  // `pos` are equal. `end`: limit.
  size_t common(const std::byte* a, const std::byte* b, size_t pos, size_t end) const {
    a = of(a);
    b = of(b);
    for (; pos + 8 <= end; pos += 8) {
      uint64_t x;
      uint64_t y;
      std::memcpy(&x, a + pos, 8);
      std::memcpy(&y, b + pos, 8);
      if (x != y) {
        const uint64_t differ = x ^ y;
        return pos + static_cast<size_t>(std::endian::native == std::endian::little
                                             ? std::countr_zero(differ)
                                             : std::countl_zero(differ)) /
                         8;
      }
    }
    while (pos < end && a[pos] == b[pos]) ++pos;
    return pos;
  }

  // Compares in the requested order: negative, zero, positive.
  int compare(const std::byte* a, const std::byte* b, size_t pos) const {
    if (pos >= layout_.key_bytes) return 0;
    const int order = std::memcmp(of(a) + pos, of(b) + pos, layout_.key_bytes - pos);
    return descending_ ? -order : order;
  }

  bool descending() const { return descending_; }
  const RecordLayout& layout() const { return layout_; }

 private:
  RecordLayout layout_;
  bool descending_;
};

// Loads the prefix at one position of the key, without a byte from outside of the record.
class PrefixLoad {
 public:
  PrefixLoad(const Keys& keys, size_t pos) {
    const RecordLayout& layout = keys.layout();
    const size_t at = layout.key_offset + pos;
    const size_t left = layout.key_bytes - pos;
    record_bytes_ = layout.record_bytes;
    offset_ = record_bytes_ >= prefix_bytes ? std::min(at, record_bytes_ - prefix_bytes) : 0;
    shift_ = static_cast<unsigned>(8 * (at - offset_));
    mask_ = left >= prefix_bytes ? ~uint64_t{0} : ~(~uint64_t{0} >> (8 * left));
    flip_ = keys.descending() ? ~uint64_t{0} : 0;
  }

  [[gnu::always_inline]] uint64_t operator()(const std::byte* record) const {
    uint64_t word = 0;
    if (record_bytes_ >= prefix_bytes) [[likely]] {
      std::memcpy(&word, record + offset_, prefix_bytes);
    } else {
      std::memcpy(&word, record, record_bytes_);
    }
    if constexpr (std::endian::native == std::endian::little) word = __builtin_bswap64(word);
    return ((word << shift_) ^ flip_) & mask_;
  }

 private:
  size_t record_bytes_;
  size_t offset_;
  unsigned shift_;
  uint64_t mask_;
  uint64_t flip_;
};

inline const std::byte* record_of(const KeyValue& pair) {
  return reinterpret_cast<const std::byte*>(pair.value);
}
inline uint64_t value_of(const std::byte* record) {
  return reinterpret_cast<uint64_t>(record);
}

// Sorts pairs of a prefix and a record's address by the whole keys. `sort_run(pairs, count, keys)`
// sorts pairs by their key, stably. REQUIRES: the pairs are in order by the prefixes at `pos`.
template <class SortRun>
Status sort_ties(KeyValue* pairs, size_t count, const Keys& keys, size_t pos, SortRun sort_run) {
  constexpr size_t insertion_records_max = 12;
  struct Run {
    size_t begin;
    size_t end;
    size_t pos;
  };
  std::vector<Run> runs;
  auto find_runs = [&](size_t begin, size_t end, size_t at) {
    const size_t behind = at + prefix_bytes;
    if (behind >= keys.bytes()) return;
    for (size_t i = begin; i + 1 < end; ++i) {
      if (pairs[i].key != pairs[i + 1].key) continue;
      size_t run_end = i + 2;
      while (run_end < end && pairs[run_end].key == pairs[i].key) ++run_end;
      if (run_end - i > insertion_records_max) {
        runs.push_back({i, run_end, behind});
      } else {
        for (size_t j = i + 1; j < run_end; ++j) {
          const KeyValue pair = pairs[j];
          size_t k = j;
          while (k > i && keys.compare(record_of(pair), record_of(pairs[k - 1]), behind) < 0) {
            pairs[k] = pairs[k - 1];
            --k;
          }
          pairs[k] = pair;
        }
      }
      i = run_end - 1;
    }
  };
  find_runs(0, count, pos);
  while (!runs.empty()) {
    const Run run = runs.back();
    runs.pop_back();
    size_t common = keys.bytes();
    for (size_t i = run.begin + 1; i < run.end && common > run.pos; ++i)
      common = keys.common(record_of(pairs[run.begin]), record_of(pairs[i]), run.pos, common);
    if (common == keys.bytes()) continue;
    const PrefixLoad prefix(keys, common);
    KeyRange range = {~uint64_t{0}, 0};
    for (size_t i = run.begin; i < run.end; ++i) {
      pairs[i].key = prefix(record_of(pairs[i]));
      range = {std::min(range.low, pairs[i].key), std::max(range.high, pairs[i].key)};
    }
    if (auto status = sort_run(pairs + run.begin, run.end - run.begin, range); !status)
      return status;
    find_runs(run.begin, run.end, common);
  }
  return {};
}

}  // namespace penstock::sorting
