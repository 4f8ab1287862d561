#include "base/did_you_mean.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "base/shell_word.h"

namespace penstock {
namespace {

bool is_same_letter(char a, char b) {
  const char low = static_cast<char>(a | 0x20);
  return a == b || (low == (b | 0x20) && 'a' <= low && low <= 'z');
}

// The edit distance (Damerau-Levenshtein): insertions, deletions, substitutions and swaps of
// neighbors. Capital letters are small ones.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<size_t>> d(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) d[i][0] = i;
  for (size_t j = 0; j <= b.size(); ++j) d[0][j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    for (size_t j = 1; j <= b.size(); ++j) {
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1,
                          d[i - 1][j - 1] + (is_same_letter(a[i - 1], b[j - 1]) ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  }
  return d[a.size()][b.size()];
}

}  // namespace

std::string_view nearest_name(std::string_view word, std::span<const std::string> names) {
  std::string_view nearest;
  size_t least = 1 + word.size() / 3;  // one more than the letters that may differ
  for (const std::string& name : names) {
    const size_t differ = edit_distance(word, name);
    if (differ < least || (differ == least && nearest.empty() && name.starts_with(word))) {
      least = differ;
      nearest = name;
    }
  }
  return nearest;
}

std::string did_you_mean(std::string_view word, std::span<const std::string> names) {
  const std::string_view nearest = nearest_name(word, names);
  return nearest.empty() ? std::string() : " (did you mean " + typed_word(nearest) + "?)";
}

}  // namespace penstock
