#include "trace/report/picture.h"

#include <gtest/gtest.h>

#include <map>
#include <utility>

#include "base/trials.h"
#include "trace/report/random_requests.h"

namespace penstock::report {
namespace {

// A model of the definition: the cells that requests touch, by column and row, as reads and writes.
using Cells = std::map<std::pair<uint32_t, uint32_t>, std::pair<uint64_t, uint64_t>>;

struct One {
  uint64_t order;
  double low, high;
  trace::Access access;
};

Cells cells_of_model(const Picture::Shape& shape, uint64_t per_column,
                     const std::vector<One>& all) {
  Cells cells;
  for (const One& one : all) {
    if (one.order < shape.first || one.order >= shape.first + shape.requests) continue;
    const auto column = static_cast<uint32_t>((one.order - shape.first) / per_column);
    for (uint32_t row = 0; row < shape.rows; ++row) {
      const double row_low = row, row_high = row + 1;
      const double scale = shape.rows / shape.addresses;
      const bool touches = one.low * scale < row_high && one.high * scale > row_low;
      if (!touches) continue;
      auto& [reads, writes] = cells[{column, row}];
      ++(one.access == trace::Access::read ? reads : writes);
    }
  }
  return cells;
}

Cells cells_of(const Picture& picture) {
  Cells cells;
  picture.for_each([&](uint32_t column, uint32_t row, uint64_t reads, uint64_t writes) {
    const bool added = cells.insert({{column, row}, {reads, writes}}).second;
    EXPECT_TRUE(added) << "a cell that comes twice";
  });
  return cells;
}

TEST(Picture, CountsWhatItsDefinitionSays) {
  const uint64_t seed = seed_of_run();
  SCOPED_TRACE(seed);
  Random random(seed);
  for (int round = 0; round < 200; ++round) {
    const Picture::Shape shape{.first = random.below(50),
                               .requests = 1 + random.below(400),
                               .columns = 1 + static_cast<uint32_t>(random.below(40)),
                               .rows = 1 + static_cast<uint32_t>(random.below(60)),
                               .addresses = static_cast<double>(1 + random.below(1 << 20))};
    std::vector<One> all;
    for (uint64_t order = 0; order < 500; ++order) {
      // Some orders are missing, some requests begin or end at the edges of rows.
      if (random.below(10) == 0) continue;
      const double row_bytes = shape.addresses / shape.rows;
      double low = random.unit() * shape.addresses;
      if (random.below(3) == 0) low = static_cast<double>(random.below(shape.rows)) * row_bytes;
      double high = low + random.unit() * (shape.addresses - low);
      if (random.below(3) == 0) high = low + row_bytes;
      high = std::min(high, shape.addresses);
      if (high <= low) continue;
      all.push_back(
          {order, low, high, random.below(2) == 0 ? trace::Access::read : trace::Access::write});
    }
    Picture picture(shape);
    for (const One& one : all) picture.add(one.order, one.low, one.high, one.access);
    picture.finish();
    ASSERT_LE(picture.columns(), shape.columns);
    ASSERT_GE(picture.columns() * picture.requests_per_column(), shape.requests);
    ASSERT_EQ(cells_of(picture), cells_of_model(shape, picture.requests_per_column(), all));
    // A coarsened picture equals one that was drawn with fewer columns.
    while (picture.columns() > 1) {
      picture.halve_columns();
      ASSERT_EQ(cells_of(picture), cells_of_model(shape, picture.requests_per_column(), all));
    }
  }
}

TEST(Picture, EachOfFewRequestsHasAColumn) {
  Picture picture({.first = 7, .requests = 3, .columns = 8192, .rows = 4, .addresses = 4});
  EXPECT_EQ(picture.columns(), 3u);
  picture.add(7, 0, 1, trace::Access::read);
  picture.add(8, 1, 3, trace::Access::write);
  picture.add(9, 3, 4, trace::Access::read);
  picture.finish();
  EXPECT_EQ(cells_of(picture),
            (Cells{{{0, 0}, {1, 0}}, {{1, 1}, {0, 1}}, {{1, 2}, {0, 1}}, {{2, 3}, {1, 0}}}));
}

TEST(Picture, CostsNoMoreForLongRequests) {
  // A million requests of the whole height. Time of rows times requests would be minutes.
  Picture picture({.requests = 1'000'000, .columns = 16, .rows = 65536, .addresses = 1e15});
  for (uint64_t order = 0; order < 1'000'000; ++order)
    picture.add(order, 0, 1e15, trace::Access::read);
  picture.finish();
  uint64_t touched = 0;
  picture.for_each([&](uint32_t, uint32_t, uint64_t reads, uint64_t) { touched += reads; });
  EXPECT_EQ(touched, uint64_t{65536} * 1'000'000);
}

}  // namespace
}  // namespace penstock::report
