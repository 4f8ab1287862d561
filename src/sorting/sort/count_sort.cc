#include "sorting/sort/count_sort.h"

#include <algorithm>
#include <array>
#include <functional>
#include <limits>
#include <memory>
#include <new>
#include <type_traits>

#include "base/out_of_memory.h"

// Four sets of counters take turns, so that runs of one value do not wait for their own additions.
// Below a few thousand items of 16 bits the counters would cost more than the items.

namespace penstock::sorting {
namespace {

constexpr size_t sets = 4;
constexpr size_t few_items = 4096;

}  // namespace

template <class T>
Status count_sort(const T* in, size_t count, T* out, bool descending) {
  using Word = std::make_unsigned_t<T>;
  constexpr size_t values = size_t{std::numeric_limits<Word>::max()} + 1;
  if (sizeof(T) == 2 && count <= few_items) {
    if (out != in) std::copy_n(in, count, out);
    descending ? std::sort(out, out + count, std::greater<>()) : std::sort(out, out + count);
    return {};
  }
  using Counters = std::array<uint64_t, values * sets>;
  std::unique_ptr<Counters> counters(new (std::nothrow) Counters{});
  if (counters == nullptr) return out_of_memory();
  size_t i = 0;
  for (; i + sets <= count; i += sets) {
    for (size_t set = 0; set < sets; ++set)
      ++(*counters)[set * values + static_cast<Word>(in[i + set])];
  }
  for (; i < count; ++i) ++(*counters)[static_cast<Word>(in[i])];
  constexpr int least = std::numeric_limits<T>::min();
  for (size_t place = 0; place < values; ++place) {
    const size_t rank = descending ? values - 1 - place : place;
    const auto value = static_cast<T>(static_cast<int>(rank) + least);
    uint64_t items = 0;
    for (size_t set = 0; set < sets; ++set)
      items += (*counters)[set * values + static_cast<Word>(value)];
    out = std::fill_n(out, items, value);
  }
  return {};
}

template Status count_sort(const uint8_t*, size_t, uint8_t*, bool);
template Status count_sort(const int8_t*, size_t, int8_t*, bool);
template Status count_sort(const uint16_t*, size_t, uint16_t*, bool);
template Status count_sort(const int16_t*, size_t, int16_t*, bool);

}  // namespace penstock::sorting
