#include "items/keys/text/key_words.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace penstock::items {
namespace {

const std::vector<std::string> header = {"id", "price", "net, of tax", "a:n", "city", "2nd"};

// The columns that a list of keys names, with n and r; empty if it is an error.
std::string columns_of(const std::string& spec, const std::vector<std::string>& names = header) {
  const auto columns = read_columns(spec, names);
  if (!columns) return {};
  std::string text;
  for (Written column : *columns) {
    if (!settle(column)) return {};
    text += (text.empty() ? "" : " ") + std::to_string(column.key.start_field);
    if (column.key.compare == TextCompare::numeric) text += "n";
    if (column.key.reverse) text += "r";
    if (column.ascends) text += "a";
  }
  return text;
}

std::string message_of(const std::string& spec) {
  const auto columns = read_columns(spec, header);
  return columns ? std::string() : columns.error().message();
}

TEST(KeyWords, ColumnsHaveLettersAndDirectionsBehindColons) {
  EXPECT_EQ(columns_of("price"), "1");
  EXPECT_EQ(columns_of("price:nr"), "1nr");
  EXPECT_EQ(columns_of("price:n:r"), "1nr");
  EXPECT_EQ(columns_of("price:n:desc"), "1nr");
  EXPECT_EQ(columns_of("price:desc:n"), "1nr");
  EXPECT_EQ(columns_of("price:asc"), "1a");
  EXPECT_EQ(columns_of("2:n:desc"), "1nr");
  EXPECT_EQ(columns_of("2:n", {}), "1n");
  EXPECT_EQ(columns_of("a:n"), "3") << "a name that ends like letters";
  EXPECT_EQ(columns_of("a:n:n"), "3n");
  EXPECT_EQ(columns_of("price:asc:desc"), "");
  EXPECT_EQ(columns_of("price:numeric"), "");
}

TEST(KeyWords, CommasSeparateColumnsUnlessANameHasThem) {
  EXPECT_EQ(columns_of("price,city"), "1 4");
  EXPECT_EQ(columns_of("price:n:desc,id:n,city"), "1nr 0n 4");
  EXPECT_EQ(columns_of("net, of tax"), "2");
  EXPECT_EQ(columns_of("id,net, of tax:n,city"), "0 2n 4");
  EXPECT_EQ(columns_of("price,2:n"), "1 1n");
  EXPECT_EQ(columns_of("2:n,3", {}), "1n 2");
  for (const char* const bad : {"price,", ",price", "price,,id", "price,pirce", "price,9", ","})
    EXPECT_EQ(columns_of(bad), "") << bad;
  EXPECT_NE(message_of("id,pirce").find("did you mean price?"), std::string::npos);
  // One key of lines is no list of two columns.
  EXPECT_NE(message_of("2,2n").find("--key 2:n"), std::string::npos);
  EXPECT_NE(message_of("price,n").find("--key price:n"), std::string::npos);
  EXPECT_NE(message_of("1,3").find("--key 1 --key 3"), std::string::npos);
}

TEST(KeyWords, KeysOfLinesTakeDirections) {
  EXPECT_TRUE(read_key("2:desc").value().key.reverse);
  EXPECT_TRUE(read_key("2,2n:desc").value().key.reverse);
  EXPECT_TRUE(read_key("2,2n:asc").value().ascends);
  EXPECT_TRUE(read_key("2,2:time:r").value().key.reverse);
  Written time = read_key("2,3b:time:desc").value();
  EXPECT_TRUE(settle(time) && time.key.reverse && time.key.skips_blanks_at_end);
  EXPECT_EQ(time.key.compare, TextCompare::time);
  for (const char* const bad : {"2:n", "2:", ":desc", "price:desc", "2:desc:asc", "2:time:ip"})
    EXPECT_FALSE(read_key(bad)) << bad;
}

TEST(KeyWords, AKeyNamesAColumnIfItIsNoKeyOfLines) {
  for (const char* const column :
       {"price", "price:n", "2:n", "2:desc", "2:ip", "2024_sales", "a,b", "n2"})
    EXPECT_TRUE(names_column(column)) << column;
  for (const char* const other :
       {"", "2", "2,2n", "2.3b,4r", "0", "1.0", "2nd", "1,", "0:10", "4:8", "2,2:time:desc"})
    EXPECT_FALSE(names_column(other)) << other;
}

}  // namespace
}  // namespace penstock::items
