#pragma once

#include <string>
#include <type_traits>

#include "penstock/base.h"
#include "penstock/partition.h"
#include "sorting/scatter/bucket_map.h"
#include "sorting/scatter/key_order_of.h"

namespace penstock::partition_internal {

// The kernels' type for T.
template <class T>
using WordOf = std::conditional_t<std::is_same_v<T, KeyValue32>, KeyValue32, scatter::ItemOf<T>>;

// Keys of a type: unsigned numbers of `bits` bits, in an order.
struct KeyShape {
  unsigned bits;
  scatter::KeyOrder order;
};
template <class T>
KeyShape key_shape_of() {
  if constexpr (std::is_same_v<T, KeyValue32>) {
    return {32, {}};
  } else {
    return {sizeof(T) < 8 ? unsigned{8 * sizeof(T)} : 64, scatter::key_order_of<T>(false)};
  }
}

// The bucket of an item is map(its key, encoded by `order`).
struct Buckets {
  scatter::BucketMap map;
  scatter::KeyOrder order;
};

// Prepares the user's choice (bits, range, hash, splitters) for the kernels. Errors:
// invalid_argument.
Result<Buckets> make_buckets(const PartitionBy& by, const KeyShape& shape, const std::string& name);

}  // namespace penstock::partition_internal
