// Test labels: one-thread

#include "items/json.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/trials.h"
#include "items/items.h"
#include "items/keys/text/text_order.h"

namespace penstock::items {
namespace {

// Returns the value as it is written; "-" if it is missing.
std::string found(std::string_view line, const JsonPath& path) {
  std::vector<JsonValue> values;
  const auto fault = find_members(line, {&path, 1}, values);
  if (fault) return "fault at " + std::to_string(fault->at) + ": " + fault->what;
  return values[0].type == JsonType::missing ? "-" : std::string(values[0].written);
}

std::string text_of(std::string_view written) {
  std::string room;
  const JsonValue value{written.front() == '"' ? JsonType::string : JsonType::number, written};
  return std::string(value.text(room));
}

TEST(Json, FindsMembersByTheirPaths) {
  constexpr std::string_view line =
      R"( {"a" : 1, "b":{"c":[{"a":2},"x"] , "d":{"a":"}"}},"":{"":null},"e\u0061":true} )";
  EXPECT_EQ(found(line, {"a"}), "1");
  EXPECT_EQ(found(line, {"b", "c"}), R"([{"a":2},"x"])");
  EXPECT_EQ(found(line, {"b", "d"}), R"({"a":"}"})");
  EXPECT_EQ(found(line, {"b", "d", "a"}), "\"}\"");
  EXPECT_EQ(found(line, {"b", "a"}), "-");
  EXPECT_EQ(found(line, {"b", "c", "a"}), "-");
  EXPECT_EQ(found(line, {"a", "a"}), "-");
  EXPECT_EQ(found(line, {"", ""}), "null");
  EXPECT_EQ(found(line, {"ea"}), "true");
  EXPECT_EQ(found("", {"a"}), "-");
  EXPECT_EQ(found(" \t\r", {"a"}), "-");
}

TEST(Json, TakesTheLastOfSeveralMembersOfOneName) {
  EXPECT_EQ(found(R"({"a":1,"a":2})", {"a"}), "2");
  EXPECT_EQ(found(R"({"a":{"b":1},"a":{"c":2}})", {"a", "b"}), "-");
  EXPECT_EQ(found(R"({"a":{"b":1},"a":3})", {"a", "b"}), "-");
  EXPECT_EQ(found(R"({"a":3,"\u0061":{"b":1,"b":[]}})", {"a", "b"}), "[]");
}

TEST(Json, UnescapesStrings) {
  EXPECT_EQ(text_of(R"("\"\\\/\b\f\n\r\t\u0041\u00e9\u20ac\ud83d\ude00é")"),
            "\"\\/\b\f\n\r\tA\u00e9\u20ac\U0001f600é");
  EXPECT_EQ(text_of(R"("\u0000")"), std::string(1, '\0'));
  EXPECT_EQ(text_of(R"("\ud83dx\ude00\ud83d\ud83d\ude00")"),
            "\xed\xa0\xbdx\xed\xb8\x80\xed\xa0\xbd\U0001f600");
  EXPECT_EQ(text_of("1e5"), "1e5");
}

TEST(Json, WritesStringsThatItReads) {
  for (uint64_t seed = 0; seed < trials(1000); ++seed) {
    Random random(seed);
    std::string text(random.below(40), '\0');
    for (char& byte : text)
      byte = random.below(3) == 0 ? "\"\\\n\t\x01/u"[random.below(7)]
                                  : static_cast<char>(random.next());
    ASSERT_EQ(text_of(json_string(text)), text);
  }
}

