// Test labels: one-thread
//
// One suite for every framing, beside a model that has made the items itself.

#include "items/framing/framing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/trials.h"
#include "items/checker.h"
#include "items/items.h"
#include "penstock/files.h"

namespace penstock::items {
namespace {

// An item as its maker knows it.
struct Made {
  std::string item;  // includes its line end
  std::string key;
};

struct Kind {
  const char* name;
  Format format;
  std::function<Made(Random&)> make;
  std::string bad_item;  // breaks the rules; empty if there are none
};

std::string random_bytes(Random& random, uint64_t bytes_max, std::string_view letters = {}) {
  std::string text(random.below(bytes_max + 1), '\0');
  for (char& byte : text) {
    byte =
        letters.empty() ? static_cast<char>(random.next()) : letters[random.below(letters.size())];
  }
  return text;
}

Kind fixed_kind(const char* name, const Format& format) {
  return {name, format, [format](Random& random) -> Made {
            std::string item(format.record_bytes, '\0');
            for (char& byte : item) byte = static_cast<char>(random.next());
            return {item, item.substr(format.key_offset, format.key_bytes)};
          }};
}

Kind line_kind(const char* name, char line_end) {
  Format format = *parse_format("lines");
  format.line_end = line_end;
  return {name, format, [line_end](Random& random) -> Made {
            std::string key = random_bytes(random, 40);
            std::ranges::replace(key, line_end, '"');
            return {key + line_end, key};
          }};
}

Kind csv_kind(const char* name, char separator) {
  Format format = *parse_format("lines");
  format.csv = separator;
  return {name, format,
          [separator](Random& random) -> Made {
            std::string key;
            for (uint64_t field = random.below(4);; --field) {
              std::string quoted;
              for (const char c : random_bytes(random, 6, "ab\n\r,;\""))
                quoted += c == '"' ? "\"\"" : std::string(1, c);
              key += random.below(2) == 0 ? '"' + quoted + '"' : random_bytes(random, 6, "xyz ");
              if (field == 0) break;
              key += separator;
            }
            if (random.below(4) == 0) key += '\r';
            return {key + '\n', key};
          },
          "a\"b\n"};
}

// A dialect without escapes and with two columns.
Kind quotes_are_text_kind() {
  Format format = *parse_format("lines");
  format.csv = Dialect('\t');
  format.csv->quote = {};
  format.row_fields = 2;
  format.rows_fit_header = true;
  return {"quotes_are_text", format,
          [](Random& random) -> Made {
            const std::string key =
                random_bytes(random, 6, "ab\",") + '\t' + random_bytes(random, 6, "ab\",");
            return {key + '\n', key};
          },
          "a\n"};
}

Kind dialect_kind(const char* name, std::optional<char> quote, std::optional<char> escape,
                  bool is_lenient, std::string bad_item) {
  Dialect dialect;
  dialect.quote = quote;
  dialect.escape = escape;
  dialect.is_lenient = is_lenient;
  Format format = *parse_format("lines");
  format.csv = dialect;
  return {name, format,
          [dialect](Random& random) -> Made {
            std::string key;
            for (uint64_t field = random.below(4);; --field) {
              const bool quoted = dialect.quote && random.below(2) == 0;
              if (quoted) key += *dialect.quote;
              for (const char c : random_bytes(random, 6, "ab\n,'\"\\")) {
                const bool is_special = c == '\n' || c == ',' || c == dialect.quote;
                if (c == dialect.escape || (is_special && dialect.escape && random.below(2) == 0))
                  key += *dialect.escape;
                else if (is_special && !quoted)
                  continue;
                else if (c == dialect.quote)
                  key += c;
                key += c;
              }
              if (quoted) key += *dialect.quote;
              if (quoted && dialect.is_lenient) key += random_bytes(random, 3, "xy");
              if (!quoted && dialect.is_lenient) key += "x" + random_bytes(random, 3, "x'\"");
              if (field == 0) break;
              key += ',';
            }
            return {key + '\n', key};
          },
          std::move(bad_item)};
}

Kind json_kind() {
  return {"jsonl", *parse_format("jsonl"),
          [](Random& random) -> Made {
            std::string key = random_bytes(random, 2, " \t");
            if (random.below(8) != 0) {
              key += "{\"a\":" + std::to_string(random.next());
              if (random.below(2) == 0)
                key += ",\"" + random_bytes(random, 9, "xyz, {}[]:") + "\":[]";
              key += "}" + random_bytes(random, 2, " \r");
            }
            return {key + '\n', key};
          },
          "{\"a\":tru}\n"};
}

Kind row_kind() {
  return {"rows", *parse_format("rows"),
          [](Random& random) -> Made {
            const std::string key = random_bytes(random, 12);
            std::string item = std::string(RowHead::bytes, '\0') + key + random_bytes(random, 30);
            RowHead{static_cast<uint32_t>(item.size()), static_cast<uint32_t>(key.size())}.store(
                item.data());
            return {item, key};
          },
          std::string("\x08\0\0\0\x01\0\0\0", 8)};
}

// A new framing is one line here.
const std::vector<Kind> kinds = {fixed_kind("u32", *parse_format("u32")),
                                 fixed_kind("f64", *parse_format("f64")),
                                 fixed_kind("kv64", *parse_format("kv64")),
                                 fixed_kind("record", *parse_format("record", 24, "4:9")),
                                 line_kind("lines", '\n'),
                                 line_kind("zero_terminated", '\0'),
                                 csv_kind("csv", ','),
                                 csv_kind("semicolons", ';'),
                                 quotes_are_text_kind(),
                                 dialect_kind("apostrophes", '\'', {}, false, "a'b\n"),
                                 dialect_kind("escapes", '"', '\\', false, "\"a\"b\n"),
                                 dialect_kind("escapes_alone", {}, '\\', false, "a\\\r\n"),
                                 dialect_kind("lenient", '"', {}, true, "a,\"b\n"),
                                 dialect_kind("lenient_escapes", '\'', '\\', true, "'a\n"),
                                 json_kind(),
                                 row_kind()};

const std::byte* bytes_of(std::string_view text) {
  return reinterpret_cast<const std::byte*>(text.data());
}

class Framings : public testing::TestWithParam<Kind> {
 protected:
  const Format& format() const { return GetParam().format; }
  const Framing& framing() const { return format().framing(); }
  std::vector<Made> make(Random& random, size_t items_min = 1) const {
    std::vector<Made> made(items_min + random.below(20));
    for (Made& each : made) each = GetParam().make(random);
    return made;
  }
  static std::string join(const std::vector<Made>& made) {
    std::string data;
    for (const Made& each : made) data += each.item;
    return data;
  }
  // The last item of a file may lack its line end.
  bool can_lack_end(const Made& made) const {
    return framing().has_line_ends && made.item.size() > 1;
  }
};

TEST_P(Framings, FindTheEndOfAnItemAtEveryPrefix) {
  for (uint64_t seed = 0; seed < trials(200); ++seed) {
    Random random(seed);
    const std::vector<Made> made = make(random);
    const std::string data = join(made);
    size_t begin = 0;
    for (const Made& each : made) {
      const std::byte* const at = bytes_of(data) + begin;
      const size_t bytes = each.item.size();
      for (size_t cut = 0; begin + cut <= data.size() && cut <= bytes + 3; ++cut)
        ASSERT_EQ(item_bytes_at(format(), at, at + cut), cut < bytes ? 0 : bytes) << cut;
      bool quoted = false;
      for (size_t cut = 1; cut < bytes; ++cut) {
        quoted ^= each.item[cut - 1] == format().counted_quote();
        const std::string_view begun = std::string_view(each.item).substr(0, cut);
        ASSERT_EQ(
            framing().item_bytes(format(), at + cut, bytes_of(data) + data.size(), begun, quoted),
            bytes - cut);
      }
      begin += bytes;
    }
  }
}

TEST_P(Framings, FindManyEndsAtOnce) {
  for (uint64_t seed = 0; seed < trials(400); ++seed) {
    Random random(seed);
    const std::vector<Made> made = make(random);
    std::string data = join(made);
    if (can_lack_end(made.back())) data.pop_back();
    std::vector<size_t> expected;
    size_t end = 0;
    for (const Made& each : made) expected.push_back(end += each.item.size());
    if (end > data.size()) expected.pop_back();
    std::vector<size_t> ends(1 + random.below(25));
    expected.resize(std::min(expected.size(), ends.size()));
    ends.resize(find_item_ends(format(), bytes_of(data), bytes_of(data) + data.size(), ends.data(),
                               ends.size()));
    ASSERT_EQ(ends, expected);
  }
}

TEST_P(Framings, FindTheFirstItemOfAPiece) {
  for (uint64_t seed = 0; seed < trials(400); ++seed) {
    Random random(seed);
    const std::string data = join(make(random, 20));
    const size_t from = 1 + random.below(data.size() - 1);
    const std::byte* const at = bytes_of(data) + from;
    const std::byte* const end = bytes_of(data) + data.size();
    const std::byte* const found = framing().first_item(format(), at, end, from);
    ASSERT_TRUE(found >= at && found <= end);
    if (!format().fixed() && !framing().is_by_line()) continue;  // a guess
    if (format().fixed()) {
      const size_t bytes = format().record_bytes;
      ASSERT_EQ(static_cast<size_t>(found - bytes_of(data)), (from + bytes - 1) / bytes * bytes);
    } else {
      ASSERT_EQ(static_cast<size_t>(found - bytes_of(data)),
                std::min(data.find(format().line_end, from), data.size() - 1) + 1);
    }
  }
}

TEST_P(Framings, KnowKeysAndEnds) {
  for (uint64_t seed = 0; seed < trials(400); ++seed) {
    Random random(seed);
    const Made made = GetParam().make(random);
    EXPECT_EQ(key_of(format(), made.item), made.key);
    EXPECT_FALSE(lacks_line_end(format(), made.item));
    const std::string_view without = without_line_end(format(), made.item);
    EXPECT_EQ(without.size() + (framing().has_line_ends ? 1 : 0), made.item.size());
    if (!can_lack_end(made) || without.ends_with(format().line_end)) continue;
    EXPECT_TRUE(lacks_line_end(format(), without));
    EXPECT_EQ(key_of(format(), without), made.key);
  }
}

TEST_P(Framings, FindFaultsInItemsThatHaveOne) {
  EXPECT_EQ(format().has_rules(), !GetParam().bad_item.empty());
  if (format().has_rules()) {
    EXPECT_TRUE(fault_of(format(), GetParam().bad_item));
  }
  EXPECT_FALSE(bad_item(format(), "row 1", {}, 0).error().hint.empty());
  for (uint64_t seed = 0; seed < trials(400); ++seed) {
    Random random(seed);
    const Made made = GetParam().make(random);
    ASSERT_FALSE(fault_of(format(), made.item)) << testing::PrintToString(made.item);
    ASSERT_FALSE(fault_of(format(), without_line_end(format(), made.item)));
  }
}

TEST_P(Framings, PrintKeysAndPlaces) {
  const std::string place = framing().noun + std::string(" 5");
  const std::string of_several_lines = framing().spans_lines ? place + " (line 7)" : place;
  EXPECT_EQ((Place{.line = 5, .row = 5}.text(format())), place);
  EXPECT_EQ((Place{.line = 7, .row = 5}.text(format())), of_several_lines);
  const ItemOrder order(format());
  for (uint64_t seed = 0; seed < trials(400); ++seed) {
    Random random(seed);
    const Made made = GetParam().make(random);
    const std::string printed = printable_key(format(), made.item);
    EXPECT_EQ(printed, printable_key(format(), order.item_key(made.item)));
    EXPECT_TRUE(std::ranges::all_of(printed, [](char c) { return c != '\n' && c != '\0'; }));
    const uint64_t lines =
        framing().spans_lines ? static_cast<uint64_t>(std::ranges::count(made.item, '\n')) : 1;
    EXPECT_EQ(lines_of_item(format(), made.item), lines);
  }
}

TEST_P(Framings, LeaveTheHeadToItsFile) {
  EXPECT_EQ(format().has_head(), framing().check_text != nullptr);
  if (!framing().has_line_ends) return;
  Format headed = format();
  headed.header_lines = 2;
  EXPECT_TRUE(headed.has_head());
  for (uint64_t seed = 0; seed < trials(100); ++seed) {
    Random random(seed);
    const std::vector<Made> made = make(random, 3);
    const std::string mark =
        framing().check_text != nullptr && random.below(2) == 0 ? "\xef\xbb\xbf" : "";
    const std::string data = mark + join(made);
    const size_t head = mark.size() + made[0].item.size() + made[1].item.size();
    EXPECT_EQ(mark_bytes(headed, data), mark.size());
    for (size_t bytes = 0; bytes < data.size(); ++bytes) {
      const auto found = head_bytes(headed, std::string_view(data).substr(0, bytes), false);
      ASSERT_TRUE(found) << found.error().message();
      ASSERT_EQ(*found, bytes < head ? std::nullopt : std::optional(head)) << bytes;
    }
    const std::string header = data.substr(0, head);
    EXPECT_TRUE(with_header(headed, header));
    EXPECT_FALSE(header_difference(headed, header, header, "first"));
  }
}

TEST_P(Framings, AreCheckedInAnyPieces) {
  for (uint64_t seed = 0; seed < trials(200); ++seed) {
    Random random(seed);
    const std::vector<Made> made = make(random);
    std::string data = join(made);
    if (can_lack_end(made.back()) && random.below(2) == 0) data.pop_back();
    Checker checker({.format = format()});
    for (std::string_view rest = data; !rest.empty();) {
      const size_t bytes = std::min<size_t>(rest.size(), 1 + random.below(1 + seed % 50));
      checker.add({bytes_of(rest), bytes});
      rest.remove_prefix(bytes);
    }
    const auto result = checker.finish();
    ASSERT_TRUE(result) << result.error().message();
    EXPECT_EQ(result->count, made.size());
    EXPECT_EQ(result->first, printable_key(format(), made.front().item));
    EXPECT_EQ(result->last, printable_key(format(), made.back().item));
  }
}

INSTANTIATE_TEST_SUITE_P(All, Framings, testing::ValuesIn(kinds),
                         [](const auto& each) { return each.param.name; });

}  // namespace
}  // namespace penstock::items
