// Test labels: one-thread

#include "items/cuts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "base/random.h"
#include "base/trials.h"

namespace penstock::items {
namespace {

// An item and its position, and a cut in front of it.
struct Placed {
  std::string item;
  uint64_t position = 0;
};

// Keys that are often equal, begin alike, or differ in zeros at their ends alone.
std::string random_item(Random& random, const Format& format) {
  if (format.numeric()) {
    std::string item(format.record_bytes, '\0');
    const uint64_t number = random.below(2) == 0 ? random.below(20) : random.next();
    std::memcpy(item.data(), &number, format.key_bytes);
    return item;
  }
  std::string line = random.below(4) == 0 ? "" : "alike at first ";
  for (uint64_t bytes = random.below(14); bytes > 0; --bytes)
    line.push_back(static_cast<char>(random.below(3) * 127));
  return line + '\n';
}

uint32_t part_of(const Cuts& cuts, const Placed& placed) {
  if (!cuts.order().format().numeric()) {
    std::string room;
    return cuts.part_of(cuts.order().key(placed.item, room), placed.position);
  }
  uint32_t part = 0;
  cuts.parts_of(reinterpret_cast<const std::byte*>(placed.item.data()), 1, placed.position, &part);
  return part;
}

TEST(Cuts, CountThoseThatAreNotBehindAnItem) {
  for (const char* name : {"u32", "i64", "f64", "kv64", "lines"}) {
    for (uint64_t trial = 0; trial < trials(400); ++trial) {
      SCOPED_TRACE(testing::Message() << name << ' ' << trial);
      Random random(trial);
      const ItemOrder order(*parse_format(name), trial % 2 == 0);
      const bool has_positions = random.below(2) == 0;
      const auto placed = [&] {
        return Placed{random_item(random, order.format()), random.below(100)};
      };
      const auto is_before = [&](const Placed& a, const Placed& b) {
        const int keys = order.compare(a.item, b.item);
        return keys < 0 || (keys == 0 && has_positions && a.position < b.position);
      };
      std::vector<Placed> bounds(random.below(3) == 0 ? random.below(3) : random.below(200));
      std::ranges::generate(bounds, placed);
      std::ranges::stable_sort(bounds, is_before);
      std::vector<ItemKey> keys;
      std::vector<uint64_t> positions;
      for (const Placed& bound : bounds) {
        keys.push_back(order.item_key(bound.item));
        if (has_positions) positions.push_back(bound.position);
      }
      const Cuts cuts(order, std::move(keys), std::move(positions));
      ASSERT_EQ(cuts.parts(), bounds.size() + 1);
      for (int i = 0; i < 100; ++i) {
        const Placed item =
            i % 2 == 0 || bounds.empty() ? placed() : bounds[random.below(bounds.size())];
        const auto part = std::ranges::upper_bound(bounds, item, is_before) - bounds.begin();
        ASSERT_EQ(part_of(cuts, item), part);
      }
    }
  }
}

TEST(Cuts, ManyNumbersGoWhereEachAloneGoes) {
  Random random(1);
  const ItemOrder order(*parse_format("u64"), false);
  const Cuts cuts(order, {{3}, {5}, {5}, {5}, {9}}, {0, 0, 80, 160, 0});
  std::vector<uint64_t> numbers(37);
  for (uint64_t& number : numbers) number = random.below(12);
  std::vector<uint32_t> parts(numbers.size());
  const auto* const data = reinterpret_cast<const std::byte*>(numbers.data());
  cuts.parts_of(data, numbers.size(), 0, parts.data());
  for (size_t i = 0; i < numbers.size(); ++i) {
    uint32_t alone = 0;
    cuts.parts_of(data + i * sizeof(uint64_t), 1, i * sizeof(uint64_t), &alone);
    EXPECT_EQ(parts[i], alone) << i;
  }
}

}  // namespace
}  // namespace penstock::items
