#include "sorting/sort/count_sort.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <vector>

#include "base/random.h"

namespace penstock::sorting {
namespace {

template <class T>
class CountSortTest : public testing::Test {};
using Types = testing::Types<uint8_t, int8_t, uint16_t, int16_t>;
TYPED_TEST_SUITE(CountSortTest, Types);

TYPED_TEST(CountSortTest, SortsInPlaceAndOutOfPlace) {
  using T = TypeParam;
  for (size_t count : {0, 1, 2, 3, 4, 5, 2047, 2048, 2049, 100003}) {
    for (bool descending : {false, true}) {
      for (uint64_t bound : {1, 2, 300, 1 << 16}) {
        SCOPED_TRACE(testing::Message() << count << " items, " << descending << ", " << bound);
        Random random(count + bound);
        std::vector<T> in(count + 2, T{55});
        for (size_t i = 1; i <= count; ++i) in[i] = static_cast<T>(random.below(bound) * 40503);
        const std::vector<T> before = in;
        std::vector<T> expected = in;
        if (descending) {
          std::sort(expected.begin() + 1, expected.end() - 1, std::greater<>());
        } else {
          std::sort(expected.begin() + 1, expected.end() - 1);
        }
        std::vector<T> out(count + 2, T{55});
        ASSERT_TRUE(count_sort<T>(in.data() + 1, count, out.data() + 1, descending));
        ASSERT_EQ(out, expected);
        ASSERT_EQ(in, before);
        ASSERT_TRUE(count_sort<T>(in.data() + 1, count, in.data() + 1, descending));
        ASSERT_EQ(in, expected);
      }
    }
  }
}

TYPED_TEST(CountSortTest, KnowsTheExtremes) {
  using T = TypeParam;
  std::vector<T> items(5000);
  for (size_t i = 0; i < items.size(); ++i) {
    items[i] = i % 3 == 0   ? std::numeric_limits<T>::max()
               : i % 3 == 1 ? std::numeric_limits<T>::min()
                            : T{0};
  }
  ASSERT_TRUE(count_sort<T>(items.data(), items.size(), items.data(), false));
  EXPECT_EQ(items.front(), std::numeric_limits<T>::min());
  EXPECT_EQ(items.back(), std::numeric_limits<T>::max());
  EXPECT_TRUE(std::ranges::is_sorted(items));
}

}  // namespace
}  // namespace penstock::sorting
