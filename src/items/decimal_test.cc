#include "items/decimal.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "base/random.h"

namespace penstock::items {
namespace {

using Numbers = std::vector<std::string>;

std::string text_of(const DecimalSum& sum) {
  std::string text;
  const auto total = sum.total();
  if (total) total->append_to(text);
  return total ? text : "too long";
}

std::string sum_of(const Numbers& numbers) {
  DecimalSum sum;
  for (const std::string& text : numbers) {
    const auto number = Decimal::parse(text);
    if (!number) return "not " + text;
    if (!sum.add(DecimalSum(*number))) return "too long";
  }
  return text_of(sum);
}

const std::string most(38, '9');

TEST(DecimalSum, IsExact) {
  EXPECT_EQ(sum_of({}), "0");
  EXPECT_EQ(sum_of({"0.1", "0.2"}), "0.3");
  EXPECT_EQ(sum_of({"1", "-1.50", " +.05\t", "7."}), "6.55");
  EXPECT_EQ(sum_of({"-0.004"}), "-0.004");
  EXPECT_EQ(sum_of({"-12.5", "12.5"}), "0.0");
  EXPECT_EQ(sum_of({"0", "0.000"}), "0.000");
  EXPECT_EQ(sum_of({most, "1"}), "1" + std::string(38, '0'));
  EXPECT_EQ(sum_of({most, "0.5"}), "too long");
  EXPECT_EQ(sum_of({"170141183460469231731687303715884105727", "1"}), "too long");
  EXPECT_EQ(sum_of({"-170141183460469231731687303715884105727", "-1"}),
            "-170141183460469231731687303715884105728");
  const std::string tiny = "0." + std::string(100, '0') + "1";
  EXPECT_EQ(sum_of({tiny, tiny, "0"}), "0." + std::string(100, '0') + "2");
  EXPECT_EQ(sum_of({tiny, "5", "-5"}), "too long");
}

// Nor does it matter what the sum was in between.
TEST(DecimalSum, DoesNotDependOnTheOrder) {
  const std::string largest = "170141183460469231731687303715884105727";
  EXPECT_EQ(sum_of({largest, largest, largest, "-" + largest, "-" + largest}), largest);
  const Numbers choices = {"1.5",
                           "-0.25",
                           "123456789012345678",
                           "-123456789012345678.5",
                           "0.0",
                           most,
                           "-" + most,
                           "0.00000000000000000000000000000000000001",
                           "-7",
                           "1000000",
                           "-.125",
                           largest};
  Random random(5);
  for (int round = 0; round < 2000; ++round) {
    Numbers numbers(1 + random.below(9));
    for (std::string& number : numbers) number = choices[random.below(choices.size())];
    const std::string wanted = sum_of(numbers);
    for (size_t i = numbers.size(); i > 1; --i) std::swap(numbers[i - 1], numbers[random.below(i)]);
    EXPECT_EQ(sum_of(numbers), wanted);
    // In two parts, which are added.
    DecimalSum sums[2];
    bool fit = true;
    for (const std::string& number : numbers) {
      DecimalSum& sum = sums[random.below(2)];
      fit = fit && sum.add(DecimalSum(*Decimal::parse(number)));
      // A narrow sum is the sum.
      if (const auto narrow = sum.narrow()) sum = DecimalSum::of(*narrow);
    }
    fit = fit && sums[0].add(sums[1]);
    EXPECT_EQ(fit ? text_of(sums[0]) : "too long", wanted);
  }
}

TEST(Decimal, IsRefusedWhereItIsNoNumber) {
  for (const char* text : {"", " ", "-", ".", "1e3", "0x1", "1,5", "1.2.3", "--1", "inf", "1 2",
                           "999999999999999999999999999999999999999"})
    EXPECT_FALSE(Decimal::parse(text)) << text;
}

TEST(Decimal, IsComparedAsANumber) {
  const char* rising[] = {"-99999999999999999999999999999999999999",
                          "-2",
                          "-1.99",
                          "0",
                          "0.0000000000000000000000000000000000001",
                          "1.5",
                          "10",
                          "99999999999999999999999999999999999999"};
  for (size_t i = 0; i < std::size(rising); ++i) {
    for (size_t j = 0; j < std::size(rising); ++j) {
      const int order = Decimal::parse(rising[i])->compare(*Decimal::parse(rising[j]));
      EXPECT_EQ(order < 0, i < j) << rising[i] << ' ' << rising[j];
      EXPECT_EQ(order > 0, i > j) << rising[i] << ' ' << rising[j];
    }
  }
  EXPECT_EQ(Decimal::parse("1.50")->compare(*Decimal::parse("1.5")), 0);
}

TEST(Decimal, IsNarrowWhereItHasFewDigits) {
  for (const char* text : {"0", "-1.50", "9223372036854775807", "-9223372036854775808"}) {
    const auto narrow = Decimal::parse(text)->narrow();
    ASSERT_TRUE(narrow) << text;
    std::string written;
    Decimal::of(*narrow).append_to(written);
    EXPECT_EQ(written, text);
  }
  EXPECT_FALSE(Decimal::parse("9223372036854775808")->narrow());
  EXPECT_FALSE(Decimal::parse("0." + std::string(256, '0'))->narrow());
}

// Texts of few digits are read by all digits at once, others digit by digit.
TEST(NarrowDecimal, IsReadAsTheWideOneIs) {
  Random random(5);
  for (int round = 0; round < 200'000; ++round) {
    std::string text = random.below(4) == 0 ? "-" : "";
    for (uint64_t digits = random.below(13); digits > 0; --digits)
      text += random.below(3) == 0 ? '0' : static_cast<char>('0' + random.below(10));
    if (random.below(3) == 0) text.insert(random.below(text.size() + 1), ".");
    if (!text.empty() && random.below(4) == 0)
      text[random.below(text.size())] = static_cast<char>(random.below(256));
    const auto narrow = NarrowDecimal::parse(text);
    const auto wide = Decimal::parse(text);
    const bool has_other_signs = text.find_first_of(" \t+") != text.npos;
    ASSERT_EQ(narrow.has_value(), wide && !has_other_signs) << text;
    if (!narrow) continue;
    EXPECT_EQ(narrow->places, wide->places) << text;
    EXPECT_TRUE(wide->digits == narrow->digits) << text;
    EXPECT_EQ(narrow->whole_digits, DecimalSum(*wide).narrow()->whole_digits) << text;
  }
}

}  // namespace
}  // namespace penstock::items
