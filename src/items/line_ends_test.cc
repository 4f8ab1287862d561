#include "items/line_ends.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "base/random.h"

namespace penstock::items {
namespace {

TEST(LineEnds, AreThoseThatAPlainLoopFinds) {
  Random random(3);
  for (int round = 0; round < 2000; ++round) {
    std::string text(random.below(400), 'x');
    const uint64_t one_in = 1 + random.below(100);
    for (char& c : text) c = random.below(one_in) == 0 ? (random.below(3) == 0 ? '"' : '\n') : 'x';
    const std::optional<char> quote = random.below(2) == 0 ? std::optional('"') : std::nullopt;
    std::vector<size_t> plain;
    bool is_quoted = false;
    for (size_t i = 0; i < text.size(); ++i) {
      is_quoted ^= text[i] == quote;
      if (text[i] == '\n' && !is_quoted) plain.push_back(i + 1);
    }
    std::vector<size_t> found(random.below(450));
    const auto* begin = reinterpret_cast<const std::byte*>(text.data());
    const size_t count =
        find_line_ends(begin, begin + text.size(), '\n', quote, found.data(), found.size());
    ASSERT_EQ(count, std::min(plain.size(), found.size()));
    plain.resize(count);
    found.resize(count);
    ASSERT_EQ(found, plain);
  }
}

}  // namespace
}  // namespace penstock::items
