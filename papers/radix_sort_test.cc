// Test labels: slow-threads, loops

#include "papers/radix_sort.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/random.h"
#include "generate/generator.h"
#include "memory/stream/mechanism_fixture.h"

// One property suite: every distribution, every item type, every mechanism; sizes around the sort's
// own thresholds.

namespace penstock::papers {
namespace {

using scatter::key_of;
using sorting::leaf_items_max;

template <class T>
class Collect final : public Emitter<T> {
 public:
  void emit(T* sorted, size_t count) override { items.insert(items.end(), sorted, sorted + count); }
  std::vector<T> items;
};

template <class T>
items::Type type_of() {
  if (sizeof(T) == 4) return items::Type::u32;
  return sizeof(T) == 8 ? items::Type::u64 : items::Type::kv64;
}

template <class T>
std::vector<T> generate(generate::Distribution distribution, size_t count) {
  std::vector<T> items(count);
  auto generator =
      generate::Generator::open({.format = {.type = type_of<T>(), .record_bytes = sizeof(T)},
                                 .distribution = distribution,
                                 .count = count});
  EXPECT_TRUE(generator) << generator.error().message();
  if (generator && count > 0) generator->fill(0, count, reinterpret_cast<std::byte*>(items.data()));
  return items;
}

struct Sorter {
  pool::Mechanism mechanism;

  // Sorts the items; blocks must be back in the pool afterwards, and no more than promised were
  // used.
  template <class T>
  void check(const std::vector<T>& input, const std::string& what) const {
    SCOPED_TRACE(what + ", " + std::to_string(input.size()) + " items, " +
                 pool::name_of(mechanism));
    size_t block_bytes = RadixSort<T>::block_bytes_for(input.size());
    uint32_t blocks = RadixSort<T>::blocks_needed(input.size(), block_bytes);
    auto pool = pool::Pool::open(
        {.block_bytes = block_bytes, .blocks_max = blocks, .mechanism = mechanism, .strict = true});
    ASSERT_TRUE(pool) << pool.error().message();
    auto sorter = RadixSort<T>::open(**pool, {.items_max = input.size()});
    ASSERT_TRUE(sorter) << sorter.error().message();
    uint64_t key_max = sizeof(T) == 4 ? ~uint32_t{0} : ~uint64_t{0};
    for (int round = 0; round < 2; ++round) {  // a sorter is used again
      (*sorter)->begin(input.size(), 0, key_max);
      Random random(round);
      for (size_t at = 0; at < input.size();) {
        size_t count = std::min<size_t>(input.size() - at, random.below(20000) + 1);
        (*sorter)->add(input.data() + at, count);
        at += count;
      }
      Collect<T> output;
      output.items.reserve(input.size());
      (*sorter)->drain(output);
      std::vector<T> expected = input;
      std::stable_sort(expected.begin(), expected.end(),
                       [](const T& x, const T& y) { return key_of(x) < key_of(y); });
      ASSERT_EQ(output.items.size(), expected.size());
      for (size_t i = 0; i < expected.size(); ++i) {
        ASSERT_EQ(std::memcmp(&output.items[i], &expected[i], sizeof(T)), 0) << "item " << i;
      }
      EXPECT_EQ((*pool)->blocks_free(), blocks);
    }
  }
};

bool works(pool::Mechanism mechanism) {
  return pool::Pool::open({.block_bytes = 64 * KiB, .blocks_max = 2, .mechanism = mechanism})
      .has_value();
}

class RadixSortTest : public testing::TestWithParam<pool::Mechanism> {
 protected:
  void SetUp() override {
    if (!works(GetParam()))
      GTEST_SKIP() << pool::name_of(GetParam()) << " is not to be had on this kernel";
  }
  template <class T>
  void check_distributions() {
    size_t count = RadixSort<T>::cache_items_max +
                   70001;  // more than the cache sort takes at once, when keys are few
    for (generate::Distribution distribution : generate::distributions_of(type_of<T>())) {
      Sorter{GetParam()}.check(generate<T>(distribution, count),
                               std::string(generate::name_of(distribution)));
    }
  }
};

TEST_P(RadixSortTest, SortsEveryDistributionOfU32) {
  check_distributions<uint32_t>();
}
TEST_P(RadixSortTest, SortsEveryDistributionOfU64) {
  check_distributions<uint64_t>();
}
TEST_P(RadixSortTest, SortsEveryDistributionOfPairs) {
  check_distributions<KeyValue>();
}

TEST_P(RadixSortTest, SortsSizesAroundItsThresholds) {
  for (size_t count :
       {size_t{0}, size_t{1}, size_t{2}, leaf_items_max - 1, leaf_items_max, leaf_items_max + 1,
        size_t{4096}, RadixSort<uint64_t>::cache_items_target, RadixSort<uint64_t>::cache_items_max,
        RadixSort<uint64_t>::cache_items_max + 1}) {
    Sorter{GetParam()}.check(generate<uint64_t>(generate::Distribution::uniform, count), "uniform");
    Sorter{GetParam()}.check(generate<uint64_t>(generate::Distribution::all_equal, count),
                             "all-equal");
  }
}

// Keys by which every level puts nearly all of them into one bucket: powers of two, each half as
// frequent as the one before.
TEST_P(RadixSortTest, SortsKeysThatRefuseToSplit) {
  Random random(11);
  std::vector<uint64_t> halving(1'000'000);
  for (uint64_t& key : halving)
    key = ~uint64_t{0} >>
          std::min<unsigned>(63, static_cast<unsigned>(std::countl_zero(random.next() | 1)) * 5);
  Sorter{GetParam()}.check(halving, "halving");
  std::vector<uint64_t> lonely(1'000'000, 5);
  for (unsigned bit = 0; bit < 64; ++bit) lonely[bit * 1000] = uint64_t{1} << bit;
  Sorter{GetParam()}.check(lonely, "all equal but one for each bit");
}

TEST_P(RadixSortTest, UsesOnlyTheRangeOfKeysGiven) {
  auto pool = pool::Pool::open(
      {.block_bytes = 64 * KiB, .blocks_max = 200, .mechanism = GetParam(), .strict = true});
  ASSERT_TRUE(pool);
  auto sorter = RadixSort<uint64_t>::open(**pool, {.items_max = 400'000});
  ASSERT_TRUE(sorter);
  uint64_t base = 0x123456789abcdef0;
  std::vector<uint64_t> input(400'000);
  Random random(5);
  for (uint64_t& key : input) key = base + random.below(1'000'003);
  (*sorter)->begin(input.size(), base, base + 1'000'002);
  (*sorter)->add(input.data(), input.size());
  Collect<uint64_t> output;
  (*sorter)->drain(output);
  std::sort(input.begin(), input.end());
  EXPECT_EQ(output.items, input);
}

INSTANTIATE_TEST_SUITE_P(Mechanisms, RadixSortTest, every_mechanism, name_of_mechanism);

}  // namespace
}  // namespace penstock::papers
