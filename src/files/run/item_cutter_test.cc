#include "files/run/item_cutter.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/trials.h"
#include "items/rows.h"

namespace penstock::files {
namespace {

items::Format csv() {
  return {.type = items::Type::lines, .csv = items::Dialect{}};
}

struct Row {
  std::string text;
  uint64_t offset = 0, line = 1, row = 1;
  bool operator==(const Row&) const = default;
};

struct Cut {
  std::vector<Row> rows;
  std::string error = {};
};

// The rows of a text, found without the cutter: a line end ends a row if an even number of quotes is
// in front of it. A row of more than `bytes_max` bytes without its end is an error.
Cut plain_cut(const std::string& text, size_t bytes_max) {
  Cut cut;
  Row row;
  const auto end_row = [&](bool has_end) {
    if (row.text.size() - (has_end ? 1 : 0) > bytes_max) {
      cut.error = "row " + std::to_string(row.row);
      if (row.line != row.row) cut.error += " (line " + std::to_string(row.line) + ")";
      return false;
    }
    cut.rows.push_back(row);
    const auto lines = std::ranges::count(row.text, '\n');
    row = {.offset = row.offset + row.text.size(),
           .line = row.line + std::max<uint64_t>(1, static_cast<uint64_t>(lines)),
           .row = row.row + 1};
    return true;
  };
  bool is_quoted = false;
  for (const char c : text) {
    row.text += c;
    is_quoted ^= c == '"';
    if (c == '\n' && !is_quoted && !end_row(true)) return cut;
  }
  if (!row.text.empty()) end_row(false);
  return cut;
}

// The rows that the cutter finds in pieces of random lengths. Several rows are taken before they are
// dropped, in parts.
Cut cut_in_pieces(const std::string& text, size_t bytes_max, Random& random) {
  const items::Format format = csv();
  ItemCutter cutter(format, bytes_max);
  cutter.begin("in");
  Cut cut;
  std::string dropped;
  size_t taken_rows = 0;
  for (size_t at = 0;;) {
    const std::string_view rest = cutter.text();
    EXPECT_EQ(cutter.offset() + rest.size(), at);
    if (!rest.empty() && cutter.is_due()) {
      const auto* const begin = reinterpret_cast<const std::byte*>(rest.data());
      size_t bytes = items::item_bytes_at(format, begin, begin + rest.size());
      if (bytes == 0 && cutter.has_ended()) bytes = rest.size();
      if (bytes > 0) {
        cut.rows.push_back({std::string(rest.substr(0, bytes)), cutter.offset(),
                            cutter.place().line, cutter.place().row});
        cutter.take(bytes);
        if (++taken_rows < 3 && random.below(2) == 0) continue;
      } else {
        cutter.defer();
      }
    }
    taken_rows = 0;
    while (!cutter.taken().empty()) {
      const size_t bytes = 1 + random.below(cutter.taken().size());
      dropped += cutter.taken().substr(0, bytes);
      cutter.drop(bytes);
    }
    if (cutter.has_ended() && cutter.text().empty()) break;
    if (cutter.has_ended()) continue;
    const auto room = cutter.room();
    if (!room) {
      EXPECT_EQ(room.error().subject, "in");
      EXPECT_EQ(room.error().code, ErrorCode::out_of_memory);
      const size_t place = room.error().attempted.find("row ");
      cut.error = room.error().attempted.substr(place);
      cut.error.resize(cut.error.find(" of more than " + std::to_string(bytes_max) + " bytes"));
      break;
    }
    EXPECT_FALSE(room->empty());
    const size_t bytes =
        std::min(1 + random.below(bytes_max < 1000 && random.below(3) == 0 ? 5 : room->size()),
                 std::min(room->size(), text.size() - at));
    text.copy(reinterpret_cast<char*>(room->data()), bytes, at);
    cutter.add(bytes);
    at += bytes;
    if (bytes == 0) cutter.finish();
  }
  std::string all;
  for (const Row& row : cut.rows) all += row.text;
  EXPECT_EQ(dropped, all);
  return cut;
}

std::string random_rows(Random& random, size_t bytes_max) {
  std::string text;
  for (uint64_t rows = random.below(20); rows > 0; --rows) {
    // Most rows are short; some have about the greatest length.
    const size_t bytes = random.below(4) == 0 ? bytes_max - 2 + random.below(4) : random.below(9);
    std::string row;
    if (bytes >= 2 && random.below(2) == 0) {
      row = '"' + std::string(bytes - 2, 'q') + '"';
      for (char& c : row) c = c == 'q' && random.below(8) == 0 ? '\n' : c;
    } else {
      row.append(bytes, 'x');
    }
    text += row + '\n';
  }
  if (random.below(3) == 0 && !text.empty()) text.pop_back();
  if (random.below(8) == 0) text += '"' + std::string(random.below(2 * bytes_max), '\n');
  return text;
}

TEST(ItemCutter, CutsAsAPlainLoopDoes) {
  Random random(seed_of_run());
  for (uint64_t round = 0; round < trials(400); ++round) {
    const size_t bytes_max =
        round % 50 == 0 ? 50'000 + random.below(500'000) : 3 + random.below(60);
    const std::string text = random_rows(random, bytes_max);
    const Cut want = plain_cut(text, bytes_max);
    const Cut got = cut_in_pieces(text, bytes_max, random);
    ASSERT_EQ(got.error, want.error) << "round " << round;
    ASSERT_TRUE(got.rows == want.rows) << "round " << round;
  }
}

TEST(ItemCutter, GivesTheLastItemItsLineEnd) {
  const items::Format format = csv();
  ItemCutter cutter(format, 4);
  cutter.begin("in");
  const auto room = cutter.room();
  ASSERT_TRUE(room);
  std::string("abcd").copy(reinterpret_cast<char*>(room->data()), 4);
  cutter.add(4);
  cutter.finish();
  cutter.take(4);
  cutter.end_line();
  EXPECT_EQ(cutter.taken(), "abcd\n");
  EXPECT_EQ(cutter.text(), "");
}

TEST(ItemCutter, TakesMemoryAsItemsGrow) {
  const auto account = std::make_shared<MemoryAccount>(0);
  const RunScope scope({.account = account});
  const items::Format format = csv();
  ItemCutter cutter(format, 64 * MiB);
  cutter.begin("in");
  uint64_t bytes = 0;
  for (int piece = 0; piece < 8; ++piece) {
    const auto room = cutter.room();
    ASSERT_TRUE(room);
    std::ranges::fill(*room, std::byte('x'));
    cutter.add(room->size());
    bytes += room->size();
    EXPECT_GE(account->bytes(), bytes);
    EXPECT_LE(account->bytes(), bytes + 64 * KiB);
  }
}

}  // namespace
}  // namespace penstock::files
