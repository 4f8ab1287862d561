// Random options and lines are compared with GNU sort(1), if it is installed.

#include "items/keys/text/text_order.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "base/temporary_folder_fixture.h"
#include "base/trials.h"

namespace penstock::items {
namespace {

namespace fs = std::filesystem;

bool gnu_sort_is_here() {
  return std::system("sort --version 2>/dev/null | grep -q 'GNU coreutils'") == 0;
}

std::string read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

struct Case {
  TextOptions options;
  bool zero = false;  // -z
  std::vector<std::string> lines;

  std::vector<std::string> words() const {
    std::vector<std::string> words;
    for (const std::string& key : options.keys) words.push_back("-k" + key);
    if (!options.letters.empty()) words.push_back("-" + options.letters);
    if (options.separator) words.push_back(fmt::format("-t{}", *options.separator));
    if (options.stable) words.push_back("-s");
    if (options.unique) words.push_back("-u");
    if (zero) words.push_back("-z");
    return words;
  }
  std::string command(const fs::path& input, const fs::path& output) const {
    std::string text = "LC_ALL=C sort";
    for (const std::string& word : words()) text += " '" + word + "'";
    return text + fmt::format(" -o {} {}", output.string(), input.string());
  }
  std::string joined(const std::vector<std::string>& all) const {
    std::string text;
    for (const std::string& line : all) text += line + (zero ? '\0' : '\n');
    return text;
  }
};

std::string sorted_by_us(const Case& c, const TextOrder& order) {
  std::vector<std::string> keys(c.lines.size());
  for (size_t i = 0; i < keys.size(); ++i) order.append(c.lines[i], keys[i]);
  std::vector<size_t> places(keys.size());
  std::iota(places.begin(), places.end(), 0);
  std::ranges::stable_sort(places, [&](size_t a, size_t b) { return keys[a] < keys[b]; });
  std::vector<std::string> lines;
  for (size_t i = 0; i < places.size(); ++i) {
    if (c.options.unique && i > 0 && keys[places[i]] == keys[places[i - 1]]) continue;
    lines.push_back(c.lines[places[i]]);
  }
  return c.joined(lines);
}

class AgainstGnuSort : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!gnu_sort_is_here()) GTEST_SKIP() << "GNU sort is not installed";
  }

  void compare(const Case& c) {
    const auto order = TextOrder::make(c.options);
    std::ofstream(folder_ / "in", std::ios::binary) << c.joined(c.lines);
    const std::string command = c.command(folder_ / "in", folder_ / "out");
    const int code = std::system((command + " 2>/dev/null").c_str());
    ASSERT_EQ(order.has_value(), code == 0)
        << command << (order ? "" : ": " + order.error().message());
    if (!order) return;
    const std::string theirs = read_file(folder_ / "out");
    const std::string ours = sorted_by_us(c, **order);
    if (ours == theirs) return;
    const auto [a, b] = std::ranges::mismatch(ours, theirs);
    const auto at = static_cast<size_t>(a - ours.begin());
    FAIL() << command << "\nat byte " << at
           << "\nours:   " << ::testing::PrintToString(ours.substr(at > 40 ? at - 40 : 0, 120))
           << "\ntheirs: " << ::testing::PrintToString(theirs.substr(at > 40 ? at - 40 : 0, 120));
  }

  const TemporaryFolder folder_;
};

std::string random_word(Random& random) {
  auto digits = [&](uint64_t most) {
    std::string text;
    for (uint64_t n = random.below(most + 1); n > 0; --n)
      text += static_cast<char>('0' + random.below(random.below(2) == 0 ? 2 : 10));
    return text;
  };
  auto pick = [&](std::initializer_list<const char*> all) {
    return std::string(all.begin()[random.below(all.size())]);
  };
  switch (random.below(16)) {
    case 0:
      return "";
    case 1:
      return pick({"-", "", "+", " ", "  -"}) + digits(4);
    case 2:
      return pick({"-", "", "+"}) + digits(5) + "." + digits(5);
    case 3:
      return pick({"-", ""}) + digits(40) + pick({"", ".", ".5", ".000"});
    case 4:
      return pick({"-", ""}) + digits(3) + pick({"", ".1", "."}) +
             pick({"k", "K", "M", "G", "T", "P", "E", "Z", "Y", "Ki", "m", "x", "B"});
    case 5:
      return pick({"jan", "JAN", "Feb", "mArch", "apr", "MAY", "june", "Ju", "aug ", "sep", "oct",
                   "NOVEMBER", "Dec", "de", "xyz"});
    case 6:
      return pick({"1e3", "-1e3", "1E-2",     "0x1p3", "0X1F",   "inf",    "-inf",   "nan",
                   "NaN", "-nan", "infinity", "1e400", "-1e400", "1e-400", "1e5000", "0x",
                   ".5",  "-.5",  "5.",       "+3",    "1e",     "1e+",    "-0",     "0e7"});
    case 7:
      return pick({"a", "b", "foo", "foo", "lib"}) + pick({"-", ".", "~", "", "_"}) + digits(3) +
             pick({".", "-", "~", ""}) + digits(2) +
             pick({"", ".tar.gz", ".so", ".so.1", ".7z", "~", ".a~b", ".", "..c"});
    case 8:
      return pick({".", "..", ".hidden", ".a.b", "~", "~~", ".~", "a", "a0", "a00b", "a0~"});
    case 9:
      return pick({"Abc", "aBC", "abc", "ABD", "a-bc", "a bc", "a\tbc", "a.b", "A_b"});
    case 10: {
      std::string text;
      for (uint64_t n = random.below(6); n > 0; --n) text += static_cast<char>(random.below(256));
      return text;
    }
    case 11:
      return std::string(random.below(30), 'x') + digits(2);
    case 12:
      return pick({"192.168.0.", "10.0.0.", "10.0."}) + digits(3);
    case 13:
      return digits(4) + "-" + digits(2) + "-" + digits(2);
    case 14:
      return digits(2) + "\r";
    default:
      return pick({"alpha", "beta", "gamma", "Alpha", "BETA"});
  }
}

