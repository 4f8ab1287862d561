#include "sorting/sort/leaf/leaf.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

#include "base/random.h"
#include "os/cpu.h"
#include "sorting/sort/item_fixture.h"

namespace penstock::sorting {
namespace {

struct Tier {
  std::string name;
  WordSort words;
  LeafSort<uint32_t> u32;
  LeafSort<uint64_t> u64;
  LeafSort<KeyValue> kv;
  LeafSort<Key128> key128;
};

// Tiers that the machine has (and PENSTOCK_CPU allows).
std::vector<Tier> tiers() {
  std::vector<Tier> found = {{"portable", portable::sort_words, portable::leaf, portable::leaf,
                              portable::leaf, portable::leaf}};
#if defined(__x86_64__)
  if (os::cpu_tier() >= os::CpuTier::avx2)
    found.push_back({"avx2", avx2::sort_words, avx2::leaf, avx2::leaf, avx2::leaf, avx2::leaf});
  if (os::cpu_tier() >= os::CpuTier::avx512)
    found.push_back(
        {"avx512", avx512::sort_words, avx512::leaf, avx512::leaf, avx512::leaf, avx512::leaf});
#endif
  return found;
}

struct Shape {
  const char* name;
  uint64_t base;
  unsigned bits;
  uint64_t (*offset)(Random&, size_t i, unsigned bits);  // offset of a key, in [0, 2^bits)
};

uint64_t below_bits(Random& random, unsigned bits) {
  return bits == 0 ? 0 : random.next() >> (64 - bits);
}
uint64_t top_of(unsigned bits) {
  return bits == 0 ? 0 : ~uint64_t{0} >> (64 - bits);
}

uint64_t uniform(Random& random, size_t, unsigned bits) {
  return below_bits(random, bits);
}
uint64_t few(Random& random, size_t, unsigned bits) {
  const uint64_t values[] = {0, top_of(bits), top_of(bits) / 2, top_of(bits) / 3};
  return values[random.below(4)];
}
uint64_t rising(Random&, size_t i, unsigned bits) {
  return std::min<uint64_t>(i, top_of(bits));
}
uint64_t falling(Random&, size_t i, unsigned bits) {
  return top_of(bits) - std::min<uint64_t>(i, top_of(bits));
}
// All digests equal, keys different.
uint64_t low_bits(Random& random, size_t, unsigned bits) {
  return random.next() & (top_of(bits) >> std::min(bits, 26u));
}
// A few digests, each many times, above keys that differ below them.
uint64_t clusters(Random& random, size_t i, unsigned bits) {
  const uint64_t low = low_bits(random, i, bits);
  return bits < 40 ? low : low | (random.below(5) << (bits - 8));
}
uint64_t mixed_extremes(Random& random, size_t, unsigned bits) {
  const uint64_t values[] = {0, top_of(bits), below_bits(random, bits)};
  return values[random.below(3)];
}

constexpr uint64_t high_base = ~uint64_t{0} << 44;
const Shape shapes[] = {
    {"uniform in 64 bits", 0, 64, uniform},
    {"uniform in 44 bits", 0x123456789abcdef, 44, uniform},
    {"uniform in 44 bits at the top", high_base, 44, uniform},
    {"uniform in 33 bits", 0x100000001, 33, uniform},
    {"uniform in 25 bits", 77, 25, uniform},
    {"uniform in 24 bits", 0xffffffff00000001, 24, uniform},
    {"uniform in 9 bits", 0xfffffffffffffe00, 9, uniform},
    {"one bit", 3, 1, uniform},
    {"all equal", ~uint64_t{0}, 0, uniform},
    {"all zero, wide", 0, 64, [](Random&, size_t, unsigned) { return uint64_t{0}; }},
    {"all greatest, wide", 0, 64, [](Random&, size_t, unsigned) { return ~uint64_t{0}; }},
    {"few distinct", 0, 64, few},
    {"few distinct in 30 bits", 1000, 30, few},
    {"rising", 0, 64, rising},
    {"falling", 0, 64, falling},
    {"falling in 20 bits", 5, 20, falling},
    {"equal digests", 0, 64, low_bits},
    {"equal digests in 44 bits", high_base, 44, low_bits},
    {"clusters", 0, 64, clusters},
    {"clusters in 50 bits", 12345, 50, clusters},
    {"extremes", 0, 64, mixed_extremes},
};

template <class T>
void expect_like_stable_sort(LeafSort<T> leaf, const std::string& tier) {
  const uint64_t seed = 20;
  Random random(seed);
  for (const Shape& shape : shapes) {
    for (size_t count = 0; count <= leaf_items_max; ++count) {
      SCOPED_TRACE(testing::Message() << tier << ", " << sizeof(T) << " bytes, " << shape.name
                                      << ", count " << count << ", seed " << seed);
      std::vector<T> in(count);
      for (size_t i = 0; i < count; ++i) {
        const uint64_t key = shape.base + shape.offset(random, i, shape.bits);
        // The second word of a 128-bit key must decide often; a value shows where it came from.
        const bool decides = std::is_same_v<T, Key128>;
        in[i] = make_item<T>(key, decides ? random.next() >> (count % 3 == 0 ? 62 : 0) : i);
      }
      const std::vector<T> before = in;
      std::vector<T> expected = in;
      std::stable_sort(expected.begin(), expected.end(),
                       [](const T& a, const T& b) { return less(a, b); });
      constexpr size_t margin = 64;
      const T canary = make_item<T>(0x5a5a5a5a5a5a5a5a, 0xa5a5a5a5a5a5a5a5);
      std::vector<T> out(count + 2 * margin, canary);
      leaf(in.data(), count, shape.base, shape.bits, out.data() + margin);
      ASSERT_TRUE(count == 0 || std::memcmp(in.data(), before.data(), count * sizeof(T)) == 0);
      ASSERT_TRUE(count == 0 ||
                  std::memcmp(out.data() + margin, expected.data(), count * sizeof(T)) == 0);
      for (size_t i = 0; i < margin; ++i) {
        ASSERT_EQ(std::memcmp(&out[i], &canary, sizeof(T)), 0) << "written before the start";
        ASSERT_EQ(std::memcmp(&out[margin + count + i], &canary, sizeof(T)), 0)
            << "written past the end";
      }
    }
  }
}

TEST(LeafSort, SortsEveryCountAndPatternLikeStableSort) {
  for (const Tier& tier : tiers()) {
    expect_like_stable_sort(tier.u32, tier.name);
    expect_like_stable_sort(tier.u64, tier.name);
    expect_like_stable_sort(tier.kv, tier.name);
    expect_like_stable_sort(tier.key128, tier.name);
  }
}

TEST(LeafSort, ChoosesTheBestTier) {
  const Tier best = tiers().back();
  EXPECT_EQ(leaf_sort<uint32_t>(), best.u32);
  EXPECT_EQ(leaf_sort<uint64_t>(), best.u64);
  EXPECT_EQ(leaf_sort<KeyValue>(), best.kv);
  EXPECT_EQ(leaf_sort<Key128>(), best.key128);
  EXPECT_EQ(word_sort(), best.words);
}

TEST(LeafSort, SkipsNoTier) {
  if (tiers().size() < 3)
    GTEST_SKIP() << "this processor has only the tiers up to " << tiers().back().name;
}

// A missing comparator shows on inputs of zeros and ones, if anywhere (the 0-1 principle).
TEST(WordSort, SortsZerosAndOnesOfEveryCount) {
  for (const Tier& tier : tiers()) {
    Random random(9);
    for (size_t count = 0; count <= leaf_items_max; ++count) {
      for (int round = 0; round < 200; ++round) {
        std::vector<uint32_t> words(count + 1, 0x5a5a5a5a);
        const uint64_t ones = random.below(count + 1);
        for (size_t i = 0; i < count; ++i)
          words[i] = random.below(count) < ones ? ~uint32_t{0} - (round % 2) : 0;
        std::vector<uint32_t> expected = words;
        std::sort(expected.begin(), expected.end() - 1);
        tier.words(words.data(), count);
        ASSERT_EQ(words, expected) << tier.name << " count " << count;
      }
    }
  }
}

TEST(WordSort, SortsDistinctWords) {
  for (const Tier& tier : tiers()) {
    Random random(10);
    for (size_t count = 0; count <= leaf_items_max; ++count) {
      std::vector<uint32_t> words(count);
      for (auto& word : words) word = static_cast<uint32_t>(random.next());
      std::vector<uint32_t> expected = words;
      std::sort(expected.begin(), expected.end());
      tier.words(words.data(), count);
      ASSERT_EQ(words, expected) << tier.name << " count " << count;
    }
  }
}

}  // namespace
}  // namespace penstock::sorting
