#include <algorithm>
#include <cstdint>
#include <functional>
#include <random>
#include <vector>

#include "penstock/partition.h"
#include "penstock/sort.h"

int main() {
  std::mt19937_64 random;
  std::vector<uint64_t> keys(3'000'000);
  std::generate(keys.begin(), keys.end(), std::ref(random));

  // Buckets by hash, each contiguous, made in one pass by two threads.
  auto parts =
      penstock::partition<uint64_t>(keys, {.by = penstock::ByHash{.bits = 6}, .threads = 2});
  if (!parts) return 1;
  size_t items = 0;
  for (uint32_t i = 0; i < parts->buckets(); ++i) items += parts->bucket(i).size();
  if (items != keys.size()) return 1;

  // In place, on the vector's own memory.
  if (!penstock::sort(keys, {.threads = 2})) return 1;
  return std::is_sorted(keys.begin(), keys.end()) ? 0 : 1;
}
