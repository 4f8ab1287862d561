// Values are made first, written in one of their forms, and compared as they were made.

#include "items/keys/values/values.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <compare>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/random.h"
#include "base/trials.h"
#include "items/keys/text/key_bytes.h"
#include "items/keys/values/formats.h"

namespace penstock::items {
namespace {

std::string bytes_of(TextCompare compare, std::string_view text, const std::string& format = "") {
  const bool is_number = compare == TextCompare::number;
  const auto formats =
      ValueFormats::parse(is_number ? "" : format, is_number ? format : "").value();
  std::string bytes;
  append_key({.compare = compare}, text, {.formats = &formats}, bytes);
  return bytes;
}

bool is_value(TextCompare compare, std::string_view text, const std::string& format = "") {
  return bytes_of(compare, text, format).front() == 1;
}

void expect_ascending(TextCompare compare, const std::vector<std::string>& texts) {
  for (size_t i = 1; i < texts.size(); ++i) {
    EXPECT_LT(bytes_of(compare, texts[i - 1]), bytes_of(compare, texts[i]))
        << texts[i - 1] << " and " << texts[i];
  }
}

void expect_equal(TextCompare compare, std::string_view one, std::string_view other) {
  EXPECT_TRUE(is_value(compare, one)) << one;
  EXPECT_EQ(bytes_of(compare, one), bytes_of(compare, other)) << one << " and " << other;
}

// A value as it was made, with one of its texts.
template <class Value>
using Written = std::pair<Value, std::string>;

// Compares the bytes of values, and of those in front of other bytes, with the order of the values.
template <class Value>
void compare_random(TextCompare compare, auto&& make, const std::string& format = "") {
  Random random(seed_of_run());
  const auto bytes = [&](const Written<Value>& one) {
    EXPECT_TRUE(is_value(compare, one.second, format)) << one.second;
    return bytes_of(compare, one.second, format);
  };
  for (uint64_t trial = trials(20000); trial > 0; --trial) {
    const Written<Value> a = make(random), b = make(random);
    const std::string of_a = bytes(a), of_b = bytes(b);
    ASSERT_EQ(of_a <=> of_b, a.first <=> b.first) << a.second << " and " << b.second;
    if (of_a == of_b) continue;
    ASSERT_FALSE(of_a.starts_with(of_b) || of_b.starts_with(of_a))
        << a.second << " and " << b.second;
  }
}

bool is_leap(uint64_t year) {
  return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
}
uint64_t days_of_month(uint64_t year, uint64_t month) {
  constexpr std::array<uint64_t, 12> days = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  return days[month - 1] + (month == 2 && is_leap(year) ? 1 : 0);
}

struct Date {
  uint64_t year, month, day;
  int64_t days() const {  // since the year 1
    int64_t days = 0;
    for (uint64_t y = 0; y < year; ++y) days += is_leap(y) ? 366 : 365;
    for (uint64_t m = 1; m < month; ++m) days += static_cast<int64_t>(days_of_month(year, m));
    return days + static_cast<int64_t>(day) - 1;
  }
};

Date random_date(Random& random) {
  const uint64_t year = random.below(3) == 0 ? random.below(10000) : 1969 + random.below(4);
  const uint64_t month = 1 + random.below(12);
  return {year, month, 1 + random.below(days_of_month(year, month))};
}

// Seconds since 1970, and nine digits of the fraction.
using Moment = std::pair<int64_t, std::string>;

std::string random_fraction(Random& random) {
  return std::string(random.below(3), '0') + std::to_string(random.below(1000));
}
std::string nine_digits(std::string fraction) {
  fraction.resize(9, '0');
  return fraction;
}

Written<Moment> random_moment(Random& random) {
  static const int64_t days_of_1970 = Date{1970, 1, 1}.days();
  if (random.below(4) == 0) {
    const auto seconds = static_cast<int64_t>(random.below(1000)) - 500;
    const std::string fraction = random.below(2) == 0 ? "" : random_fraction(random);
    if (seconds >= 0 || fraction.find_first_not_of('0') == fraction.npos)
      return {{seconds, nine_digits(fraction)},
              fmt::format("{}{}{}", seconds, fraction.empty() ? "" : ".", fraction)};
    // -7.25 is -8 and 0.75.
    const uint64_t above = 1'000'000'000 - std::stoull(nine_digits(fraction));
    return {{seconds - 1, fmt::format("{:09}", above)}, fmt::format("{}.{}", seconds, fraction)};
  }
  const Date date = random_date(random);
  const uint64_t hour = random.below(24), minute = random.below(60), second = random.below(60);
  const auto zone = static_cast<int64_t>(random.below(24 * 60)) * (random.below(2) == 0 ? 1 : -1);
  const int64_t days = (date.days() - days_of_1970) * 86400;
  const auto begin = [&](const char* form) {
    return fmt::format(fmt::runtime(form), date.year, date.month, date.day);
  };
  const uint64_t zone_minutes = static_cast<uint64_t>(zone < 0 ? -zone : zone);
  const char sign = zone < 0 ? '-' : '+';
  const int64_t at = days + static_cast<int64_t>(hour * 3600 + minute * 60 + second);
  switch (random.below(5)) {
    case 0:
      return {{days, nine_digits("")}, begin("{:04}-{:02}-{:02}")};
    case 1:
      return {{days + static_cast<int64_t>(hour * 3600 + minute * 60), nine_digits("")},
              begin("{:04}-{:02}-{:02} ") + fmt::format("{:02}:{:02}", hour, minute)};
    case 2: {
      const std::string fraction = random_fraction(random);
      return {{at - zone * 60, nine_digits(fraction)},
              begin("{:04}-{:02}-{:02}T") +
                  fmt::format("{:02}:{:02}:{:02}{}{}{}{:02}:{:02}", hour, minute, second,
                              random.below(2) == 0 ? '.' : ',', fraction, sign, zone_minutes / 60,
                              zone_minutes % 60)};
    }
    case 3:
      return {{at - zone * 60, nine_digits("")},
              begin("{:04}{:02}{:02}T") + fmt::format("{:02}{:02}{:02}{}{:02}{:02}", hour, minute,
                                                      second, sign, zone_minutes / 60,
                                                      zone_minutes % 60)};
    default:
      return {
          {at, nine_digits("")},
          begin(" {:04}-{:02}-{:02}  ") + fmt::format("{:02}:{:02}:{:02}{}\r", hour, minute, second,
                                                      random.below(2) == 0 ? "Z" : " UTC")};
  }
}

TEST(Times, AreInOrderWhateverTheirForm) {
  compare_random<Moment>(TextCompare::time, random_moment);
}

TEST(Times, HaveLeapSecondsMidnightsAndZones) {
  constexpr auto time = TextCompare::time;
  expect_equal(time, "2016-12-31T23:59:60Z", "2017-01-01");
  expect_equal(time, "2016-12-31T24:00", "2017-01-01T00:00:00.000");
  expect_equal(time, "2024-03", "2024-03-01");
  expect_equal(time, "20240301", "2024-03-01");
  expect_equal(time, "20241301", "20241301.0");
  expect_equal(time, "1970-01-01T00:00:01.5+00", "1.50");
  expect_equal(time, "1969-12-31T23:59:59.75Z", "-0.25");
  expect_equal(time, "2024-01-01t12:00:00z", "2024-01-01T13:00:00+0100");
  for (const char* const none : {"",
                                 "x",
                                 "2023-02-29",
                                 "2024-13-01",
                                 "2024-00-01",
                                 "2024-01-32",
                                 "2024-01-01T",
                                 "2024-1-1",
                                 "2024-01-01T25:00",
                                 "2024-01-01T12:60",
                                 "2024-01-01T12:00:61",
                                 "2024-01-01T24:00:01",
                                 "2024-01-01T12:00:00.",
                                 "2024-01-01T12:00+1",
                                 "2024-01-01T12:00+24:00",
                                 "12:00",
                                 "-",
                                 "1.2.3",
                                 "2024-01-01x12:00",
                                 "2024-01-01 12:00 CEST",
                                 "1e9",
                                 "1234567890123456789",
                                 "0x10"})
    EXPECT_FALSE(is_value(time, none)) << none;
}

TEST(Times, AreReadByAFormat) {
  compare_random<Moment>(
      TextCompare::time,
      [](Random& random) -> Written<Moment> {
        static const int64_t days_of_1970 = Date{1970, 1, 1}.days();
        constexpr std::array months = {"Jan", "feb", "MAR", "April", "may", "June",
                                       "jul", "aug", "Sep", "Oct",   "nov", "December"};
        const Date date = random_date(random);
        const uint64_t hour = random.below(24), minute = random.below(60);
        const std::string fraction = random_fraction(random);
        const auto zone = static_cast<int64_t>(random.below(24));
        return {{(date.days() - days_of_1970) * 86400 +
                     static_cast<int64_t>(hour * 3600 + minute * 60) + zone * 3600,
                 nine_digits(fraction)},
                fmt::format("[{}/{}/{:04}: {}:{:02}.{} {}, Mon -{:02}00]", date.day,
                            months[date.month - 1], date.year, hour % 12 == 0 ? 12 : hour % 12,
                            minute, fraction, hour < 12 ? "AM" : "pm", zone)};
      },
      "[%d/%b/%Y: %I:%M.%f %p, %a %z]");
}

TEST(Times, HaveFormatsWithEachPart) {
  const auto expect_same = [](const std::string& format, std::string_view text,
                              std::string_view iso) {
    EXPECT_TRUE(is_value(TextCompare::time, text, format)) << format << " " << text;
    EXPECT_EQ(bytes_of(TextCompare::time, text, format), bytes_of(TextCompare::time, iso))
        << format << " " << text;
  };
  expect_same("%d.%m.%y", "1.2.68", "2068-02-01");
  expect_same("%d.%m.%y", "1.2.69", "1969-02-01");
  expect_same("%Y%j", "2024366", "2024-12-31");
  expect_same("%A, %e %B %Y%n%T", "Friday,  1 march 2024 23:59:60", "2024-03-02");
  expect_same("%D %R %%", "12/31/99 1:02 %", "1999-12-31T01:02");
  expect_same("%F%t%H", "2024-03-01 7", "2024-03-01T07");
  expect_same("%I %p", "12 a.m.", "0");
  expect_same("@%s", "@-0.5", "-0.5");
  const std::pair<const char*, const char*> none[] = {{"%d/%m/%Y", "31/4/2024"},
                                                      {"%d/%m/%Y", "1/2/24"},
                                                      {"%d/%m/%Y", "1/2/2024x"},
                                                      {"%j", "0"},
                                                      {"%Y%j", "2023366"},
                                                      {"%I %p", "13 pm"},
                                                      {"%I %p", "0 am"},
                                                      {"%b", "ja"},
                                                      {"%Y", ""},
                                                      {"%d%m", "1"},
                                                      {"%z", "CET"},
                                                      {"%f", ""}};
  for (const auto& [format, text] : none)
    EXPECT_FALSE(is_value(TextCompare::time, text, format)) << format << " " << text;
  for (const char* const bad : {"%q", "%", "%Y %", "dd", "%I", "%p", "%Z", "%E"})
    EXPECT_FALSE(TimeFormat::parse(bad)) << bad;
}

using Address = std::tuple<int, std::string, unsigned>;

Written<Address> random_address(Random& random) {
  const bool is_6 = random.below(2) == 0;
  std::string bytes(is_6 ? 16 : 4, '\0');
  for (char& byte : bytes)
    if (random.below(3) == 0) byte = static_cast<char>(random.below(256));
  std::array<char, INET6_ADDRSTRLEN> written{};
  inet_ntop(is_6 ? AF_INET6 : AF_INET, bytes.data(), written.data(), written.size());
  std::string text = written.data();
  if (is_6 && random.below(2) == 0) {  // without "::"
    text.clear();
    for (size_t i = 0; i < bytes.size(); i += 2)
      text += fmt::format("{}{:X}", i == 0 ? "" : ":",
                          static_cast<uint8_t>(bytes[i]) << 8 | static_cast<uint8_t>(bytes[i + 1]));
  }
  const auto bits_max = static_cast<unsigned>(8 * bytes.size());
  if (random.below(2) == 0) return {{is_6, bytes, bits_max}, text};
  const auto bits = static_cast<unsigned>(random.below(bits_max + 1));
  return {{is_6, bytes, bits}, fmt::format("{}/{}", text, bits)};
}

TEST(Addresses, AreInOrderWhateverTheirForm) {
  compare_random<Address>(TextCompare::address, random_address);
}

TEST(Addresses, HaveNetworksBeforeTheirHosts) {
  constexpr auto ip = TextCompare::address;
  expect_ascending(ip, {"", "10.0.0.256", "x", "9.255.0.1", "10.0.0.0/8", "10.0.0.0/16", "10.0.0.0",
                        "10.0.0.2", "10.0.0.10", "255.255.255.255", "::", "::1", "::ffff:1.2.3.4",
                        "2001:db8::/32", "2001:db8::", "fe80::1"});
  expect_equal(ip, " 10.0.0.1\r", "10.0.0.1/32");
  expect_equal(ip, "::FFFF:1.2.3.4", "0:0:0:0:0:ffff:102:304/128");
  for (const char* const none :
       {"1.2.3", "1.2.3.4.5", "01.2.3.4", "1.2.3.4/33", "1.2.3.4/", "1.2.3.4/x", "::1/129", "/8",
        "1::2::3", "fe80::1%eth0", "[::1]", "1.2.3.4:80"})
    EXPECT_FALSE(is_value(ip, none)) << none;
  EXPECT_FALSE(is_value(ip, std::string_view("1.2.3.4\0", 8)));
}

// A number without zeros in front: its length counts, then its digits.
using Digits = std::pair<size_t, std::string>;

Written<Digits> random_digits(Random& random, size_t most, std::string_view from = "0123456789") {
  std::string text;
  for (uint64_t n = 1 + random.below(most); n > 0; --n) text += from[random.below(from.size())];
  text.erase(0, text.find_first_not_of('0'));
  return {{text.size(), text}, text.empty() ? "0" : text};
}

TEST(Hexadecimal, IsInOrderOfNumbersOfAnyLength) {
  compare_random<Digits>(TextCompare::hexadecimal, [](Random& random) -> Written<Digits> {
    const auto number = random_digits(random, random.below(20) == 0 ? 700 : 4, "0017abcdef");
    std::string text = number.second;
    if (random.below(2) == 0)
      for (char& c : text) c = static_cast<char>(std::toupper(c));
    return {number.first, std::array{"", "0x", "0X00"}[random.below(3)] + text};
  });
  for (const char* const none : {"", "0x", "x1", "-1", "1g", "0x0x1", "1 2"})
    EXPECT_FALSE(is_value(TextCompare::hexadecimal, none)) << none;
}

TEST(Natural, OrdersRunsOfDigitsAsNumbersInPlaceOfADigit) {
  // A character, or '0' and a number; lists of these are in order of their elements.
  using Parts = std::vector<std::pair<unsigned char, Digits>>;
  compare_random<Parts>(TextCompare::natural, [](Random& random) -> Written<Parts> {
    Written<Parts> made;
    bool may_be_number = true;
    for (uint64_t n = random.below(5); n > 0; --n) {
      if (may_be_number && random.below(2) == 0) {
        const auto number = random_digits(random, random.below(20) == 0 ? 300 : 3);
        made.first.push_back({'0', number.first});
        made.second += std::string(random.below(2), '0') + number.second;
        may_be_number = false;
        continue;
      }
      const char c = std::string_view("a -\0:B\xff\1", 8)[random.below(8)];
      made.first.push_back({static_cast<unsigned char>(c), {}});
      made.second += c;
      may_be_number = true;
    }
    return made;
  });
  expect_ascending(TextCompare::natural,
                   {"", "1", "2", "10", "a", "a b", "a1", "a2b", "a10", "ab"});
}

TEST(SemanticVersions, HaveTheOrderOfTheirSpecification) {
  constexpr auto semver = TextCompare::semver;
  expect_ascending(semver, {"",
                            "1.0",
                            "x",
                            "0.0.1",
                            "v0.9.10",
                            "1.0.0-0",
                            "1.0.0-9",
                            "1.0.0-10",
                            "1.0.0-alpha",
                            "1.0.0-alpha.1",
                            "1.0.0-alpha.beta",
                            "v1.0.0-beta",
                            "1.0.0-beta.2",
                            "1.0.0-beta.11",
                            "1.0.0-beta-",
                            "1.0.0-rc.1",
                            "1.0.0",
                            "1.0.1",
                            "1.9.0",
                            "1.10.0",
                            "2.0.0-x",
                            "10.0.0",
                            "99999999999999999999999.0.0",
                            "100000000000000000000000.0.0"});
  expect_equal(semver, "v1.2.3+build.007", "1.2.3");
  for (const char* const none : {"1", "1.2", "01.0.0", "1.0.0-", "1.0.0-01", "1.0.0-a..b", "1.0.0+",
                                 "1.0.0-a_b", "1.0.0.0", "vv1.0.0", "1.0.0+a+b", "-1.0.0"})
    EXPECT_FALSE(is_value(semver, none)) << none;
}

TEST(SemanticVersions, OrderIdentifiersOfPreReleases) {
  // The identifiers of a release are one that is the greatest.
  using Identifier = std::tuple<int, Digits, std::string>;
  using Version = std::tuple<Digits, Digits, Digits, std::vector<Identifier>>;
  compare_random<Version>(TextCompare::semver, [](Random& random) -> Written<Version> {
    const auto a = random_digits(random, 2), b = random_digits(random, 1),
               c = random_digits(random, 1);
    std::string text = fmt::format("{}.{}.{}", a.second, b.second, c.second);
    std::vector<Identifier> identifiers;
    for (uint64_t n = random.below(4); n > 0; --n) {
      text += identifiers.empty() ? '-' : '.';
      const auto number = random_digits(random, 2);
      const bool is_text = random.below(2) == 0;
      const std::string word = std::string(1, "aZ-"[random.below(3)]) + number.second;
      identifiers.emplace_back(is_text, is_text ? Digits() : number.first, is_text ? word : "");
      text += is_text ? word : number.second;
    }
    if (identifiers.empty()) identifiers.emplace_back(2, Digits(), "");
    return {{a.first, b.first, c.first, identifiers}, text + (random.below(2) == 0 ? "" : "+b.1")};
  });
}

TEST(Values, AreBehindOtherTextWhichIsInTheOrderOfItsBytes) {
  for (const TextCompare compare :
       {TextCompare::time, TextCompare::address, TextCompare::semver, TextCompare::hexadecimal})
    expect_ascending(compare, {"", std::string(1, '\0'), "n/a", "n/a ", "none"});
  EXPECT_LT(bytes_of(TextCompare::time, "\xff"), bytes_of(TextCompare::time, "-999999999999"));
}

}  // namespace
}  // namespace penstock::items
