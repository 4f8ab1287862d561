#include "files/sort/bucket/item_pairs.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "base/trials.h"
#include "items/keys/text/text_order.h"

namespace penstock::external {
namespace {

// More keys with one prefix than are kept at a time, or longer ones, among other keys.
TEST(ItemPairs, ManyMadeKeysWithOneBeginningAreDivided) {
  for (const auto& [descending, more_bytes] :
       {std::pair{false, 0}, std::pair{true, 0}, std::pair{false, 300}}) {
    const auto order = items::TextOrder::make({.keys = {descending ? "2,2r" : "2,2"}});
    ASSERT_TRUE(order) << order.error().message();
    SortOptions options;
    options.format = {items::Type::lines, 1};
    options.format.keys = *order;
    Random random(1);
    std::vector<std::string> lines;
    for (int i = 0; i < 9'000; ++i) {
      const char* const beginning = i % 3 == 0 ? "another" : "the-same-beginning";
      lines.push_back(
          fmt::format("{} {}{:x>{}}{}\n", i, beginning, "", more_bytes, random.below(5'000)));
    }
    std::string text;
    for (const std::string& line : lines) text += line;
    const ItemsInMemory items = {.data = reinterpret_cast<const std::byte*>(text.data()),
                                 .bytes = text.size(),
                                 .items = lines.size()};
    std::vector<sorting::KeyValue> pairs(lines.size());
    ASSERT_TRUE(sort_pairs(options, items, pairs.data(), 2));
    const items::ItemOrder model = options.order();
    std::ranges::stable_sort(lines,
                             [&](const auto& a, const auto& b) { return model.compare(a, b) < 0; });
    for (size_t i = 0; i < lines.size(); ++i)
      ASSERT_EQ(ItemPlace(pairs[i].value).item(options.format, items), lines[i]) << i;
  }
}

ItemsInMemory in_memory(const std::string& text, size_t items) {
  return {.data = reinterpret_cast<const std::byte*>(text.data()),
          .bytes = text.size(),
          .items = items};
}

// Keys are compared eight bytes at a time. Keys made of a few words of eight bytes are prefixes of
// each other, equal, or differ first in a word that ends another key.
TEST(ItemPairs, KeysOfTheSameFewWordsAreToldApart) {
  Random random(seed_of_run());
  // Lines with equal keys keep their order, or are ordered by the whole line.
  const auto stable = items::TextOrder::make({.keys = {"2,2"}, .separator = ' ', .stable = true});
  const auto total = items::TextOrder::make({.keys = {"2,2"}, .separator = ' '});
  ASSERT_TRUE(stable && total);
  for (int round = 0; round < 600; ++round) {
    SortOptions options;
    options.descending = round % 2 == 0;
    options.format = {items::Type::lines, 1};
    if (round % 3 == 0) options.format.keys = round % 4 < 2 ? *stable : *total;
    if (round % 3 == 1) options.format = {items::Type::record, 40, 8, 24};
    SCOPED_TRACE(fmt::format("seed {}, round {}", seed_of_run(), round));
    const size_t count = 1 + random.below(round % 10 == 0 ? 2'000 : 12);
    std::vector<std::string> items;
    for (size_t i = 0; i < count; ++i) {
      std::string key;
      for (uint64_t words = random.below(4); words > 0; --words)
        key += std::string(8, static_cast<char>('a' + random.below(3)));
      if (options.format.fixed()) key.resize(24, ' ');
      items.push_back(options.format.fixed() ? fmt::format("{:08}{}{:08}", i, key, count - i)
                      : options.format.keys  ? fmt::format("{} {}\n", count - i, key)
                                             : key + '\n');
    }
    std::string text;
    for (const std::string& item : items) text += item;
    const ItemsInMemory all = in_memory(text, count);
    std::vector<sorting::KeyValue> pairs(count);
    ASSERT_TRUE(sort_pairs(options, all, pairs.data(), 1));
    const items::ItemOrder model = options.order();
    std::ranges::stable_sort(items,
                             [&](const auto& a, const auto& b) { return model.compare(a, b) < 0; });
    for (size_t i = 0; i < count; ++i) {
      ASSERT_EQ(ItemPlace(pairs[i].value).item(options.format, all), items[i]) << i;
      const bool repeats = i > 0 && model.compare(items[i - 1], items[i]) == 0;
      ASSERT_EQ(pairs[i].key, repeats ? 1u : 0u) << i;
    }
  }
}

// Temporaries give as many whole items as were written, or an error.
TEST(ItemPairs, OtherItemsThanWereWrittenAreAnError) {
  const auto keys = items::TextOrder::make({.keys = {"1,1"}});
  ASSERT_TRUE(keys) << keys.error().message();
  const items::Format lines = {items::Type::lines, 1};
  items::Format with_keys = lines;
  with_keys.keys = *keys;
  items::Format csv = lines;
  csv.csv = ',';
  const items::Format records = {items::Type::record, 4, 0, 2};
  for (const items::Format& format : {lines, with_keys, csv, records}) {
    SCOPED_TRACE(fmt::format("{} {}", items::name_of(format.type), format.csv.has_value()));
    SortOptions options;
    options.format = format;
    const std::string text = "cc\n\nbb\n\naa\n\n";
    const size_t count = format.fixed() ? 3 : 6;
    std::vector<sorting::KeyValue> pairs(count + 1);
    EXPECT_TRUE(sort_pairs(options, in_memory(text, count), pairs.data(), 1));
    for (const size_t other : {count - 1, count + 1, size_t{0}}) {
      const auto status = sort_pairs(options, in_memory(text, other), pairs.data(), 1);
      ASSERT_FALSE(status) << other;
      EXPECT_EQ(status.error().code, ErrorCode::corrupt);
    }
    const auto status = sort_pairs(options, in_memory(text.substr(0, 9), count), pairs.data(), 1);
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, ErrorCode::corrupt);
  }
}

}  // namespace
}  // namespace penstock::external
