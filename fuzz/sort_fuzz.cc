#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <span>
#include <type_traits>
#include <vector>

#include "penstock/sort.h"

// Fuzzing the sort of memory: the bytes of the input choose the type, the call, its options and the
// items, and the result is compared with std::stable_sort's.
//
//   byte 0   type
//   byte 1   call, direction, stability, threads
//   byte 2   how the rest becomes items: unchanged, or repeated up to a size at which chunks and
//            threads are used, with a step that is added in each round
//   bytes 3  to 5: that size and step
//   rest     items

namespace penstock {
namespace {

struct Input {
  const uint8_t* data;
  size_t size;

  uint8_t byte() {
    if (size == 0) return 0;
    --size;
    return *data++;
  }
};

// The order that the sort's header promises.
template <class T>
bool less(const T& a, const T& b) {
  if constexpr (std::is_same_v<T, KeyValue32> || std::is_same_v<T, KeyValue64>) {
    return a.key < b.key;
  } else if constexpr (std::is_same_v<T, Key128>) {
    return a.high != b.high ? a.high < b.high : a.low < b.low;
  } else if constexpr (std::is_floating_point_v<T>) {
    // NaNs come after all numbers, those with a sign last.
    if (std::isnan(a) != std::isnan(b)) return std::isnan(b);
    const bool negative = std::signbit(a);
    if (negative != std::signbit(b)) return std::isnan(a) ? !negative : negative;
    using Word = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
    const auto left = std::bit_cast<Word>(a), right = std::bit_cast<Word>(b);
    return negative ? left > right : left < right;
  } else {
    return a < b;
  }
}

template <class T>
void require(bool good, const char* what) {
  if (good) return;
  std::fprintf(stderr, "sort_fuzz: %s, items of %zu bytes\n", what, sizeof(T));
  std::abort();
}

template <class T>
std::vector<T> items_of(Input input, uint8_t way, uint64_t size, uint8_t step) {
  const size_t given = input.size / sizeof(T);
  std::vector<T> items(given);
  if (given == 0) return items;
  std::memcpy(items.data(), input.data, given * sizeof(T));
  if (way % 8 != 0) return items;
  // A large array costs the time of thousands of small ones, so one input of eight is large.
  const size_t count = (size_t{1} << 20) / sizeof(T) + 1 + size * 8;
  items.reserve(count);
  while (items.size() < count) {
    T item = items[items.size() - given];
    uint8_t bytes[sizeof(T)];
    std::memcpy(bytes, &item, sizeof(T));
    bytes[way / 8 % sizeof(T)] = static_cast<uint8_t>(bytes[way / 8 % sizeof(T)] + step);
    std::memcpy(&item, bytes, sizeof(T));
    items.push_back(item);
  }
  return items;
}

template <class T>
void try_sort(uint8_t choice, const std::vector<T>& items) {
  const SortOptions options = {.threads = 1u + choice / 16 % 3,
                               .descending = (choice & 4) != 0,
                               .stable = (choice & 8) != 0};
  auto before = [&](const T& a, const T& b) {
    return options.descending ? less(b, a) : less(a, b);
  };
  constexpr bool pair = std::is_same_v<T, KeyValue32> || std::is_same_v<T, KeyValue64>;
  std::vector<T> expected = items;
  std::stable_sort(expected.begin(), expected.end(), before);

  auto require_like_expected = [&](std::vector<T> result, size_t first) {
    if constexpr (pair) {
      if (!options.stable || first != expected.size()) {
        for (size_t i = 0; i < first; ++i)
          require<T>(result[i].key == expected[i].key, "not the keys in order");
        // Equal keys may be in any order.
        std::vector<T> all = expected;
        auto by_all = [](const T& a, const T& b) {
          return a.key != b.key ? a.key < b.key : a.value < b.value;
        };
        if (result.size() != all.size()) return;
        std::sort(all.begin(), all.end(), by_all);
        std::sort(result.begin(), result.end(), by_all);
        require<T>(result == all, "not the items that were given");
        return;
      }
    }
    require<T>(first == 0 || std::memcmp(result.data(), expected.data(), first * sizeof(T)) == 0,
               "not the items in order");
    if (first != expected.size() && result.size() == expected.size()) {
      std::stable_sort(result.begin(), result.end(), before);
      require<T>(std::memcmp(result.data(), expected.data(), result.size() * sizeof(T)) == 0,
                 "not the items that were given");
    }
  };

  const size_t some = items.size() * (choice / 64 + 1) / 5;
  switch (choice % 4) {
    case 0: {
      std::vector<T> sorted = items;
      require<T>(penstock::sort(sorted, options).has_value(), "an error");
      require_like_expected(sorted, items.size());
      break;
    }
    case 1: {
      std::vector<T> out(items.size());
      require<T>(penstock::sort(std::span<const T>(items), std::span<T>(out), options).has_value(),
                 "an error");
      require_like_expected(out, items.size());
      break;
    }
    case 2: {
      std::vector<T> sorted = items;
      require<T>(penstock::partial_sort(sorted, some, options).has_value(), "an error");
      require_like_expected(sorted, some);
      std::vector<T> top(some);
      require<T>(top_k<T>(items, top, options).has_value(), "an error");
      require_like_expected(top, some);
      break;
    }
    case 3: {
      std::vector<uint64_t> order(items.size());
      require<T>(argsort<T>(items, order, options).has_value(), "an error");
      for (size_t i = 0; i < order.size(); ++i) {
        require<T>(
            order[i] < items.size() && std::memcmp(&items[order[i]], &expected[i], sizeof(T)) == 0,
            "not the places in order");
      }
      break;
    }
  }
}

template <class T>
void try_type(Input input) {
  const uint8_t choice = input.byte();
  const uint8_t way = input.byte();
  const uint64_t low = input.byte();
  const uint64_t size = low + 256 * input.byte();
  const uint8_t step = input.byte();
  try_sort<T>(choice, items_of<T>(input, way, size, step));
}

}  // namespace
}  // namespace penstock

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace penstock;
  Input input = {data, size};
  switch (input.byte() % 13) {
    case 0:
      try_type<uint8_t>(input);
      break;
    case 1:
      try_type<uint16_t>(input);
      break;
    case 2:
      try_type<uint32_t>(input);
      break;
    case 3:
      try_type<uint64_t>(input);
      break;
    case 4:
      try_type<int8_t>(input);
      break;
    case 5:
      try_type<int16_t>(input);
      break;
    case 6:
      try_type<int32_t>(input);
      break;
    case 7:
      try_type<int64_t>(input);
      break;
    case 8:
      try_type<float>(input);
      break;
    case 9:
      try_type<double>(input);
      break;
    case 10:
      try_type<KeyValue32>(input);
      break;
    case 11:
      try_type<KeyValue64>(input);
      break;
    case 12:
      try_type<Key128>(input);
      break;
  }
  return 0;
}
