#include "items/keys/values/numbers.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace penstock::items {
namespace {

// Returns the digits that a text means, or "none".
std::string digits_of(const std::string& example, std::string_view text) {
  std::string room, digits;
  const auto number = NumberFormat::parse(example).value().read(text, room);
  return number ? std::string(plain_digits(*number, digits).value_or("huge")) : "none";
}

TEST(NumberFormat, ReadsWhatPeopleWrite) {
  const std::pair<const char*, const char*> cases[] = {{"0", "0"},
                                                       {"-1,234.50", "-1234.5"},
                                                       {"1234.5", "1234.5"},
                                                       {" 5. ", "5"},
                                                       {".5", "0.5"},
                                                       {"1e-05", "0.00001"},
                                                       {"1.5E+3", "1500"},
                                                       {"$5", "5"},
                                                       {"-$1,000", "-1000"},
                                                       {"$ -5", "-5"},
                                                       {"5 \u20ac", "5"},
                                                       {"\u00a35", "5"},
                                                       {"(5.25)", "-5.25"},
                                                       {"($5)", "-5"},
                                                       {"12.5 %", "0.125"},
                                                       {"+7", "7"},
                                                       {"\u22127", "-7"},
                                                       {"1,23,456", "123456"},
                                                       {"1,234,567", "1234567"},
                                                       {"00,012", "12"},
                                                       {"1e999", "huge"},
                                                       {"007\r", "7"}};
  for (const auto& [text, digits] : cases) EXPECT_EQ(digits_of("1,234.50", text), digits) << text;
  for (const char* const none :
       {"",     "-",    "$",      "NaN",   "x",      "5x",    "1,5",       "1,2345", "1234,567",
        ",123", "1,23", "1,,234", "1.2.3", "1,234,", "1e",    "e5",        "--5",    "-$-5",
        "(-5)", "(5",   "$5$",    "5%%",   "0x10",   "1 234", "1e1234567", "5 5"})
    EXPECT_EQ(digits_of("1,234.50", none), "none") << none;
}

TEST(NumberFormat, HasThePointAndGroupsOfItsExample) {
  EXPECT_EQ(digits_of("1.234,50", "-1.234.567,5"), "-1234567.5");
  EXPECT_EQ(digits_of("1.234,50", "1.5"), "none");
  EXPECT_EQ(digits_of("1234,5", "1,5"), "1.5");
  EXPECT_EQ(digits_of("1234,5", "1.234"), "none");
  EXPECT_EQ(digits_of("1'234.50", "1'234.5"), "1234.5");
  EXPECT_EQ(digits_of("1'234.50", "1\u2019234.5"), "none");
  for (const char* const blank : {" ", "\u00a0", "\u202f", "\u2009"})
    EXPECT_EQ(digits_of("1 234,50", std::string("1") + blank + "234,5 \u20ac"), "1234.5") << blank;
  EXPECT_EQ(digits_of("1\u202f234,50", "1 234"), "1234");
  for (const char* const bad : {"", "1", "1234", "1,234", "12.345", "1;234.50", "1,23.5",
                                "1.234.50", "x", "1,234.", ".5", "1,234;5"})
    EXPECT_FALSE(NumberFormat::parse(bad)) << bad;
}

TEST(NumberFormat, KeepsTheOrderOfNumbers) {
  const NumberFormat format = NumberFormat::parse("1,234.50").value();
  std::string last;
  for (const char* const text :
       {"-$1,000", "(999.5)", "-1e-3", "0%", "1e-05", "5%", "$0.5", "1e3", "1,000.01"}) {
    std::string bytes;
    ASSERT_TRUE(format.append(text, bytes)) << text;
    EXPECT_LT(last, bytes) << text;
    last = bytes;
  }
}

}  // namespace
}  // namespace penstock::items
