#include "sort/strings/key_bits.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/random.h"

namespace penstock::sorting {
namespace {

void look_at(KeyBits& bits, const std::vector<std::string>& keys, size_t from) {
  bits.start(keys.front(), from);
  for (const std::string& key : keys) bits.look(key);
  bits.choose();
}

// Against the order of strings: numbers rise where keys do, and what is said of equal ones holds.
void check(const std::vector<std::string>& keys, size_t from, bool descending) {
  KeyBits bits(descending), without_instruction(descending, os::CpuTier::portable);
  look_at(bits, keys, from);
  look_at(without_instruction, keys, from);
  for (const std::string& key : keys) ASSERT_EQ(without_instruction.of(key), bits.of(key)) << key;
  for (size_t i = 1; i < keys.size(); ++i) {
    const std::string& a = keys[i - 1];
    const std::string& b = keys[i];
    const uint64_t x = bits.of(a);
    const uint64_t y = bits.of(b);
    if (x == y) {
      // Up to zeros behind an end.
      const size_t covered = std::min({bits.covered(), a.size(), b.size()});
      ASSERT_EQ(a.substr(0, covered), b.substr(0, covered));
      if (bits.complete()) {
        ASSERT_EQ(a, b);
      }
    } else {
      ASSERT_EQ(x < y, descending ? a > b : a < b) << "'" << a << "' and '" << b << "'";
    }
  }
}

TEST(KeyBits, AreInTheOrderOfTheKeys) {
  Random random(7);
  const std::string_view alphabets[] = {
      "0123456789", "ab", {"\0a\xff", 3}, "abcdefghijklmnopqrstuvwxyz./"};
  for (int round = 0; round < 3000; ++round) {
    const std::string_view letters = alphabets[random.below(4)];
    const std::string before(random.below(3) * random.below(30), 'x');
    const uint64_t bytes_max = 1 + random.below(50);
    std::vector<std::string> keys(1 + random.below(30));
    for (std::string& key : keys) {
      key = before;
      const uint64_t bytes = random.below(2) == 0 ? bytes_max : random.below(bytes_max);
      for (uint64_t i = 0; i < bytes; ++i) key += letters[random.below(letters.size())];
      if (random.below(4) == 0) key = keys.front();
    }
    check(keys, random.below(before.size() + 1), random.below(2) == 0);
    if (HasFatalFailure()) return;
  }
}

TEST(KeyBits, ATimestampIsToldInFull) {
  std::vector<std::string> keys;
  Random random(1);
  for (int i = 0; i < 1000; ++i) {
    std::string key = "2026-01-00T00:00:00.000000 host";
    for (size_t at : {9, 12, 15, 18, 20, 21, 22, 23, 24, 25})
      key[at] = static_cast<char>('0' + random.below(10));
    keys.push_back(key);
  }
  KeyBits bits(false);
  look_at(bits, keys, 0);
  EXPECT_TRUE(bits.complete());
  EXPECT_EQ(bits.first_difference(), 9u);
}

TEST(KeyBits, KeysThatAreAlikeSoFarHaveNothingInTheWindow) {
  std::vector<std::string> keys(2, std::string(40, 'x'));
  keys[0] += 'a';
  keys[1] += 'b';
  KeyBits bits(false);
  look_at(bits, keys, 0);
  EXPECT_TRUE(bits.all_alike());
  EXPECT_FALSE(bits.complete());
  look_at(bits, keys, bits.covered());
  EXPECT_FALSE(bits.all_alike());
  EXPECT_EQ(bits.first_difference(), 40u);
  EXPECT_TRUE(bits.complete());
}

// No number tells "a" from "a\0".
TEST(KeyBits, KeysThatEndInZerosAreNeverComplete) {
  const std::vector<std::string> keys = {"a", std::string("a\0", 2), "b"};
  KeyBits bits(false);
  look_at(bits, keys, 0);
  EXPECT_EQ(bits.of(keys[0]), bits.of(keys[1]));
  EXPECT_FALSE(bits.complete());
}

}  // namespace
}  // namespace penstock::sorting
