#include "items/quotient.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace penstock::items {
namespace {

std::string text_of(const std::optional<Decimal>& number) {
  std::string text;
  if (number) number->append_to(text);
  return number ? text : "too long";
}

std::string mean_of(const std::vector<std::string>& numbers) {
  DecimalSum sum;
  for (const std::string& text : numbers)
    if (!sum.add(DecimalSum(*Decimal::parse(text)))) return "too long";
  return text_of(quotient(sum.wide(), numbers.size(), sum.places()));
}

std::string deviation_of(const std::vector<std::string>& numbers) {
  DecimalSum sum;
  SquareSum squares;
  for (const std::string& text : numbers) {
    if (!sum.add(DecimalSum(*Decimal::parse(text)))) return "too long";
    squares.add(SquareSum(*Decimal::parse(text)));
  }
  return text_of(sample_deviation(sum, squares, numbers.size()));
}

const std::string most(38, '9');

TEST(Quotient, IsExactIfItHasFewDigits) {
  EXPECT_EQ(mean_of({"1", "2"}), "1.5");
  EXPECT_EQ(mean_of({"1.50", "2.50"}), "2.00");
  EXPECT_EQ(mean_of({most, most, most}), most);
  EXPECT_EQ(mean_of({most, "-" + most}), "0");
  EXPECT_EQ(text_of(quotient(Wide(1), uint64_t{1} << 38, 0)),
            "0.00000000000363797880709171295166015625");
}

TEST(Quotient, IsRoundedHalfToEven) {
  EXPECT_EQ(mean_of({"1", "1", "2"}), "1.3333333333333333");
  EXPECT_EQ(mean_of({"-1", "-2", "-2"}), "-1.6666666666666667");
  // 39 digits would be exact.
  const std::string odd(37, '7');
  EXPECT_EQ(mean_of({odd, odd, "0", "0"}), "3888888888888888888888888888888888888.5");
  EXPECT_EQ(mean_of({most, most, most, "1" + std::string(37, '0')}), "774" + std::string(35, '9'));
}

TEST(SampleDeviation, IsThatOfStandardArithmetic) {
  EXPECT_EQ(deviation_of({"1", "3"}), "1.414213562373095");
  EXPECT_EQ(deviation_of({"0", "4", "8"}), "4");
  EXPECT_EQ(deviation_of({"7.25", "7.25"}), "0.00");
  EXPECT_EQ(deviation_of({most, "0.1"}), "too long");
}

TEST(QuantileRank, LiesBetweenTwoNumbersInProportion) {
  const QuantileRank rank(4, *Decimal::parse("0.25"));
  EXPECT_EQ(rank.rank, 0u);
  EXPECT_EQ(text_of(rank.between(Wide(10), Wide(-30), 1)), "-2.0");
  EXPECT_EQ(QuantileRank(7, *Decimal::parse("1")).rank, 6u);
  EXPECT_EQ(QuantileRank(7, *Decimal::parse("1")).part, 0u);
}

TEST(Wide, RootsAreWholeParts) {
  for (const unsigned power : {0u, 1u, 18u, 19u, 37u, 60u}) {
    const Wide root = Wide(7).times_power_of_ten(power);
    EXPECT_EQ((root * root).root(), root);
    EXPECT_EQ((root * root - Wide(1)).root(), root - Wide(1));
    EXPECT_EQ(root.digits(), power + 1);
  }
}

}  // namespace
}  // namespace penstock::items
