#pragma once

// Items of any type that the sorts take, for tests.

#include <cstdint>
#include <type_traits>

#include "sorting/sort/item.h"

namespace penstock::sorting {

// `other`: the rest of an item that has more than a key of 64 bits.
template <class T>
T make_item(uint64_t key, uint64_t other) {
  if constexpr (std::is_same_v<T, KeyValue>) {
    return {.key = key, .value = other};
  } else if constexpr (std::is_same_v<T, Key128>) {
    return {.low = other, .high = key};
  } else {
    return static_cast<T>(key);
  }
}

}  // namespace penstock::sorting
