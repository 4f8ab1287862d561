#include "files/ops/join/field_list.h"

#include <charconv>

#include "base/misuse.h"
#include "items/rows.h"

namespace penstock::files {
namespace {

constexpr std::string_view digits = "0123456789";
constexpr std::string_view separators = ", \t";

// Splits a list at these separators. A word, or its part after the point, may be quoted to contain
// them, as in CSV. Returns empty if a quote is not closed or closed too early.
std::optional<std::vector<std::string>> words_of(std::string_view list) {
  std::vector<std::string> words;
  for (size_t at = 0; at < list.size(); ++at) {
    std::string& word = words.emplace_back();
    bool closed = false;
    for (; at < list.size() && separators.find(list[at]) == separators.npos; ++at) {
      if (closed) return {};
      const bool is_name = word.ends_with('.') && word.find_first_not_of(digits) + 1 == word.size();
      if (list[at] != items::quote || !(word.empty() || is_name)) {
        word += list[at];
        continue;
      }
      for (++at;; ++at) {
        if (at == list.size()) return {};
        if (list[at] == items::quote && !list.substr(at + 1).starts_with(items::quote)) break;
        at += list[at] == items::quote;
        word += list[at];
      }
      closed = true;
    }
  }
  return words;
}

// Reads "1.name".
std::optional<ListedField> listed_field(std::string_view word, size_t sides) {
  if (word == "0") return ListedField{};
  size_t side = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), side);
  const std::string_view name = word.substr(static_cast<size_t>(end - word.data()));
  if (error != std::errc() || word[0] == '0' || side > sides) return {};
  if (name.size() < 2 || name[0] != '.') return {};
  return ListedField{side - 1, std::string(name.substr(1))};
}

}  // namespace

std::optional<std::vector<ListedField>> fields_of_list(std::string_view list, size_t sides) {
  const auto words = words_of(list);
  if (!words || words->empty()) return {};
  std::vector<ListedField> fields;
  for (const std::string& word : *words) {
    auto field = listed_field(word, sides);
    if (!field) return {};
    fields.push_back(std::move(*field));
  }
  return fields;
}

bool is_field_list(std::string_view word, size_t sides) {
  return word == "auto" || fields_of_list(word, sides).has_value();
}

bool looks_like_field_list(std::string_view word) {
  if (word.starts_with('/') || word.starts_with("./") || word.starts_with("../")) return false;
  const bool begins_with_digit = !word.empty() && word[0] >= '0' && word[0] <= '9';
  return word.contains(',') || word.starts_with(items::quote) ||
         (begins_with_digit && (word.size() == 1 || word[1] == '.' || word[1] == ' ' ||
                                word.find_first_not_of(digits) == word.npos));
}

std::unexpected<Error> no_field_list(const std::string& word) {
  return misuse("read this list of fields", "-o " + word,
                "0, 1.2, 2.name or 2.\"a, name\", with commas between them; for a file --output "
                "FILE, or ./NAME");
}

}  // namespace penstock::files
