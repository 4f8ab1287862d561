// Rows beside a reader of RFC 4180 that goes byte by byte.

#include "record/rows.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/random.h"
#include "base/trials.h"

namespace penstock::record {
namespace {

// All rows of a text, each with its fields; nothing where one breaks the rules.
struct Model {
  std::vector<std::vector<std::string>> rows;
  std::vector<size_t> ends;
  bool fine = true;

  explicit Model(std::string_view text) {
    enum { start, plain, quoted, closed } state = start;
    std::vector<std::string> row(1);
    auto end_row = [&](size_t at) {
      // What is in front of the line end, and not in quotes.
      if (state == plain && row.back().ends_with('\r')) row.back().pop_back();
      rows.push_back(std::exchange(row, std::vector<std::string>(1)));
      ends.push_back(at);
      state = start;
    };
    for (size_t at = 0; at < text.size(); ++at) {
      const char c = text[at];
      if (state == quoted) {
        if (c == '"') {
          state = closed;
        } else {
          row.back() += c;
        }
      } else if (state == closed && c == '"') {
        row.back() += c;
        state = quoted;
      } else if (c == '\n') {
        end_row(at + 1);
      } else if (c == ',') {
        row.emplace_back();
        state = start;
      } else if (state == closed) {
        // A carriage return at the end of a row belongs to its end.
        fine = fine && c == '\r' && at + 1 < text.size() && text[at + 1] == '\n';
        if (c == '\r' && fine) continue;
      } else if (state == start && c == '"') {
        state = quoted;
      } else {
        fine = fine && c != '"';
        row.back() += c;
        state = plain;
      }
    }
    if (state == quoted) fine = false;
  }
};

std::string random_text(Random& random, bool well_formed) {
  std::string text;
  for (uint64_t row = 1 + random.below(6); row > 0; --row) {
    for (uint64_t field = 1 + random.below(4); field > 0; --field) {
      std::string value;
      for (uint64_t n = random.below(5); n > 0; --n) value += "ab,\n\r\"x"[random.below(7)];
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
    const Model model(text);
    SCOPED_TRACE(testing::PrintToString(text));
    const auto* const begin = reinterpret_cast<const std::byte*>(text.data());
    const auto* const end = begin + text.size();
    bool fine = true;
    size_t at = 0;
    for (size_t row = 0; at < text.size(); ++row) {
      const size_t bytes = row_bytes_at('\n', begin + at, end);
      const std::string_view whole =
          bytes == 0 ? std::string_view(text).substr(at) : std::string_view(text).substr(at, bytes);
      if (fault_of_row(whole, ',', '\n')) {
        fine = false;
        break;
      }
      ASSERT_GT(bytes, 0u);
      at += bytes;
      if (!model.fine) continue;
      ASSERT_LT(row, model.rows.size());
      ASSERT_EQ(at, model.ends[row]);
      const std::string_view line = whole.substr(0, bytes - 1);
      EXPECT_EQ(fields_of_row(line, ','), model.rows[row]);
      std::string room;
      for (size_t column = 0; column < model.rows[row].size() + 2; ++column) {
        EXPECT_EQ(field_of_row(line, ',', column, room),
                  column < model.rows[row].size() ? model.rows[row][column] : "");
      }
    }
    ASSERT_EQ(fine, model.fine);
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
}  // namespace penstock::record
