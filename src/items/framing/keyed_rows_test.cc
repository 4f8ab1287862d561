#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/random.h"
#include "items/checker.h"
#include "items/items.h"
#include "penstock/files.h"

namespace penstock::items {
namespace {

std::string row(std::string_view key, std::string_view payload) {
  std::string made(RowHead::bytes, '\0');
  made.append(key).append(payload);
  RowHead{static_cast<uint32_t>(made.size()), static_cast<uint32_t>(key.size())}.store(made.data());
  return made;
}

const Format format = *parse_format("rows");

TEST(KeyedRows, AreDrawnAsTheHeaderSays) {
  EXPECT_EQ(row("key", "\xff\n"), std::string("\x0d\0\0\0\x03\0\0\0key\xff\n", 13));
  EXPECT_EQ(row("", ""), std::string("\x08\0\0\0\0\0\0\0", 8));
}

TEST(KeyedRows, AreItemsOneBehindTheOther) {
  const std::vector<std::string> rows = {row("b", "1"), row("", ""), row("ab", std::string(9, 0)),
                                         row(std::string("a\0", 2), "x")};
  std::string data;
  for (const std::string& each : rows) data += each;
  const auto* at = reinterpret_cast<const std::byte*>(data.data());
  const auto* const end = at + data.size();
  for (const std::string& each : rows) {
    for (size_t cut = 0; cut < each.size(); ++cut)
      EXPECT_EQ(item_bytes_at(format, at, at + cut), 0u);
    EXPECT_EQ(item_at(format, at, end), each);
    EXPECT_FALSE(fault_of(format, each));
    EXPECT_FALSE(lacks_line_end(format, each));
    EXPECT_EQ(without_line_end(format, each), each);
    at += each.size();
  }
  EXPECT_EQ(at, end);
  EXPECT_EQ(key_of(format, rows[0]), "b");
  EXPECT_EQ(key_of(format, rows[1]), "");
  const ItemOrder order(format);
  EXPECT_LT(order.compare(rows[3], rows[2]), 0);
  EXPECT_LT(order.compare(row("a", "z"), rows[3]), 0);
  EXPECT_EQ(order.compare(row("a", "z"), row("a", "y")), 0);
  EXPECT_GT(ItemOrder(format, true).compare(row("a", "z"), rows[3]), 0);
}

TEST(KeyedRows, FaultsAreFoundWithoutReadingOutside) {
  std::string short_row = row("", "");
  short_row[0] = 3;
  std::string long_key = row("key", "");
  long_key[4] = 4;
  const std::string cut_off = row("key", "payload").substr(0, 12);
  for (const std::string& bad : {short_row, long_key, cut_off, std::string(5, 'x')})
    EXPECT_TRUE(fault_of(format, bad)) << bad.size();
  const auto* at = reinterpret_cast<const std::byte*>(short_row.data());
  EXPECT_EQ(item_bytes_at(format, at, at + short_row.size()), RowHead::bytes);
  EXPECT_EQ(key_of(format, long_key), "key");
  EXPECT_EQ(key_of(format, "x"), "");
}

// A few are missed: bytes of a payload may happen to be lengths that lead to the beginning of a
// row.
TEST(KeyedRows, AreFoundFromTheMiddle) {
  Random random(1);
  std::string data;
  std::vector<size_t> begins;
  while (data.size() < 20'000) {
    begins.push_back(data.size());
    std::string text(random.below(60), '\0');
    for (char& byte : text) byte = static_cast<char>(random.next());
    data += row(text.substr(0, random.below(text.size() + 1)), text);
  }
  const auto* const all = reinterpret_cast<const std::byte*>(data.data());
  size_t missed = 0;
  for (size_t from = 0; from < 10'000; ++from) {
    const std::byte* const end = all + from + 4096;
    const std::byte* found = row_framing.first_item(format, all + from, end, from);
    const auto next = static_cast<ptrdiff_t>(*std::ranges::lower_bound(begins, from));
    EXPECT_LE(found - all, next);
    missed += found - all == next ? 0 : 1;
  }
  EXPECT_LT(missed, 100u);
  EXPECT_EQ(row_framing.first_item(format, all + 1, all + 7, 1), all + 7);
}

TEST(KeyedRows, AreCheckedInAnyPieces) {
  Random random(2);
  std::string data;
  for (int i = 0; i < 500; ++i)
    data += row(std::to_string(1000 + i / 2), std::string(random.below(30), 'p'));
  for (int round = 0; round < 50; ++round) {
    Checker checker({.format = format});
    for (size_t at = 0; at < data.size();) {
      const size_t bytes =
          std::min<size_t>(data.size() - at, 1 + random.below(1 + static_cast<uint64_t>(round)));
      checker.add(std::as_bytes(std::span(data).subspan(at, bytes)));
      at += bytes;
    }
    const auto result = checker.finish();
    ASSERT_TRUE(result) << result.error().message();
    EXPECT_EQ(result->count, 500u);
    EXPECT_EQ(result->duplicates, 250u);
    EXPECT_TRUE(result->sorted());
  }
  for (const std::string& bad :
       {data.substr(0, data.size() - 1), data + "x", data + row("1", "")}) {
    Checker checker({.format = format});
    checker.add(std::as_bytes(std::span(bad)));
    const auto result = checker.finish();
    EXPECT_FALSE(result && result->sorted());
  }
}

}  // namespace
}  // namespace penstock::items
