#include "trace/report/axis_marks.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/random.h"
#include "base/trials.h"

namespace penstock::report {
namespace {

std::vector<std::string> texts_of(const std::vector<AxisMark>& marks) {
  std::vector<std::string> texts;
  for (const AxisMark& mark : marks) texts.push_back(mark.text);
  return texts;
}
using Texts = std::vector<std::string>;

TEST(AxisMarks, AreRoundNumbers) {
  EXPECT_EQ(texts_of(time_marks({0, 12.5})), (Texts{"0 s", "5 s", "10 s"}));
  EXPECT_EQ(texts_of(time_marks({4.7, 12.4})), (Texts{"6 s", "8 s", "10 s", "12 s"}));
  EXPECT_EQ(texts_of(time_marks({0, 0.0123})), (Texts{"0 s", "5 ms", "10 ms"}));
  EXPECT_EQ(texts_of(time_marks({0, 100})),
            (Texts{"0 s", "20 s", "40 s", "60 s", "80 s", "100 s"}));
  EXPECT_EQ(texts_of(time_marks({0, 1500})),
            (Texts{"0 s", "300 s", "10:00 min", "15:00 min", "20:00 min", "25:00 min"}));
  EXPECT_EQ(texts_of(time_marks({0, 10000})),
            (Texts{"0 s", "30:00 min", "1:00:00", "1:30:00", "2:00:00", "2:30:00"}));
  EXPECT_EQ(texts_of(byte_marks(268435456)),
            (Texts{"0", "64 MiB", "128 MiB", "192 MiB", "256 MiB"}));
  EXPECT_EQ(texts_of(byte_marks(1000)), (Texts{"0", "256 B", "512 B", "768 B"}));
}

TEST(AxisMarks, AreInOrderAndFew) {
  Random random(seed_of_run());
  const auto some = [&] { return std::pow(10, 17 * random.unit() - 8); };
  for (int trial = 0; trial < 1000; ++trial) {
    const double begin = trial % 3 == 0 ? 0 : some();
    const double range = begin * 1e-6 + some();
    const double bytes = 4 + some() * 1e9;
    for (const auto& marks : {time_marks({begin, begin + range}), byte_marks(bytes)}) {
      ASSERT_GE(marks.size(), 2u) << begin << " " << range << " " << bytes;
      ASSERT_LE(marks.size(), 8u) << begin << " " << range << " " << bytes;
      for (size_t i = 0; i < marks.size(); ++i) {
        ASSERT_GE(marks[i].share, 0);
        ASSERT_LE(marks[i].share, 1);
        ASSERT_TRUE(i == 0 || marks[i].share > marks[i - 1].share);
      }
    }
  }
}

TEST(AxisMarks, ThereAreNoneForWhatIsNoSpan) {
  constexpr double infinite = std::numeric_limits<double>::infinity();
  EXPECT_TRUE(time_marks({5, 5}).empty());
  EXPECT_TRUE(time_marks({0, infinite}).empty());
  EXPECT_TRUE(time_marks({1e300, 1.1e300}).size() < 10);
  EXPECT_TRUE(byte_marks(0).empty());
  EXPECT_TRUE(byte_marks(infinite).empty());
}

}  // namespace
}  // namespace penstock::report
