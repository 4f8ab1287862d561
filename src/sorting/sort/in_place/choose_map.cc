#include "sorting/sort/in_place/choose_map.h"

#include <cstddef>
#include <utility>
#include <vector>

#include "sorting/sort/cache/quick_sort.h"

namespace penstock::sorting {

void sort_sample(std::vector<uint64_t>& sample) {
  std::vector<uint64_t> spare(sample.size());
  quick_sort(sample.data(), sample.size(), spare.data());
}

BucketMap choose_map(std::span<const uint64_t> sample, uint32_t buckets, double share_max) {
  // The sample has only one key: it gets its own bucket, whatever other keys exist.
  if (const uint64_t key = sample.front(); key == sample.back()) {
    std::vector<uint64_t> around;
    if (key != 0) around.push_back(key);
    if (key != ~uint64_t{0}) around.push_back(key + 1);
    return BucketMap::by_splitters(std::move(around));
  }
  BucketMap map = BucketMap::by_range({sample.front(), sample.back()}, buckets);
  size_t in_large = 0;
  for (size_t start = 0; start < sample.size();) {
    uint32_t bucket = map(sample[start]);
    size_t end = start + 1;
    while (end < sample.size() && map(sample[end]) == bucket) ++end;
    bool one_key = sample[start] == sample[end - 1];
    auto share = static_cast<double>(end - start) / static_cast<double>(sample.size());
    if (share > share_max && !one_key) in_large += end - start;
    start = end;
  }
  if (in_large <= sample.size() / 10) return map;

  // A key that fills a share by itself gets its own bucket, from it to the next key. A quarter of
  // the buckets is reserved for such keys.
  std::vector<uint64_t> splitters;
  auto add = [&](uint64_t key) {
    if (splitters.empty() || splitters.back() < key) splitters.push_back(key);
  };
  const uint32_t shares = buckets - buckets / 4;
  uint64_t before = sample.front();
  for (uint32_t i = 1; i < shares && splitters.size() + 2 < buckets; ++i) {
    const uint64_t key = sample[i * sample.size() / shares];
    add(key);
    if (key == before && key != ~uint64_t{0}) add(key + 1);
    before = key;
  }
  return BucketMap::by_splitters(std::move(splitters));
}

}  // namespace penstock::sorting
