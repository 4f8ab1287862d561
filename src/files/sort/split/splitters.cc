#include "files/sort/split/splitters.h"

#include <algorithm>

namespace penstock::external {
namespace {

// Cuts a sorted sample into at most `buckets_max` parts of equal share. A key that a cut meets
// twice is heavy: `successor` turns it into the least key above it.
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

}  // namespace

std::vector<uint64_t> number_bounds(std::vector<uint64_t> sample, uint32_t buckets_max) {
  std::sort(sample.begin(), sample.end());
  auto bounds = cut(sample, buckets_max, [](uint64_t& key) { return ++key != 0; });
  std::erase(bounds, uint64_t{0});  // nothing is below the least key
  return bounds;
}

items::Cuts text_cuts(const items::Format& format, std::vector<std::string> sample,
                      uint32_t buckets_max) {
  std::sort(sample.begin(), sample.end());
  const items::ItemOrder order(format);
  std::vector<items::ItemKey> keys;
  for (std::string& bound : cut(sample, buckets_max, [](std::string& key) {
         key.push_back('\0');
         return true;
       }))
    keys.push_back(order.key_of_bytes(std::move(bound)));
  return {order, std::move(keys)};
}

}  // namespace penstock::external
