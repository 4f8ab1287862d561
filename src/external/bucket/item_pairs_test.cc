#include "external/bucket/item_pairs.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/random.h"
#include "record/text/text_order.h"

namespace penstock::external {
namespace {

// More keys with one beginning than are kept at a time, among others that have another one.
TEST(ItemPairs, ManyMadeKeysWithOneBeginningAreDivided) {
  for (const bool descending : {false, true}) {
    const auto order = record::TextOrder::make({.keys = {descending ? "2,2r" : "2,2"}});
    ASSERT_TRUE(order) << order.error().message();
    SortOptions options;
    options.format = {record::Type::lines, 1};
    options.format.keys = *order;
    Random random(1);
    std::vector<std::string> lines;
    for (int i = 0; i < 9'000; ++i) {
      const char* const beginning = i % 3 == 0 ? "another" : "the-same-beginning";
      lines.push_back(fmt::format("{} {}{}\n", i, beginning, random.below(5'000)));
    }
    std::string text;
    for (const std::string& line : lines) text += line;
    const ItemsInMemory items = {.data = reinterpret_cast<const std::byte*>(text.data()),
                                 .bytes = text.size(),
                                 .items = lines.size()};
    std::vector<sorting::KeyValue> pairs(lines.size());
    ASSERT_TRUE(sort_pairs(options, items, pairs.data(), 2));
    const record::ItemOrder model = options.order();
    std::ranges::stable_sort(lines,
                             [&](const auto& a, const auto& b) { return model.compare(a, b) < 0; });
    for (size_t i = 0; i < lines.size(); ++i)
      ASSERT_EQ(ItemPlace(pairs[i].value).item(options.format, items), lines[i]) << i;
  }
}

}  // namespace
}  // namespace penstock::external
