#include "files/ops/group/group_values.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace penstock::files {
namespace {

std::string bytes_of(const std::string& number) {
  std::string bytes;
  EXPECT_TRUE(append_value(number, true, bytes)) << number;
  return bytes;
}

TEST(ValueBytes, HaveTheOrderOfTheirNumbers) {
  const std::string most(38, '9');
  const std::vector<std::string> ascending = {"-" + most,
                                              "-1200.0034",
                                              "-1200",
                                              "-12.0034",
                                              "-12",
                                              "-9.9",
                                              "-0.1",
                                              "-0.01",
                                              "-0." + std::string(300, '0') + "1",
                                              "0",
                                              "0." + std::string(300, '0') + "1",
                                              "0.01",
                                              "0.1",
                                              "0.11",
                                              "1",
                                              "1.05",
                                              "1.5",
                                              "9",
                                              "10",
                                              "12",
                                              "12.0034",
                                              "100",
                                              "1200",
                                              most};
  for (size_t i = 0; i + 1 < ascending.size(); ++i)
    EXPECT_LT(bytes_of(ascending[i]), bytes_of(ascending[i + 1])) << ascending[i];
}

TEST(ValueBytes, AreEqualOfEqualNumbers) {
  for (const auto& [a, b] :
       {std::pair{"1", " 1.00"}, {"-0", "0.0"}, {"-12.5", "-12.50"}, {"100", "100."}, {"+7", "7"}})
    EXPECT_EQ(bytes_of(a), bytes_of(b));
  std::string none;
  EXPECT_FALSE(append_value(" ", true, none));
  EXPECT_FALSE(append_value("", false, none));
  EXPECT_FALSE(append_value("x", true, none));
}

TEST(ValueBytes, AreReadBack) {
  for (const char* text :
       {"0", "7", "70", "-7", "-70.25", "0.001", "99999999999999999999999999999999999999",
        "-170141183460469231731687303715884105727"}) {
    const auto number = items::Decimal::parse(text);
    EXPECT_EQ(number_of_value(bytes_of(text), number->places), items::Wide(number->digits)) << text;
    EXPECT_EQ(number_of_value(bytes_of(text), number->places + 2),
              items::Wide(number->digits) * items::Wide(100));
  }
}

TEST(GroupKeys, KeepTheirOrderInFrontOfOtherBytes) {
  const std::vector<std::string> ascending = {"",
                                              std::string(1, '\0'),
                                              std::string("\0\0", 2),
                                              std::string("\0\xff", 2),
                                              "a",
                                              std::string("a\0", 2),
                                              std::string("a\0b", 3),
                                              "a\x01",
                                              "ab",
                                              "b",
                                              "\xff"};
  for (size_t i = 0; i + 1 < ascending.size(); ++i) {
    std::string left, right;
    append_group_key(ascending[i], left);
    append_group_key(ascending[i + 1], right);
    EXPECT_LT(left + "\xff\xff", right + std::string(1, '\0'));
  }
}

}  // namespace
}  // namespace penstock::files
