// Counts how often each number comes in a sequence, with a hash table that grows bucket by bucket:
// its directory is the page table, and no insertion waits for the whole table to be copied.

#include <cstdint>
#include <cstdio>
#include <random>

#include "penstock/base.h"
#include "penstock/containers.h"
#include "penstock/rewire.h"

int main() {
  auto pool =
      penstock::PagePool::open({.page_bytes = 64 * penstock::KiB, .bytes_max = 64 * penstock::MiB});
  if (!pool) return 1;
  auto counts = penstock::RewiredHash<uint64_t, uint32_t>::open(*pool, {.name = "counts"});
  if (!counts) return 1;

  std::mt19937_64 random;
  constexpr uint64_t numbers = 1'000'000;
  for (uint64_t i = 0; i < numbers; ++i) {
    const uint64_t number = random() % 300'000;
    auto count = counts->insert(number, 1);
    if (!count) {
      std::fprintf(stderr, "%s\n", count.error().message().c_str());
      return 1;
    }
    if (!count->is_new) ++*count->value;
  }

  uint64_t total = 0, most = 0;
  uint32_t most_count = 0;
  counts->for_each([&](uint64_t number, uint32_t count) {
    total += count;
    if (count > most_count) most = number, most_count = count;
  });
  std::printf(
      "%llu numbers, %llu different; %llu came %u times; %llu buckets in %llu slots, %llu "
      "mappings\n",
      static_cast<unsigned long long>(total), static_cast<unsigned long long>(counts->size()),
      static_cast<unsigned long long>(most), most_count,
      static_cast<unsigned long long>(counts->buckets()),
      static_cast<unsigned long long>(counts->slots()),
      static_cast<unsigned long long>(counts->mappings()));
  return total == numbers ? 0 : 1;
}
