// The bucket functions that users name, made ready for the kernels.

#include <algorithm>
#include <bit>
#include <utility>

#include "partition/write_combine.h"

namespace penstock::partition_internal {
namespace {

using Kind = BucketFunction::Kind;

constexpr size_t tree_nodes_min = 32;  // kernels load that many, used or not

struct Maker {
  unsigned key_bits;
  const std::string& name;

  std::unexpected<Error> refuse(std::string hint) const {
    return failure(ErrorCode::invalid_argument, "choose buckets", name, std::move(hint));
  }
  bool too_many(unsigned bits) const { return bits >= 32 || 1u << bits > partition_buckets_max; }

  Result<BucketFunction> operator()(const ByLowBits& by) const {
    if (too_many(by.bits)) return refuse("at most 14 bits");
    return BucketFunction{
        .kind = Kind::low_bits, .buckets = 1u << by.bits, .mask = (1u << by.bits) - 1};
  }

  Result<BucketFunction> operator()(const ByHighBits& by) const {
    if (too_many(by.bits)) return refuse("at most 14 bits");
    const unsigned width = by.key_bits == 0 ? key_bits : by.key_bits;
    if (width > key_bits || by.bits > width) return refuse("bits <= key_bits <= those of the key");
    BucketFunction f{.kind = Kind::bit_field,
                     .buckets = 1u << by.bits,
                     .mask = (1u << by.bits) - 1,
                     .shift = std::min(width - by.bits, 63u),
                     .base = by.base};
    if (by.base == 0 && width == key_bits && by.bits != 0) f.kind = Kind::top_bits;
    return f;
  }

  // (key - first), shifted until the width has 32 bits, times buckets / width.
  Result<BucketFunction> operator()(const ByRange& by) const {
    if (by.buckets == 0 || by.buckets > partition_buckets_max) return refuse("1 to 16384 buckets");
    if (by.first > by.last) return refuse("first <= last");
    // No key lies behind its type's greatest.
    const uint64_t key_max = key_bits == 64 ? ~uint64_t{0} : (uint64_t{1} << key_bits) - 1;
    const uint64_t last = std::max(std::min(by.last, key_max), by.first);
    const uint64_t greatest = last - by.first;
    const auto bits = static_cast<unsigned>(std::bit_width(greatest));
    BucketFunction f{.kind = Kind::range,
                     .buckets = by.buckets,
                     .shift = bits > 32 ? bits - 32 : 0,
                     .up = bits < 32 && bits > 0 ? 32 - bits : 0,
                     .base = by.first,
                     .last = last};
    const uint64_t width = (greatest << f.up >> f.shift) + (uint64_t{1} << f.up);
    f.scale = (uint64_t{by.buckets} << 32) / width;
    return f;
  }

  Result<BucketFunction> operator()(const ByHash& by) const {
    if (by.bits == 0 || too_many(by.bits)) return refuse("1 to 14 bits");
    return BucketFunction{
        .kind = Kind::hash, .buckets = 1u << by.bits, .shift = 64 - by.bits, .base = by.seed};
  }

  Result<BucketFunction> operator()(const BySplitters& by) const {
    const size_t count = by.splitters.size();
    if (count >= partition_buckets_max) return refuse("at most 16383 splitters");
    if (!std::is_sorted(by.splitters.begin(), by.splitters.end()))
      return refuse("splitters in order");
    BucketFunction f{.kind = Kind::splitters, .buckets = static_cast<uint32_t>(count) + 1};
    f.levels = static_cast<unsigned>(std::bit_width(count));
    const size_t nodes = size_t{1} << f.levels;  // the first is not used
    auto tree64 = std::make_shared<uint64_t[]>(std::max(nodes, tree_nodes_min));
    auto tree32 = std::make_shared<uint32_t[]>(std::max(nodes, tree_nodes_min));
    const uint64_t key_max = key_bits == 64 ? ~uint64_t{0} : (uint64_t{1} << key_bits) - 1;
    size_t within = count;  // splitters that some key can reach
    while (within > 0 && by.splitters[within - 1] > key_max) --within;
    for (unsigned level = 0; level < f.levels; ++level) {
      for (size_t i = 0; i < size_t{1} << level; ++i) {
        // In order of their keys, node i of this level is this one of all nodes.
        const size_t rank = ((2 * i + 1) << (f.levels - level - 1)) - 1;
        const uint64_t key = rank < within ? by.splitters[rank] : key_max;
        tree64[(size_t{1} << level) + i] = key;
        tree32[(size_t{1} << level) + i] = static_cast<uint32_t>(key);
      }
    }
    // The greatest key passes the padding: its bucket is the last one that a key can reach.
    f.last = within;
    f.tree64 = std::move(tree64);
    f.tree32 = std::move(tree32);
    return f;
  }
};

}  // namespace

Result<BucketFunction> make_bucket_function(const PartitionBy& by, unsigned key_bits,
                                            const std::string& name) {
  return std::visit(Maker{key_bits, name}, by);
}

}  // namespace penstock::partition_internal
