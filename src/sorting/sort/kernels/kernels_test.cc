#include "sorting/sort/kernels/kernels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/bits.h"
#include "base/random.h"
#include "base/trials.h"
#include "os/cpu.h"
#include "sorting/sort/item_fixture.h"
#include "sorting/sort/kernels/kernels_tiers.h"

namespace penstock::sorting {
namespace {

template <class T>
T item_of(uint64_t key) {
  return make_item<T>(key, ~key);
}

template <class T>
using KernelsOf = const Kernels<T>& (*)();

// Arrays in order, with repeats, in which one item, or none, has changed places with one before it:
// its neighbour or another, sometimes at the edge of a page.
template <class T>
void find_the_end_of_the_order(const Kernels<T>& kernels, Random& random) {
  const KeyOrder up;
  for (const KeyOrder& order : {up, up.reversed(), KeyOrder{.subtract = 1000}}) {
    for (uint64_t trial = 0; trial < trials(40); ++trial) {
      const size_t count = random.below(20'000);
      const uint64_t keys = 1 + random.below(40'000);
      std::vector<T> items(count);
      for (T& item : items) item = item_of<T>(random.below(keys));
      const auto before = [&](const T& one, const T& other) {
        return less(encode(one, order), encode(other, order));
      };
      std::sort(items.begin(), items.end(), before);
      if (count > 1 && random.below(4) > 0) {
        const size_t edge = round_down(random.below(count), 512);
        const size_t at = random.below(2) > 0 && edge > 0 ? edge : 1 + random.below(count - 1);
        std::swap(items[at], items[random.below(2) > 0 ? at - 1 : random.below(at)]);
      }
      const auto end = std::is_sorted_until(items.begin(), items.end(), before);
      ASSERT_EQ(kernels.ascending(items.data(), count, order),
                static_cast<size_t>(end - items.begin()))
          << count << " items";
    }
  }
}

template <class T>
void on_every_processor(KernelsOf<T> portable, KernelsOf<T> avx2, KernelsOf<T> avx512) {
  Random random(seed_of_run());
  find_the_end_of_the_order(portable(), random);
  if (os::cpu_tier() >= os::CpuTier::avx2) find_the_end_of_the_order(avx2(), random);
  if (os::cpu_tier() >= os::CpuTier::avx512) find_the_end_of_the_order(avx512(), random);
}

#if defined(__x86_64__)
#define PENSTOCK_ON_EVERY_PROCESSOR(name) \
  on_every_processor(portable::name, avx2::name, avx512::name)
#else
#define PENSTOCK_ON_EVERY_PROCESSOR(name) \
  on_every_processor(portable::name, portable::name, portable::name)
#endif

TEST(Kernels, FindTheEndOfTheOrder) {
  PENSTOCK_ON_EVERY_PROCESSOR(kernels_u32);
  PENSTOCK_ON_EVERY_PROCESSOR(kernels_u64);
  PENSTOCK_ON_EVERY_PROCESSOR(kernels_kv);
  PENSTOCK_ON_EVERY_PROCESSOR(kernels_key128);
}

}  // namespace
}  // namespace penstock::sorting
