#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <string_view>

#include "base/bits.h"
#include "base/out_of_memory.h"
#include "base/thread.h"
#include "os/memory.h"
#include "penstock/sort.h"
#include "sorting/sort/strings/string_pairs.h"

namespace penstock {
namespace {

using sorting::KeyValue;

// Views of strings; a value is the index of one.
class Views {
 public:
  Views(std::span<const std::string_view> strings, bool alike) : strings_(strings), alike_(alike) {}

  uint64_t value(size_t i) const { return i; }
  unsigned value_bits() const { return static_cast<unsigned>(std::bit_width(strings_.size())); }

  std::string_view key(uint64_t value) const { return strings_[value]; }
  void prefetch(uint64_t value, size_t from) const { prefetch_bytes(strings_[value], from); }
  void prefetch_place(uint64_t value) const { __builtin_prefetch(&strings_[value]); }
  bool equal_are_alike() const { return alike_; }

  // (A view of nothing has no valid address, and nothing is prefetched.)
  static void prefetch_bytes(std::string_view string, size_t from) {
    const auto address = reinterpret_cast<uintptr_t>(string.data()) + from;
    __builtin_prefetch(reinterpret_cast<const void*>(address));
  }

 private:
  const std::span<const std::string_view> strings_;
  const bool alike_;
};

// Views of strings; a value is the view itself: the distance of its bytes from the first of all,
// and their number. So no view is read at its own place, neither for its string, nor to put it in
// its place. But values are not in the order of the views: strings that are equal have to be alike.
class PackedViews {
 public:
  explicit PackedViews(std::span<const std::string_view> strings) : strings_(strings) {
    uintptr_t first = ~uintptr_t{0};
    uintptr_t last = 0;
    size_t bytes_max = 0;
    for (const std::string_view string : strings) {
      const auto address = reinterpret_cast<uintptr_t>(string.data());
      first = std::min(first, address);
      last = std::max(last, address);
      bytes_max = std::max(bytes_max, string.size());
    }
    first_ = first;
    size_bits_ = static_cast<unsigned>(std::bit_width(bytes_max));
    value_bits_ = size_bits_ + static_cast<unsigned>(std::bit_width(last - std::min(first, last)));
  }

  bool fit() const { return value_bits_ <= 64; }
  uint64_t value(size_t i) const {
    return (reinterpret_cast<uintptr_t>(strings_[i].data()) - first_) << size_bits_ |
           strings_[i].size();
  }
  unsigned value_bits() const { return value_bits_; }

  std::string_view key(uint64_t value) const {
    return {reinterpret_cast<const char*>(first_ + (value >> size_bits_)),
            static_cast<size_t>(value & ((uint64_t{1} << size_bits_) - 1))};
  }
  void prefetch(uint64_t value, size_t from) const { Views::prefetch_bytes(key(value), from); }
  void prefetch_place(uint64_t) const {}
  bool equal_are_alike() const { return true; }

 private:
  const std::span<const std::string_view> strings_;
  uintptr_t first_ = 0;
  unsigned size_bits_ = 0;  // fewer than 64: no string takes half of all memory
  unsigned value_bits_ = 0;
};

using Pairs = std::unique_ptr<KeyValue[], decltype(&std::free)>;

// Allocates pairs, on huge pages if there are enough of them.
Pairs get_pairs(size_t count) {
  const size_t bytes = count * sizeof(KeyValue);
  const bool huge = bytes >= 2 * os::huge_page_bytes;
  const size_t page_bytes = huge ? os::huge_page_bytes : alignof(KeyValue);
  const size_t all_bytes = round_up(std::max(bytes, page_bytes), page_bytes);
  void* const memory = std::aligned_alloc(page_bytes, all_bytes);
  if (huge && memory != nullptr)
    (void)os::advise_huge(static_cast<std::byte*>(memory), all_bytes, true);
  return Pairs(static_cast<KeyValue*>(memory), &std::free);
}

// The pairs of all strings, in order.
template <class Keys>
Result<Pairs> sorted_pairs(const Keys& keys, size_t count, const SortOptions& options) {
  Pairs pairs = get_pairs(count);
  if (pairs == nullptr) return out_of_memory();
  for (size_t i = 0; i < count; ++i) pairs[i].value = keys.value(i);
  if (auto status =
          sorting::StringPairs(keys, options.descending, options.threads, keys.value_bits())
              .sort({pairs.get(), count});
      !status)
    return std::unexpected(status.error());
  return pairs;
}

// Calls work(begin, end) for parts of all places.
template <class Work>
void for_parts(size_t count, const SortOptions& options, const Work& work) {
  const size_t threads =
      std::clamp<size_t>(count / sorting::pairs_of_a_thread_min, 1, std::max(options.threads, 1u));
  in_threads(threads, [&](size_t thread) {
    work(count * thread / threads, count * (thread + 1) / threads);
  });
}

// A pair is as large as a view, and the view that belongs in its place replaces it.
Status sort_by_number(std::span<std::string_view> strings, const SortOptions& options) {
  static_assert(sizeof(KeyValue) == sizeof(std::string_view));
  constexpr size_t moved_ahead = 16;
  auto pairs = sorted_pairs(Views(strings, !options.stable), strings.size(), options);
  if (!pairs) return std::unexpected(pairs.error());
  KeyValue* const all = pairs->get();
  for_parts(strings.size(), options, [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      if (i + moved_ahead < end) __builtin_prefetch(&strings[all[i + moved_ahead].value]);
      const std::string_view string = strings[all[i].value];
      std::memcpy(static_cast<void*>(all + i), &string, sizeof(std::string_view));
    }
  });
  for_parts(strings.size(), options, [&](size_t begin, size_t end) {
    if (begin == end) return;
    std::memcpy(static_cast<void*>(strings.data() + begin), all + begin,
                (end - begin) * sizeof(KeyValue));
  });
  return {};
}

}  // namespace

Status sort(std::span<std::string_view> strings, const SortOptions& options) {
  return or_out_of_memory([&]() -> Status {
    if (options.stable) return sort_by_number(strings, options);
    const PackedViews views(strings);
    if (!views.fit()) return sort_by_number(strings, options);
    auto pairs = sorted_pairs(views, strings.size(), options);
    if (!pairs) return std::unexpected(pairs.error());
    for_parts(strings.size(), options, [&](size_t begin, size_t end) {
      for (size_t i = begin; i < end; ++i) strings[i] = views.key((*pairs)[i].value);
    });
    return {};
  });
}

Status argsort(std::span<const std::string_view> strings, std::span<uint64_t> order,
               const SortOptions& options) {
  if (order.size() < strings.size())
    return failure(ErrorCode::invalid_argument, "argsort", "the order", "as many places as keys");
  return or_out_of_memory([&]() -> Status {
    auto pairs = sorted_pairs(Views(strings, false), strings.size(), options);
    if (!pairs) return std::unexpected(pairs.error());
    for (size_t i = 0; i < strings.size(); ++i) order[i] = (*pairs)[i].value;
    return {};
  });
}

}  // namespace penstock
