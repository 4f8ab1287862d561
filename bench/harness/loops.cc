#include "bench/harness/loops.h"

namespace penstock::bench {
namespace {

#if defined(__x86_64__)
#define PENSTOCK_WIDEST [[gnu::target_clones("avx512f", "avx2", "default")]]
#else
#define PENSTOCK_WIDEST
#endif

using Wide [[gnu::vector_size(64)]] = uint64_t;

[[gnu::noinline]] void fill_16(void* to, uint64_t bytes, uint64_t first) {
  auto* data = static_cast<Item*>(to);
  Item value = {first, first + 1};
  for (uint64_t i = 0; i < bytes / sizeof(Item); ++i, value += 2) data[i] = value;
}

[[gnu::noinline]] uint64_t sum_16(const void* from, uint64_t bytes) {
  auto* data = static_cast<const Item*>(from);
  Item total = {};
  for (uint64_t i = 0; i < bytes / sizeof(Item); ++i) total += data[i];
  return total[0] + total[1];
}

PENSTOCK_WIDEST void fill_64(void* to, uint64_t bytes, uint64_t first) {
  auto* data = static_cast<Wide*>(to);
  Wide value = {first, first + 1, first + 2, first + 3, first + 4, first + 5, first + 6, first + 7};
  for (uint64_t i = 0; i < bytes / sizeof(Wide); ++i, value += 8) data[i] = value;
}

PENSTOCK_WIDEST uint64_t sum_64(const void* from, uint64_t bytes) {
  auto* data = static_cast<const Wide*>(from);
  Wide totals[2] = {};  // two, so that an addition does not wait for the one before
  for (uint64_t i = 0; i + 1 < bytes / sizeof(Wide); i += 2) {
    totals[0] += data[i];
    totals[1] += data[i + 1];
  }
  uint64_t total = 0;
  for (int i = 0; i < 8; ++i) total += totals[0][i] + totals[1][i];
  return total;
}

}  // namespace

const Loops items_of_16_bytes{"16-byte items", fill_16, sum_16};
const Loops items_of_64_bytes{"64-byte items", fill_64, sum_64};

uint64_t sum_of_numbers(uint64_t bytes) {
  const uint64_t numbers = bytes / sizeof(uint64_t);
  return numbers / 2 * (numbers - 1);  // an even number of them, so that the division is exact
}

}  // namespace penstock::bench
