#include "external/split/splitters.h"

#include <algorithm>

#include "record/format.h"

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

}  // namespace

std::vector<uint64_t> number_bounds(std::vector<uint64_t> sample, uint32_t buckets_max) {
  std::sort(sample.begin(), sample.end());
  auto bounds = cut(sample, buckets_max, [](uint64_t& key) { return ++key != 0; });
  std::erase(bounds, uint64_t{0});  // nothing is below the least key
  return bounds;
}

StringSplitters::StringSplitters(std::vector<std::string> sample, uint32_t buckets_max) {
  std::sort(sample.begin(), sample.end());
  bounds_ = cut(sample, buckets_max, [](std::string& key) {
    key.push_back('\0');
    return true;
  });
  constant_.assign(bounds_.size() + 1, false);
  for (size_t i = 0; i < bounds_.size(); ++i) {
    const std::string& bound = bounds_[i];
    prefixes_.push_back(
        record::prefix_of(reinterpret_cast<const std::byte*>(bound.data()), bound.size()));
    if (i > 0 && bound.size() == bounds_[i - 1].size() + 1 && bound.back() == '\0' &&
        bound.starts_with(bounds_[i - 1])) {
      constant_[i] = true;
    }
  }
}

uint32_t StringSplitters::classify(std::string_view key) const {
  uint64_t prefix = record::prefix_of(reinterpret_cast<const std::byte*>(key.data()), key.size());
  auto low = std::lower_bound(prefixes_.begin(), prefixes_.end(), prefix) - prefixes_.begin();
  auto bucket = static_cast<size_t>(low);
  while (bucket < bounds_.size() && prefixes_[bucket] == prefix && bounds_[bucket] <= key) ++bucket;
  return static_cast<uint32_t>(bucket);
}

}  // namespace penstock::external
