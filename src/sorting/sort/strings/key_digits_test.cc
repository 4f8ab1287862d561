#include "sorting/sort/strings/key_digits.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "sorting/sort/kernels/kernels_tiers.h"

namespace penstock::sorting {
namespace {

// Numbers of all keys, one or two for each.
struct Numbers {
  KeyDigits digits;
  std::vector<uint64_t> first;
  std::vector<uint64_t> more;

  Numbers(const std::vector<std::string>& keys, size_t from, bool descending = false,
          unsigned more_bits = 0, size_t sample = 0)
      : digits(descending, more_bits), first(keys.size()), more(keys.size()) {
    const std::vector<std::string_view> views(keys.begin(), keys.end());
    digits.start(from);
    if (sample > 0) {
      digits.look(std::span(views).first(std::min(sample, views.size())));
      digits.narrow();
    }
    digits.look(views);
    digits.choose();
    digits.number(views, first.data(), more.data());
    if (!digits.has_more()) more.assign(keys.size(), 0);
  }
  std::pair<uint64_t, uint64_t> of(size_t i) const { return {first[i], more[i]}; }
  bool ends(size_t i) const { return digits.keys_end()(digits.has_more() ? more[i] : first[i]); }
};

// Compares with the order of strings: numbers rise with keys, and statements about equal ones hold.
void check(const std::vector<std::string>& keys, size_t from, bool descending, unsigned more_bits,
           size_t sample) {
  const Numbers numbers(keys, from, descending, more_bits, sample);
  for (size_t i = 1; i < keys.size(); ++i) {
    const std::string& a = keys[i - 1];
    const std::string& b = keys[i];
    const auto x = numbers.of(i - 1);
    const auto y = numbers.of(i);
    if (more_bits > 0) {
      ASSERT_EQ(y.second >> (more_bits - 1) >> 1, 0u);
    }
    if (x == y) {
      // Up to zeros behind an end.
      const size_t covered = std::min({numbers.digits.covered(), a.size(), b.size()});
      ASSERT_EQ(a.substr(0, covered), b.substr(0, covered));
      if (numbers.digits.complete() || numbers.ends(i)) {
        ASSERT_EQ(a, b);
      }
    } else {
      ASSERT_EQ(x < y, descending ? a > b : a < b) << "'" << a << "' and '" << b << "'";
    }
  }
}

TEST(KeyDigits, AreInTheOrderOfTheKeys) {
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
    const auto more_bits = static_cast<unsigned>(random.below(2) * random.below(60));
    check(keys, random.below(before.size() + 1), random.below(2) == 0, more_bits, random.below(8));
    if (HasFatalFailure()) return;
  }
}

TEST(KeyDigits, TheLoopsOfThisMachineDoAsThePortableOnes) {
  Random random(5);
  for (int round = 0; round < 200; ++round) {
    std::vector<std::string> keys(1 + random.below(100));
    for (std::string& key : keys) {
      key.resize(random.below(60));
      for (char& letter : key) letter = static_cast<char>(random.below(1 + random.below(256)));
    }
    const std::vector<std::string_view> views(keys.begin(), keys.end());
    const size_t from = random.below(30);
    const size_t window = random.below(SeenBytes::window_max + 1);
    SeenBytes seen;
    SeenBytes expected;
    look_at_keys(views, from, window, seen);
    portable::look_at_keys(views, from, window, expected);
    ASSERT_EQ(std::memcmp(seen.at, expected.at, sizeof(seen.at)), 0);
    ASSERT_EQ(seen.bytes_min, expected.bytes_min);
    ASSERT_EQ(seen.bytes_max, expected.bytes_max);
    ASSERT_EQ(seen.zeros, expected.zeros);
    std::vector<WorthOfBytes> worth(window);
    for (WorthOfBytes& place : worth) {
      for (uint64_t& one : place.of) one = random.next();
    }
    std::vector<uint64_t> numbers(keys.size());
    std::vector<uint64_t> expected_numbers(keys.size());
    number_keys(views, from, window, worth.data(), numbers.data());
    portable::number_keys(views, from, window, worth.data(), expected_numbers.data());
    ASSERT_EQ(numbers, expected_numbers);
  }
}

TEST(KeyDigits, ATimestampFitsInFull) {
  std::vector<std::string> keys;
  Random random(1);
  for (int i = 0; i < 1000; ++i) {
    std::string key = "2026-01-00T00:00:00.000000 host";
    for (size_t at : {9, 12, 15, 18, 20, 21, 22, 23, 24, 25})
      key[at] = static_cast<char>('0' + random.below(10));
    keys.push_back(key);
  }
  EXPECT_TRUE(Numbers(keys, 0).digits.complete());
}

TEST(KeyDigits, SixteenHexadecimalDigitsFit) {
  std::vector<std::string> keys;
  Random random(1);
  for (int i = 0; i < 3000; ++i) {
    keys.emplace_back();
    for (int k = 0; k < 16; ++k) keys.back() += "0123456789abcdef"[random.below(16)];
  }
  keys.emplace_back(16, 'f');
  const Numbers numbers(keys, 0);
  EXPECT_TRUE(numbers.digits.complete());
  EXPECT_EQ(numbers.first.back(), ~uint64_t{0});
}

// Bytes that do not fit one number are in the second.
TEST(KeyDigits, ASecondNumberGoesOn) {
  std::vector<std::string> keys;
  Random random(1);
  for (int i = 0; i < 3000; ++i) {
    keys.emplace_back();
    for (int k = 0; k < 26; ++k) keys.back() += "0123456789abcdef"[random.below(16)];
  }
  EXPECT_EQ(Numbers(keys, 0).digits.covered(), 16u);
  EXPECT_EQ(Numbers(keys, 0, false, 39).digits.covered(), 25u);
  EXPECT_FALSE(Numbers(keys, 0, false, 39).digits.complete());
  EXPECT_TRUE(Numbers(keys, 0, false, 40).digits.complete());
}

// If some keys are longer than the number covers, it still shows that the others end.
TEST(KeyDigits, ANumberShowsThatItsKeysEnd) {
  std::vector<std::string> keys(30, std::string(100, 'x'));
  Random random(1);
  for (std::string& key : keys) {
    for (char& letter : key) letter = static_cast<char>(random.next() | 1);
    if (random.below(2) == 0) key.resize(random.below(6));
  }
  const Numbers numbers(keys, 0);
  EXPECT_FALSE(numbers.digits.complete());
  for (size_t i = 0; i < keys.size(); ++i) EXPECT_EQ(numbers.ends(i), keys[i].size() < 6);
}

TEST(KeyDigits, KeysThatAreAlikeSoFarHaveNothingInTheWindow) {
  std::vector<std::string> keys(2, std::string(40, 'x'));
  keys[0] += 'a';
  keys[1] += 'b';
  const Numbers first(keys, 0);
  EXPECT_TRUE(first.digits.all_alike());
  EXPECT_FALSE(first.digits.complete());
  const Numbers next(keys, first.digits.covered());
  EXPECT_FALSE(next.digits.all_alike());
  EXPECT_TRUE(next.digits.complete());
}

// No number distinguishes "a" from "a\0".
TEST(KeyDigits, KeysThatEndInZerosAreNeverComplete) {
  const std::vector<std::string> keys = {"a", std::string("a\0", 2), "b"};
  const Numbers numbers(keys, 0);
  EXPECT_EQ(numbers.first[0], numbers.first[1]);
  EXPECT_FALSE(numbers.digits.complete());
}

}  // namespace
}  // namespace penstock::sorting
