#include "items/fields.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

namespace penstock::items {
namespace {

using Fields = std::vector<std::string_view>;

Fields fields_of(std::string_view line, const FieldStyle& style) {
  Fields fields = {"what was there before"};
  split_fields(line, style, fields);
  return fields;
}

TEST(Fields, EachSeparatorPartsTwo) {
  const FieldStyle commas = {.separator = ','};
  EXPECT_EQ(fields_of("a,bc,d", commas), (Fields{"a", "bc", "d"}));
  EXPECT_EQ(fields_of("a", commas), (Fields{"a"}));
  EXPECT_EQ(fields_of(",a,,b,", commas), (Fields{"", "a", "", "b", ""}));
  EXPECT_EQ(fields_of(",", commas), (Fields{"", ""}));
  EXPECT_EQ(fields_of("", commas), Fields{});
}

TEST(Fields, BlanksPartTwoHoweverManyThereAre) {
  EXPECT_EQ(fields_of("a  bc\td", {}), (Fields{"a", "bc", "d"}));
  EXPECT_EQ(fields_of("  a", {}), (Fields{"a"}));
  EXPECT_EQ(fields_of("a ", {}), (Fields{"a", ""}));
  EXPECT_EQ(fields_of(" \t ", {}), Fields{});
  EXPECT_EQ(fields_of("", {}), Fields{});
}

TEST(Fields, KeepTheQuotesOfARow) {
  const FieldStyle row = {.separator = ';', .csv = ';'};
  EXPECT_EQ(fields_of(R"(a;"b;c";"d ""e""";)", row), (Fields{"a", R"("b;c")", R"("d ""e""")", ""}));
  EXPECT_EQ(fields_of("", row), (Fields{""}));
}

TEST(Fields, TheStyleIsTheFormats) {
  const FieldStyle of_lines = style_of({.type = Type::lines}, ':');
  EXPECT_EQ(of_lines.separator, ':');
  EXPECT_FALSE(of_lines.csv);
  const FieldStyle of_rows = style_of({.type = Type::lines, .csv = ';'}, ':');
  EXPECT_EQ(of_rows.separator, ';');
  EXPECT_TRUE(of_rows.csv);
}

TEST(Fields, TextInARowIsQuotedWhereItMustBe) {
  EXPECT_EQ(row_field("plain text", ','), "plain text");
  EXPECT_EQ(row_field("", ','), "");
  EXPECT_EQ(row_field("a;b", ','), "a;b");
  EXPECT_EQ(row_field("a,b", ','), R"("a,b")");
  EXPECT_EQ(row_field("a\nb", ','), "\"a\nb\"");
  EXPECT_EQ(row_field("a\rb", ','), "\"a\rb\"");
  EXPECT_EQ(row_field(R"(say "so")", ','), R"("say ""so""")");
}

}  // namespace
}  // namespace penstock::items
