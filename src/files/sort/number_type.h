#pragma once

// C++ type of a number, or a pair of numbers, while it is sorted in memory.

#include "items/keys/codec.h"
#include "sorting/sort/item.h"

namespace penstock::external {

// Calls use<T>() with that type: uint32_t, uint64_t or KeyValue.
template <class Use>
auto with_number_type(items::Type type, Use use) {
  switch (items::item_bytes_of(type)) {
    case sizeof(uint32_t):
      return use.template operator()<uint32_t>();
    case sizeof(sorting::KeyValue):
      return use.template operator()<sorting::KeyValue>();
    default:
      return use.template operator()<uint64_t>();
  }
}

}  // namespace penstock::external
