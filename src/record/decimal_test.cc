#include "record/decimal.h"

#include <gtest/gtest.h>

namespace penstock::record {
namespace {

std::string sum_of(std::initializer_list<const char*> numbers) {
  Decimal sum;
  for (const char* text : numbers) {
    const auto number = Decimal::parse(text);
    if (!number) return std::string("not ") + text;
    if (!sum.add(*number)) return "too long";
  }
  return sum.text();
}

TEST(Decimal, IsAddedExactly) {
  EXPECT_EQ(sum_of({"0.1", "0.2"}), "0.3");
  EXPECT_EQ(sum_of({"1", "-1.50", " +.05\t", "7."}), "6.55");
  EXPECT_EQ(sum_of({"-0.004"}), "-0.004");
  EXPECT_EQ(sum_of({"-12.5", "12.5"}), "0.0");
  EXPECT_EQ(sum_of({"99999999999999999999999999999999999999", "1"}),
            "100000000000000000000000000000000000000");
  EXPECT_EQ(sum_of({"99999999999999999999999999999999999999", "0.5"}), "too long");
  EXPECT_EQ(sum_of({"170141183460469231731687303715884105727", "1"}), "too long");
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

}  // namespace
}  // namespace penstock::record
