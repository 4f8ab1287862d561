// Rows of CSV.

#include "items/rows.h"

#include <gtest/gtest.h>

#include <string>

#include "base/random.h"
#include "base/trials.h"
#include "items/items.h"
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

TEST(Rows, HaveAsManyFieldsAsTheHeader) {
  const std::string long_field(5000, 'x');
  const std::string many_fields(5000, ';');
  for (const std::string& row :
       {std::string("a;b;c\n"), std::string("a;b;c"), std::string(";;\r\n"),
        std::string("\"a;b\";\"\n\";c\n"), long_field + ";" + long_field + ";;\n",
        many_fields + "\n", "\"" + many_fields + "\";;c", std::string("\n"), std::string()}) {
    size_t fields = 0;
    ASSERT_FALSE(fault_of_row(row, ';', '\n', &fields)) << row;
    const bool is_blank = row.size() < 2;
    const size_t wanted = is_blank ? 1 : row == many_fields + "\n" ? 5001 : row[0] == 'x' ? 4 : 3;
    EXPECT_EQ(fields, wanted) << row;
    for (const size_t header : {fields - 1, fields, fields + 1}) {
      for (const bool must_fit : {false, true}) {
        Format format = csv_format(';');
        format.row_fields = header;
        format.rows_fit_header = must_fit;
        const bool fits = header == fields || header == 0 || is_blank;
        bool is_even = false;
        EXPECT_EQ(fault_of(format, row, is_even).has_value(), must_fit && !fits) << row;
        EXPECT_EQ(is_even, fits) << row;
        if (row.empty()) continue;
        RowIndex index(format, {1});
        const auto* const at = reinterpret_cast<const std::byte*>(row.data());
        EXPECT_EQ(index.add(at, at + row.size(), true), must_fit && !fits ? 0 : row.size()) << row;
        EXPECT_EQ(index.fault().has_value(), must_fit && !fits) << row;
        if (!must_fit) {
          EXPECT_EQ(index.is_even(0), fits) << row;
        }
      }
    }
  }
}

TEST(Rows, AreIndexedAfterOneWithAFault) {
  RowIndex index(csv_format(','), {0});
  const auto bytes_of_row = [&](std::string_view row) {
    const auto* const at = reinterpret_cast<const std::byte*>(row.data());
    return index.add(at, at + row.size(), false);
  };
  EXPECT_EQ(bytes_of_row("a\"b,c\n"), 0u);
  EXPECT_TRUE(index.fault());
  EXPECT_EQ(bytes_of_row("1,2\n"), 4u);
  EXPECT_FALSE(index.fault());
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
