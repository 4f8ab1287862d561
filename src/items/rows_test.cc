// Rows of CSV.

#include "items/rows.h"

#include <gtest/gtest.h>

#include <string>

#include "base/random.h"
#include "base/trials.h"
#include "items/rows_fixture.h"

namespace penstock::items {
namespace {

std::string random_text(Random& random, bool well_formed) {
  std::string text;
  for (uint64_t row = 1 + random.below(6); row > 0; --row) {
    for (uint64_t field = 1 + random.below(4); field > 0; --field) {
      std::string value;
      const uint64_t bytes_max = random.below(10) == 0 ? 100 : 4;
      for (uint64_t n = random.below(bytes_max + 1); n > 0; --n)
        value += "ab,\n\r\"x"[random.below(7)];
      if (well_formed) {
        const bool needs = value.find_first_of(",\n\r\"") != value.npos;
        if (needs || random.below(3) == 0) {
          std::string quoted = "\"";
          for (const char c : value) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
          value = quoted + '"';
        }
      }
      text += value + (field > 1 ? "," : "");
    }
    text += random.below(3) == 0 ? "\r\n" : "\n";
  }
  return text;
}

TEST(Rows, AreAsAReaderByteByByteHasThem) {
  for (uint64_t seed = 0; seed < trials(20000); ++seed) {
    Random random(seed);
    const bool well_formed = random.below(3) != 0;
    const std::string text = random_text(random, well_formed);
    ASSERT_EQ(difference_of_rows(text), "") << testing::PrintToString(text);
  }
}

TEST(Rows, HaveAsManyFieldsAsTheyMust) {
  for (const char* const row : {"a;b;c\n", "a;b;c", ";;\r\n", "\"a;b\";\"\n\";c\n"}) {
    EXPECT_FALSE(fault_of_row(row, ';', '\n', 3)) << row;
    EXPECT_TRUE(fault_of_row(row, ';', '\n', 2)) << row;
    EXPECT_TRUE(fault_of_row(row, ';', '\n', 4)) << row;
    EXPECT_FALSE(fault_of_row(row, ';', '\n')) << row;
    const auto* const at = reinterpret_cast<const std::byte*>(row);
    const size_t bytes = std::string_view(row).size();
    EXPECT_EQ(RowIndex(';', '\n', {1}, 3).add(at, at + bytes, true), bytes) << row;
    RowIndex other(';', '\n', {1}, 4);
    EXPECT_EQ(other.add(at, at + bytes, true), 0) << row;
    EXPECT_TRUE(other.fault()) << row;
  }
}

TEST(Rows, FaultsAreWhereTheyAre) {
  struct Case {
    const char* row;
    size_t at;
  };
  for (const Case& c :
       {Case{"a,b\"c\n", 3}, Case{"\"ab", 0}, Case{"x,\"a\"b,\n", 5}, Case{"\"\"\"\n", 0}}) {
    const auto fault = fault_of_row(c.row, ',', '\n');
    ASSERT_TRUE(fault.has_value()) << c.row;
    EXPECT_EQ(fault->at, c.at) << c.row;
  }
  for (const char* fine : {"", "\n", ",\n", "\"\"\n", "\"a\"\"b\",c\r\n", "\"a\nb\"\r\n", "a b\n"})
    EXPECT_FALSE(fault_of_row(fine, ',', '\n').has_value()) << fine;
}

}  // namespace
}  // namespace penstock::items
