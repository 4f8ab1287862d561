#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <string_view>

#include "base/thread.h"
#include "penstock/sort.h"
#include "sort/strings/string_pairs.h"

namespace penstock {
namespace {

using sorting::KeyValue;

// Views of strings; a value is the number of one.
class Views {
 public:
  Views(std::span<const std::string_view> strings, bool alike) : strings_(strings), alike_(alike) {}

  std::string_view key(uint64_t value) const { return strings_[value]; }
  void prefetch(uint64_t value, size_t from) const {
    // (Of a view of nothing this is no address, and nothing is asked for.)
    const auto address = reinterpret_cast<uintptr_t>(strings_[value].data()) + from;
    __builtin_prefetch(reinterpret_cast<const void*>(address));
  }
  void prefetch_place(uint64_t value) const { __builtin_prefetch(&strings_[value]); }
  bool equal_are_alike() const { return alike_; }

 private:
  const std::span<const std::string_view> strings_;
  const bool alike_;
};

// The pairs of all strings, in order.
Result<std::unique_ptr<KeyValue[]>> sorted_pairs(std::span<const std::string_view> strings,
                                                 bool alike, const SortOptions& options) {
  std::unique_ptr<KeyValue[]> pairs(new (std::nothrow) KeyValue[strings.size()]);
  if (pairs == nullptr)
    return failure(ErrorCode::out_of_memory, "get memory to sort in", "pairs of strings");
  for (size_t i = 0; i < strings.size(); ++i) pairs[i].value = i;
  const Views views(strings, alike);
  if (auto status = sorting::StringPairs(views, options.descending, options.threads)
                        .sort({pairs.get(), strings.size()});
      !status)
    return std::unexpected(status.error());
  return pairs;
}

}  // namespace

// A pair is as large as a view, and gives its place to the view that belongs there.
Status sort(std::span<std::string_view> strings, const SortOptions& options) {
  static_assert(sizeof(KeyValue) == sizeof(std::string_view));
  constexpr size_t moved_ahead = 16;
  auto pairs = sorted_pairs(strings, !options.stable, options);
  if (!pairs) return std::unexpected(pairs.error());
  KeyValue* const all = pairs->get();
  const size_t threads = std::clamp<size_t>(strings.size() / sorting::pairs_of_a_thread_min, 1,
                                            std::max(options.threads, 1u));
  auto begin_of = [&](size_t thread) { return strings.size() * thread / threads; };
  in_threads(threads, [&](size_t thread) {
    for (size_t i = begin_of(thread); i < begin_of(thread + 1); ++i) {
      if (i + moved_ahead < begin_of(thread + 1))
        __builtin_prefetch(&strings[all[i + moved_ahead].value]);
      const std::string_view string = strings[all[i].value];
      std::memcpy(static_cast<void*>(all + i), &string, sizeof(string));
    }
  });
  in_threads(threads, [&](size_t thread) {
    const size_t begin = begin_of(thread);
    if (begin == begin_of(thread + 1)) return;
    std::memcpy(static_cast<void*>(strings.data() + begin), all + begin,
                (begin_of(thread + 1) - begin) * sizeof(KeyValue));
  });
  return {};
}

Status argsort(std::span<const std::string_view> strings, std::span<uint64_t> order,
               const SortOptions& options) {
  if (order.size() < strings.size())
    return failure(ErrorCode::invalid_argument, "argsort", "the order", "as many places as keys");
  auto pairs = sorted_pairs(strings, false, options);
  if (!pairs) return std::unexpected(pairs.error());
  for (size_t i = 0; i < strings.size(); ++i) order[i] = (*pairs)[i].value;
  return {};
}

}  // namespace penstock
