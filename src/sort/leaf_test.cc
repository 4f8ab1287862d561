#include "sort/leaf.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "base/random.h"
#include "os/cpu.h"

namespace penstock::sort {
namespace {

template <class T>
T make(uint64_t key, uint64_t value) {
  if constexpr (std::is_same_v<T, KeyValue>) {
    return {key, value};
  } else {
    return static_cast<T>(key);
  }
}

// Every length, keys with many repeats and with the extremes (which networks pad with).
template <class T>
void check_all_lengths(LeafSort<T> leaf) {
  Random random(7);
  for (size_t count = 0; count <= leaf_items_max; ++count) {
    for (int kind = 0; kind < 5; ++kind) {
      std::vector<T> in;
      for (size_t i = 0; i < count; ++i) {
        uint64_t keys[] = {random.next(), random.below(3), ~uint64_t{0}, i,
                           random.below(2) == 0 ? ~uint64_t{0} : random.next()};
        in.push_back(make<T>(keys[kind], i * 0x9e3779b97f4a7c15u + 1));
      }
      std::vector<T> out(count + 1, make<T>(12345, 678));
      leaf(in.data(), count, out.data());
      EXPECT_EQ(key_of(out[count]), key_of(make<T>(12345, 678))) << "written past the end";
      out.pop_back();
      auto whole = [](const T& a, const T& b) {
        if constexpr (std::is_same_v<T, KeyValue>) {
          return std::pair(a.key, a.value) < std::pair(b.key, b.value);
        } else {
          return a < b;
        }
      };
      ASSERT_TRUE(std::is_sorted(out.begin(), out.end(),
                                 [](const T& a, const T& b) { return key_of(a) < key_of(b); }))
          << "count " << count << " kind " << kind;
      std::sort(in.begin(), in.end(), whole);
      std::sort(out.begin(), out.end(), whole);
      for (size_t i = 0; i < count; ++i)
        ASSERT_FALSE(whole(in[i], out[i]) || whole(out[i], in[i])) << "count " << count;
    }
  }
}

TEST(LeafSort, PortableSortsEveryLength) {
  check_all_lengths<uint32_t>(portable::leaf_u32);
  check_all_lengths<uint64_t>(portable::leaf_u64);
  check_all_lengths<KeyValue>(portable::leaf_kv);
}

TEST(LeafSort, Avx512SortsEveryLength) {
#if defined(__x86_64__)
  if (os::cpu_tier() < os::CpuTier::avx512) GTEST_SKIP() << "no AVX-512 on this processor";
  check_all_lengths<uint32_t>(avx512::leaf_u32);
  check_all_lengths<uint64_t>(avx512::leaf_u64);
  check_all_lengths<KeyValue>(avx512::leaf_kv);
#else
  GTEST_SKIP() << "not an x86-64 processor";
#endif
}

TEST(LeafSort, InsertionSortIsStable) {
  Random random(3);
  for (size_t count = 0; count <= 40; ++count) {
    std::vector<KeyValue> in;
    for (size_t i = 0; i < count; ++i) in.push_back({random.below(5), i});
    std::vector<KeyValue> out(count);
    insertion_sort(in.data(), count, out.data());
    for (size_t i = 1; i < count; ++i) {
      ASSERT_LT(std::pair(out[i - 1].key, out[i - 1].value), std::pair(out[i].key, out[i].value));
    }
  }
}

}  // namespace
}  // namespace penstock::sort
