#include "sorting/partition/bucket_function.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace penstock::partition_internal {
namespace {

using scatter::BucketMap;
using Kind = BucketMap::Kind;

struct Maker {
  unsigned key_bits;
  const std::string& name;

  std::unexpected<Error> refuse(std::string hint) const {
    return failure(ErrorCode::invalid_argument, "choose buckets", name, std::move(hint));
  }
  bool too_many(unsigned bits) const { return bits >= 32 || 1u << bits > partition_buckets_max; }

  Result<BucketMap> operator()(const ByLowBits& by) const {
    if (too_many(by.bits)) return refuse("at most 14 bits");
    return BucketMap{.kind = Kind::low_bits, .buckets = 1u << by.bits};
  }

  Result<BucketMap> operator()(const ByHighBits& by) const {
    if (too_many(by.bits)) return refuse("at most 14 bits");
    const unsigned width = by.key_bits == 0 ? key_bits : by.key_bits;
    if (width > key_bits || by.bits > width) return refuse("bits <= key_bits <= those of the key");
    const bool top = by.base == 0 && width == key_bits && by.bits != 0;
    return BucketMap{.kind = top ? Kind::top_bits : Kind::bit_field,
                     .buckets = 1u << by.bits,
                     .zero = by.base,
                     .shift = std::min(width - by.bits, 63u)};
  }

  Result<BucketMap> operator()(const ByRange& by) const {
    if (by.buckets == 0 || by.buckets > partition_buckets_max) return refuse("1 to 16384 buckets");
    if (by.first > by.last) return refuse("first <= last");
    // No key is above its type's greatest.
    const uint64_t key_max = key_bits == 64 ? ~uint64_t{0} : (uint64_t{1} << key_bits) - 1;
    const uint64_t last = std::max(std::min(by.last, key_max), by.first);
    if (last - by.first >= by.buckets) return BucketMap::by_range({by.first, last}, by.buckets);
    // Fewer keys than buckets: some buckets stay empty, such as those behind the last key's.
    const uint64_t keys = last - by.first + 1;
    std::vector<uint64_t> splitters;
    for (uint64_t i = 1; i <= (keys - 1) * by.buckets / keys; ++i)
      splitters.push_back(by.first + (i * keys + by.buckets - 1) / by.buckets);
    BucketMap map = BucketMap::by_splitters(std::move(splitters));
    map.buckets = by.buckets;
    return map;
  }

  Result<BucketMap> operator()(const ByHash& by) const {
    if (by.bits == 0 || too_many(by.bits)) return refuse("1 to 14 bits");
    return BucketMap{
        .kind = Kind::hash, .buckets = 1u << by.bits, .zero = by.seed, .shift = 64 - by.bits};
  }

  Result<BucketMap> operator()(const BySplitters& by) const {
    if (by.splitters.size() >= partition_buckets_max) return refuse("at most 16383 splitters");
    if (!std::is_sorted(by.splitters.begin(), by.splitters.end()))
      return refuse("splitters in order");
    return BucketMap::by_splitters(by.splitters);
  }
};

// Keys of 8 and 16 bits are so few that a table lists the bucket of each.
BucketMap table_of(const BucketMap& map, const KeyShape& shape, bool by_rank) {
  BucketMap table{.kind = Kind::table, .buckets = map.buckets};
  const uint32_t keys = 1u << shape.bits;
  for (uint32_t key = 0; key < keys; ++key) {
    const auto rank = key ^ static_cast<uint32_t>(shape.order.flip);  // these types have no floats
    table.table.push_back(static_cast<uint16_t>(map(by_rank ? rank : key)));
  }
  return table;
}

}  // namespace

Result<Buckets> make_buckets(const PartitionBy& by, const KeyShape& shape,
                             const std::string& name) {
  auto map = std::visit(Maker{shape.bits, name}, by);  // a map of ranks
  if (!map) return std::unexpected(std::move(map.error()));
  const bool by_rank = map->kind != Kind::low_bits && map->kind != Kind::hash;
  if (shape.bits <= 16) return Buckets{table_of(*map, shape, by_rank), {}};
  if (!by_rank || shape.order.plain()) return Buckets{std::move(*map), {}};
  if (map->kind == Kind::range || map->kind == Kind::splitters)
    return Buckets{std::move(*map), shape.order};

  // By high bits. The rank of a signed number is the number with its sign bit flipped.
  if (shape.order.flip_if_negative == 0) {
    map->kind = Kind::bit_field;
    map->zero -= shape.order.flip;
    return Buckets{std::move(*map), {}};
  }
  // The bits of a float's rank are in no field of the float: a search finds the bucket.
  if (map->kind != Kind::top_bits && map->buckets > 1)
    return Maker{shape.bits, name}.refuse("floats by their leading bits (no base, no key_bits)");
  std::vector<uint64_t> splitters;
  for (uint64_t bucket = 1; bucket < map->buckets; ++bucket)
    splitters.push_back(bucket << map->shift);
  return Buckets{BucketMap::by_splitters(std::move(splitters)), shape.order};
}

}  // namespace penstock::partition_internal
