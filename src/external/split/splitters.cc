#include "external/split/splitters.h"

#include <algorithm>

namespace penstock::external {
namespace {

// Cuts a sorted sample into at most `buckets_max` parts of equal share. A key that a cut meets
// twice is heavy: `successor` gives the least key above it.
template <class Key, class Successor>
std::vector<Key> cut(const std::vector<Key>& sample, uint32_t buckets_max, Successor successor) {
  std::vector<Key> bounds;
  for (uint32_t i = 1; i < buckets_max && !sample.empty(); ++i) {
    const Key& key = sample[sample.size() * i / buckets_max];
    if (!bounds.empty() && bounds.back() == key) {
      Key above = key;
      if (successor(above)) bounds.push_back(std::move(above));
    } else if (bounds.empty() || bounds.back() < key) {
      bounds.push_back(key);
    }
  }
  return bounds;
}

// Notes for each bucket in `constant` whether it has one key.
record::Cuts text_cuts(const record::ItemOrder& order, std::vector<std::string> sample,
                       uint32_t buckets_max, std::vector<bool>& constant) {
  std::sort(sample.begin(), sample.end());
  const auto bounds = cut(sample, buckets_max, [](std::string& key) {
    key.push_back('\0');
    return true;
  });
  std::vector<record::ItemKey> keys;
  for (size_t i = 0; i < bounds.size(); ++i) {
    const std::string_view bound = bounds[i];
    constant.push_back(false);
    constant[i] = i > 0 && bound.size() == bounds[i - 1].size() + 1 && bound.back() == '\0' &&
                  bound.starts_with(bounds[i - 1]);
    keys.push_back(order.key_of_bytes(bounds[i]));
  }
  return {order, std::move(keys)};
}

}  // namespace

std::vector<uint64_t> number_bounds(std::vector<uint64_t> sample, uint32_t buckets_max) {
  std::sort(sample.begin(), sample.end());
  auto bounds = cut(sample, buckets_max, [](uint64_t& key) { return ++key != 0; });
  std::erase(bounds, uint64_t{0});  // nothing is below the least key
  return bounds;
}

StringSplitters::StringSplitters(const record::Format& format, std::vector<std::string> sample,
                                 uint32_t buckets_max)
    : cuts_(text_cuts(record::ItemOrder(format), std::move(sample), buckets_max, constant_)) {}

}  // namespace penstock::external
