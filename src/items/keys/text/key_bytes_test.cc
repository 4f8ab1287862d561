#include "items/keys/text/key_bytes.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

namespace penstock::items {
namespace {

std::string bytes_of(TextCompare compare, std::string_view text) {
  std::string bytes;
  append_key({.compare = compare}, text, {}, bytes);
  return bytes;
}

// Each text comes before all behind it.
void expect_ascending(TextCompare compare, const std::vector<std::string>& texts) {
  for (size_t i = 1; i < texts.size(); ++i) {
    EXPECT_LT(bytes_of(compare, texts[i - 1]), bytes_of(compare, texts[i]))
        << texts[i - 1] << " and " << texts[i];
  }
}

void expect_equal(TextCompare compare, std::string_view one, std::string_view other) {
  EXPECT_EQ(bytes_of(compare, one), bytes_of(compare, other)) << one << " and " << other;
}

TEST(KeyBytes, NumbersOfAnyLength) {
  const std::string nines(99, '9');
  expect_ascending(TextCompare::numeric, {"-1" + nines,
                                          "-" + nines,
                                          "-10",
                                          "-9.5",
                                          "-9",
                                          "-.5",
                                          "0",
                                          ".05",
                                          ".5",
                                          ".51",
                                          "9",
                                          "9.01",
                                          "10",
                                          "11",
                                          "99",
                                          "100",
                                          "101",
                                          nines,
                                          "1" + nines,
                                          std::string(256, '1'),
                                          std::string(257, '1')});
  expect_equal(TextCompare::numeric, "-0", "nothing");
  expect_equal(TextCompare::numeric, "  007.50x", "7.5");
}

TEST(KeyBytes, SuffixesCountMoreThanDigits) {
  expect_ascending(TextCompare::human, {"-1Y", "-3K", "-2K", "-9", "0K", "9", "1k", "2K", "2.5K",
                                        "1M", "1G", "1T", "1P", "1E", "1Z", "1Y"});
  expect_equal(TextCompare::human, "1k", "1K");
  expect_equal(TextCompare::human, "5x", "5");
  expect_equal(TextCompare::human, "5", "5 K");
}

TEST(KeyBytes, MonthsAreThoseOfTheYear) {
  expect_ascending(TextCompare::month, {"mai", "jan", "FEB", "March", "apr", "May", "jun", " jul",
                                        "aug", "sep", "oct", "nov", "december"});
  expect_equal(TextCompare::month, "ja", "");
  expect_equal(TextCompare::month, "\tDECades", "dec");
}

// The order of single bytes behind a letter: '~', the end, digits, letters, and the rest as ASCII
// has them.
TEST(KeyBytes, VersionsOrderEveryByte) {
  std::vector<std::string> names = {"x~", "x"};
  for (char c = '0'; c <= '9'; ++c) names.push_back(std::string("x") + c);
  for (char c = 'A'; c <= 'Z'; ++c) names.push_back(std::string("x") + c);
  for (char c = 'a'; c <= 'z'; ++c) names.push_back(std::string("x") + c);
  for (int byte = 0; byte < 256; ++byte) {
    const auto c = static_cast<char>(byte);
    const bool is_in =
        c == '~' || (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
    if (!is_in) names.push_back(std::string("x") + c);
  }
  // A zero is as good as the end.
  expect_equal(TextCompare::version, "x0y", "x00y");
  names.erase(names.begin() + 2);
  expect_ascending(TextCompare::version, names);
}

TEST(KeyBytes, VersionsOrderNumbersAndLeaveOutSuffixes) {
  expect_ascending(TextCompare::version,
                   {"", ".", "..", ".a", "a1.tar.gz", "a1.1.tar.gz", "a2.tar.gz", "a10.gz",
                    "a10.tar", "a99", "a100", "a1234567", "a12345678", "a123456789",
                    "a" + std::string(200, '1'), "a" + std::string(300, '1')});
}

TEST(KeyBytes, GeneralNumbersAreThoseOfStrtold) {
  expect_ascending(TextCompare::general,
                   {"none", "nan", "-inf", "-1e400", "-2", "-1.5", "-1e-400", "0", "1e-400", "1",
                    "1.5", "0x10", "1e3", "1e400", "inf"});
  expect_equal(TextCompare::general, "-0", "0");
  expect_equal(TextCompare::general, " 1e1x", "10");
}

// The expected part is marked like in `sort --debug`.
TEST(KeyBytes, TheComparedPartIsWhatTheOrderLooksAt) {
  auto part = [](TextCompare compare, std::string_view text) {
    return compared_part({.compare = compare}, text, nullptr);
  };
  EXPECT_EQ(part(TextCompare::numeric, "  -12.5K"), "-12.5");
  EXPECT_EQ(part(TextCompare::numeric, ".5."), ".5");
  EXPECT_EQ(part(TextCompare::numeric, "7"), "7");
  EXPECT_EQ(part(TextCompare::numeric, " -"), "");
  EXPECT_EQ(part(TextCompare::numeric, "."), "");
  EXPECT_EQ(part(TextCompare::numeric, "5."), "5.");
  EXPECT_EQ(part(TextCompare::human, " 12KB"), "12K");
  EXPECT_EQ(part(TextCompare::human, "12"), "12");
  EXPECT_EQ(part(TextCompare::human, "12x"), "12");
  EXPECT_EQ(part(TextCompare::general, " 1e3x"), "1e3");
  EXPECT_EQ(part(TextCompare::general, "x"), "");
  EXPECT_EQ(part(TextCompare::month, " march 1"), "mar");
  EXPECT_EQ(part(TextCompare::month, " ma"), "");
  EXPECT_EQ(part(TextCompare::bytes, " all "), " all ");
  EXPECT_EQ(part(TextCompare::version, "a1"), "a1");
}

}  // namespace
}  // namespace penstock::items