TEST(Json, RefusesWhatIsNoObjectAtItsPlace) {
  const std::vector<std::pair<const char*, size_t>> bad = {{"[]", 0},
                                                           {"1", 0},
                                                           {"\"a\"", 0},
                                                           {" null", 1},
                                                           {"{", 1},
                                                           {"{\"a\"", 4},
                                                           {"{\"a\":", 5},
                                                           {"{\"a\":1", 6},
                                                           {"{\"a\":1,", 7},
                                                           {"{\"a\":1,}", 7},
                                                           {"{a:1}", 1},
                                                           {"{\"a\" 1}", 5},
                                                           {"{\"a\":1]", 6},
                                                           {"{\"a\":[1}", 7},
                                                           {"{\"a\":[1 2]}", 8},
                                                           {"{\"a\":1}x", 7},
                                                           {"{}{}", 2},
                                                           {"{\"a\":tru}", 5},
                                                           {"{\"a\":nullx}", 9},
                                                           {"{\"a\":NaN}", 5},
                                                           {"{\"a\":01}", 6},
                                                           {"{\"a\":-}", 5},
                                                           {"{\"a\":1.}", 5},
                                                           {"{\"a\":.5}", 5},
                                                           {"{\"a\":1e}", 5},
                                                           {"{\"a\":+1}", 5},
                                                           {"{\"a\":'b'}", 5},
                                                           {"{\"a\":\"b}", 5},
                                                           {"{\"a\":\"\t\"}", 6},
                                                           {"{\"a\":\"\\x\"}", 6},
                                                           {"{\"a\":\"\\u12g4\"}", 6},
                                                           {"{\"a\":\"\\u12\"}", 6},
                                                           {"{\"a\":\"\\", 6},
                                                           {"{,}", 1},
                                                           {"{\"a\":,}", 5},
                                                           {"{\"a\":[,]}", 6}};
  for (const auto& [line, at] : bad) {
    std::vector<JsonValue> values;
    const auto fault = find_members(line, {}, values);
    ASSERT_TRUE(fault) << line;
    EXPECT_EQ(fault->at, at) << line << ": " << fault->what;
  }
}

TEST(Json, NestsUpToALimit) {
  const auto nested = [](size_t depth) {
    return "{\"a\":" + std::string(depth - 1, '[') + std::string(depth - 1, ']') + "}";
  };
  EXPECT_NE(found(nested(json_depth_max), {"a"}).front(), 'f');
  EXPECT_EQ(found(nested(json_depth_max + 1), {"a"}).front(), 'f');
}

// Every beginning of an object, and every object with a byte that is changed, either has a fault or is
// an object again; the walk stays within the text.
TEST(Json, SurvivesAnyDamage) {
  const std::string line = R"({"a":[1,-2.5e+3,{"b":"\u00e9\n"}],"c":{"d":null,"ee":[true,false]}})";
  const JsonPath path = {"c", "d"};
  for (size_t bytes = 1; bytes < line.size(); ++bytes)
    EXPECT_EQ(found(std::string(line, 0, bytes), path).front(), 'f');
  for (uint64_t seed = 0; seed < trials(20000); ++seed) {
    Random random(seed);
    std::string damaged = line;
    damaged[random.below(line.size())] = static_cast<char>(random.next());
    const std::string value = found(damaged, path);
    ASSERT_TRUE(value == "null" || value == "-" || value.starts_with("fault at ")) << damaged;
  }
}

Format format_of(const TextOptions& options) {
  Format format = *parse_format("jsonl");
  format.keys = *format.framing().order(options);
  return format;
}

