#include "external/split/splitters.h"

#include <algorithm>

#include "record/items.h"

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

constexpr size_t prefix_bytes = sizeof(uint64_t);

// Of two strings with the same prefix the one of the smaller length comes first, unless both are longer
// than that.
uint8_t length_of(std::string_view text) {
  return static_cast<uint8_t>(std::min(text.size(), prefix_bytes + 1));
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
  if (!bounds_.empty()) {
    const std::string& first = bounds_.front();
    const auto differ =
        std::mismatch(first.begin(), first.end(), bounds_.back().begin(), bounds_.back().end());
    common_.assign(first.begin(), differ.first);
  }
  for (size_t i = 0; i < bounds_.size(); ++i) {
    const std::string_view bound = bounds_[i];
    prefixes_.push_back(record::prefix_of(bound.substr(common_.size())));
    lengths_.push_back(length_of(bound.substr(common_.size())));
    if (i > 0 && bound.size() == bounds_[i - 1].size() + 1 && bound.back() == '\0' &&
        bound.starts_with(bounds_[i - 1])) {
      constant_[i] = true;
    }
  }
}

// Keys that begin like the bounds are told apart by the eight bytes behind that, and by their lengths;
// bounds that are alike in these, too, are bisected.
uint32_t StringSplitters::classify(std::string_view key) const {
  const size_t bounds = bounds_.size();
  const size_t common = common_.size();
  if (const int order = key.compare(0, common, common_); order != 0) [[unlikely]]
    return order < 0 ? 0 : static_cast<uint32_t>(bounds);
  if (bounds == 0) return 0;
  const std::string_view rest = key.substr(common);
  const uint64_t prefix = record::prefix_of(rest);
  // Without a branch that depends on the key: which half it is in, nothing can foresee.
  const uint64_t* const prefixes = prefixes_.data();
  size_t bucket = 0;
  for (size_t left = bounds; left > 1;) {
    const size_t half = left / 2;
    bucket += half & -static_cast<size_t>(prefixes[bucket + half - 1] < prefix);
    left -= half;
  }
  bucket += prefixes[bucket] < prefix;
  const uint8_t length = length_of(rest);
  for (; bucket < bounds && prefixes[bucket] == prefix; ++bucket) {
    if (lengths_[bucket] > length) break;
    if (lengths_[bucket] == prefix_bytes + 1) {
      const auto end = std::upper_bound(prefixes_.begin() + static_cast<ptrdiff_t>(bucket),
                                        prefixes_.end(), prefix) -
                       prefixes_.begin();
      return static_cast<uint32_t>(
          std::upper_bound(bounds_.begin() + static_cast<ptrdiff_t>(bucket), bounds_.begin() + end,
                           key) -
          bounds_.begin());
    }
  }
  return static_cast<uint32_t>(bucket);
}

}  // namespace penstock::external