std::string random_line(Random& random, char separator, bool zero) {
  std::string line;
  const uint64_t words = random.below(5);
  for (uint64_t i = 0; i < words; ++i) {
    line += random_word(random);
    if (random.below(4) == 0) line += std::string(random.below(3), random.below(2) ? ' ' : '\t');
    if (i + 1 < words) line += random.below(8) == 0 ? ' ' : separator;
  }
  // No line contains its line end.
  std::erase(line, zero ? '\0' : '\n');
  return line;
}

std::string random_letters(Random& random, bool of_key) {
  std::string letters;
  if (random.below(3) != 0) letters += "nghMVnVgfdi"[random.below(11)];
  if (random.below(3) == 0) letters += 'b';
  if (random.below(4) == 0) letters += 'r';
  if (random.below(5) == 0) letters += "fdi"[random.below(3)];
  if (of_key && random.below(2) == 0) letters.clear();
  return letters;
}

std::string random_key(Random& random) {
  std::string key = std::to_string(1 + random.below(4));
  if (random.below(3) == 0) key += "." + std::to_string(1 + random.below(4));
  key += random_letters(random, true);
  if (random.below(3) != 0) {
    key += "," + std::to_string(1 + random.below(4));
    if (random.below(3) == 0) key += "." + std::to_string(random.below(5));
    if (random.below(3) == 0) key += random_letters(random, true);
  }
  return key;
}

Case random_case(Random& random) {
  Case c;
  c.zero = random.below(6) == 0;
  for (uint64_t keys = random.below(4); keys > 0; --keys)
    c.options.keys.push_back(random_key(random));
  if (random.below(2) == 0) c.options.letters = random_letters(random, false);
  const char separator = ":,; x\t"[random.below(6)];
  if (random.below(2) == 0) c.options.separator = separator;
  c.options.stable = random.below(4) == 0;
  c.options.unique = random.below(5) == 0;
  // GNU sort compares even meaningless bytes of two NaNs, so one NaN is enough.
  bool has_one = false;
  auto has_nan = [](const std::string& line) {
    return std::ranges::search(line, std::string("nan"), {}, ::tolower).begin() != line.end();
  };
  const uint64_t lines = 1 + random.below(random.below(4) == 0 ? 300 : 40);
  for (uint64_t i = 0; i < lines; ++i) {
    const bool again = i > 0 && random.below(5) == 0;
    c.lines.push_back(again ? c.lines[random.below(i)] : random_line(random, separator, c.zero));
    if (has_nan(c.lines.back()) && std::exchange(has_one, true)) c.lines.back().clear();
  }
  return c;
}

TEST_F(AgainstGnuSort, RandomOptionsAndLines) {
  const uint64_t seed = number_from_environment("PENSTOCK_TEST_SEED", 1);
  // Many more go through test/gnu_sort_cases.cc; these run under sanitizers, too.
  const uint64_t cases = trials(400);
  for (uint64_t i = 0; i < cases && !HasFatalFailure(); ++i) {
    Random random(seed * 1'000'003 + i);
    SCOPED_TRACE(i);
    compare(random_case(random));
  }
}

TextKey key_of(const std::string& word) {
  auto order = TextOrder::make({.keys = {word}});
  EXPECT_TRUE(order) << order.error().message();
  return order ? (*order)->keys().at(0) : TextKey{};
}

TEST(TextOrder, BlanksAreSkippedAtTheEndOfAKeyThatSaysSo) {
  const TextKey start = key_of("2.3b,4.5"), end = key_of("2.3,4.5b");
  for (const TextKey& key : {start, end}) {
    EXPECT_EQ(key.start_field, 1u);
    EXPECT_EQ(key.start_character, 2u);
    EXPECT_EQ(key.end_field, 3u);
    EXPECT_EQ(key.end_characters, 5u);
  }
  EXPECT_TRUE(start.skips_blanks_at_start);
  EXPECT_FALSE(start.skips_blanks_at_end);
  EXPECT_FALSE(end.skips_blanks_at_start);
  EXPECT_TRUE(end.skips_blanks_at_end);
}

}  // namespace
}  // namespace penstock::items
