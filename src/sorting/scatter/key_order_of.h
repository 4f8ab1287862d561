#pragma once

// The types of users as sorts and partitions see them: unsigned words, in an order.

#include <cstdint>
#include <limits>
#include <type_traits>

#include "penstock/base.h"
#include "sorting/scatter/key_order.h"

// Applies a macro to each type of users.
#define PENSTOCK_FOR_SORTABLE(apply)                                                         \
  apply(uint8_t) apply(int8_t) apply(uint16_t) apply(int16_t) apply(uint32_t) apply(int32_t) \
      apply(uint64_t) apply(int64_t) apply(float) apply(double) apply(KeyValue32)            \
          apply(KeyValue64) apply(Key128)

namespace penstock::scatter {

// The unsigned item of T's bytes that the sorts see.
template <class T>
auto seen_item() {
  if constexpr (std::is_same_v<T, float>) {
    return uint32_t{};
  } else if constexpr (std::is_same_v<T, double> || std::is_same_v<T, KeyValue32>) {
    return uint64_t{};  // a pair's key below, its value above; the order turns it
  } else if constexpr (std::is_integral_v<T>) {
    return std::make_unsigned_t<T>{};
  } else {
    return T{};
  }
}
template <class T>
using ItemOf = decltype(seen_item<T>());

template <class T>
KeyOrder key_order_of(bool descending) {
  KeyOrder order;
  constexpr unsigned bits = 8 * sizeof(ItemOf<T>) > 64 ? 64 : 8 * sizeof(ItemOf<T>);
  constexpr uint64_t ones = ~uint64_t{0} >> (64 - bits);
  constexpr uint64_t sign = uint64_t{1} << (bits - 1);
  if constexpr (std::is_same_v<T, KeyValue32>) {
    order.turn_bits = 32;
  } else if constexpr (std::is_floating_point_v<T>) {
    order.flip = sign;
    order.flip_if_negative = ones ^ sign;
    constexpr int mantissa_bits = std::numeric_limits<T>::digits - 1;
    order.subtract = (uint64_t{1} << mantissa_bits) - 1;  // NaNs with a sign
  } else if constexpr (std::is_signed_v<T>) {
    order.flip = sign;
  }
  if (!descending) return order;
  order = order.reversed();
  order.flip &= ones;
  order.subtract &= ones;
  return order;
}

}  // namespace penstock::scatter
