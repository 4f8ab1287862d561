#include "interfaces/api/option_table.h"

#include "base/misuse.h"

namespace penstock::api {

Result<size_t> index_of_word(std::span<const char* const> words, const std::string& word,
                             const char* attempted, const std::string& option) {
  std::string all;
  for (size_t i = 0; i < words.size(); ++i) {
    if (word == words[i]) return i;
    all += (i == 0 ? "" : i + 1 < words.size() ? ", " : " or ") + std::string(words[i]);
  }
  return misuse(attempted, option + word, all);
}

}  // namespace penstock::api