// Values in ascending order; those of one line are equal.
TEST(JsonOrder, IsThatOfTheValues) {
  const std::vector<std::vector<std::string>> groups = {
      {"{}", "", "{\"b\":1}"},
      {"null"},
      {"false"},
      {"true"},
      {"-1e99999999999999999"},
      {"-1e400", "-10e399"},
      {"-9007199254740993", "-9007199254740993.0"},
      {"-9007199254740992"},
      {"-1.5"},
      {"-1e-70"},
      {"0", "-0", "0.0", "0e5", "0e99999999999999999999"},
      {"1e-99999999999999999"},
      {"1e-400", "0.1e-399"},
      {"1e-68"},
      {"1e-67", "0." + std::string(66, '0') + "1"},
      {"1.0000001e-67"},
      {"1e-66", "0." + std::string(65, '0') + "1"},
      {"1e-65"},
      {"0.1", "1e-1", "10E-2"},
      {"0.10000000000000000001"},
      {"1", "1.0", "1e0", "0.1e1"},
      {"9007199254740992"},
      {"9007199254740993", "9007199254740993e0", "90071992547409.93e2"},
      {"123456789012345678901234567890", "1.2345678901234567890123456789e29"},
      {"1e400", "10e+399"},
      {"1e99999999999999999"},
      {"\"\"", " \"\" "},
      {"\"\\u0000\""},
      {"\"A\"", "\"\\u0041\""},
      {"\"AB\""},
      {"\"a\""},
      {"\"\\u00e9\"", "\"é\""},
      {"\"\\uffff\""},
      {"\"\\ud83d\\ude00\"", "\"\U0001f600\""}};
  const ItemOrder ascending(format_of({.keys = {".a"}, .stable = true}));
  const ItemOrder descending(format_of({.keys = {"a:desc"}, .stable = true}));
  std::vector<std::pair<size_t, std::string>> lines;
  for (size_t group = 0; group < groups.size(); ++group) {
    for (const std::string& value : groups[group]) {
      const bool is_line = group == 0;
      lines.emplace_back(group, is_line ? value : "{\"a\":" + value + "}");
      ASSERT_FALSE(fault_of(ascending.format(), lines.back().second)) << value;
    }
  }
  for (const auto& [left_group, left] : lines) {
    for (const auto& [right_group, right] : lines) {
      const int wanted = (left_group > right_group) - (left_group < right_group);
      const int order = ascending.compare(left, right);
      ASSERT_EQ((order > 0) - (order < 0), wanted) << left << " and " << right;
      const int reverse = descending.compare(right, left);
      ASSERT_EQ((reverse > 0) - (reverse < 0), wanted) << left << " and " << right;
    }
  }
}

TEST(JsonOrder, ReadsStringsAsNumbersWithLetters) {
  const ItemOrder order(format_of({.keys = {".a:n"}, .stable = true}));
  EXPECT_EQ(order.compare("{\"a\":\" 1000 x\"}", "{\"a\":1e3}"), 0);
  EXPECT_LT(order.compare("{\"a\":\"9.5\"}", "{\"a\":10}"), 0);
  EXPECT_EQ(order.compare("{\"a\":null}", "{\"a\":\"x\"}"), 0);
  const ItemOrder folded(format_of({.keys = {".a:f"}, .stable = true}));
  EXPECT_EQ(folded.compare("{\"a\":\"x\"}", "{\"a\":\"X\"}"), 0);
  EXPECT_LT(folded.compare("{\"a\":7}", "{\"a\":\"7\"}"), 0);
}

TEST(JsonOrder, ComparesWholeLinesLast) {
  const ItemOrder order(format_of({.keys = {".a", "\"b.c\".d:desc"}}));
  EXPECT_LT(order.compare("{\"a\":1, \"b\":0}", "{\"a\":1,\"b\":0}"), 0);
  EXPECT_LT(order.compare("{\"a\":1,\"b.c\":{\"d\":2}}", "{\"a\":1,\"b.c\":{\"d\":1}}"), 0);
}

TEST(JsonOrder, RefusesKeysThatAreNoValues) {
  const Format format = format_of({.keys = {".a"}});
  for (const auto& [line, at] : {std::pair("{\"a\":[1]}", 5), std::pair("{\"b\":1, \"a\": {}}", 13),
                                 std::pair("{\"a\":1e999999999999999999}", 5)}) {
    const auto fault = fault_of(format, line);
    ASSERT_TRUE(fault) << line;
    EXPECT_EQ(fault->at, static_cast<size_t>(at)) << line;
    EXPECT_NE(fault->hint, nullptr);
  }
  EXPECT_FALSE(fault_of(format, "{\"a\":[1],\"a\":2}"));
}

TEST(JsonOrder, RefusesKeysThatAreNoPaths) {
  const Framing& framing = parse_format("jsonl")->framing();
  for (const char* key : {"", ".", ".a.", "..a", "a b", "a[0]", "\"a", "\"\\x\"", ".a:q", ".a:n:g",
                          ".a,", ".a:desc:asc"}) {
    EXPECT_FALSE(framing.order({.keys = {key}})) << key;
  }
  for (const char* key : {"a", ".a", ".a.b-c.d_1", ".\"a b\"", ".é", ".a:n:desc,.b", "\"\""})
    EXPECT_TRUE(framing.order({.keys = {key}})) << key;
}

}  // namespace
}  // namespace penstock::items
