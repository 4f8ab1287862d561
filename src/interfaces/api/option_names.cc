#include "interfaces/api/option_names.h"

#include <algorithm>
#include <iterator>

namespace penstock::api {
namespace {

// Other programs in hints, whose options stay.
constexpr std::string_view programs[] = {"7z",     "cat",      "gzip",  "iconv", "jq",
                                         "lz4",    "penstock", "rm",    "sed",   "tr",
                                         "ulimit", "unrar",    "unzip", "xz"};
// Words after an option without a value.
constexpr std::string_view no_values[] = {"allows", "alone", "always", "and",    "if",
                                          "in",     "or",    "with",   "without"};
// Words that no row of the table has.
constexpr std::pair<std::string_view, Member> other_words[] = {
    {"--tsv", {"separator", "\\t"}},
    {"--jsonl", {"format", "jsonl"}},
    {"--sort", {"letters", "", true}},
    {"--left", {"left_alone", "true"}},
    {"--right", {"right_alone", "true"}},
    {"--full", {"left_alone=true right_alone", "true"}},
    {"--semi", {"first_only", "true"}},
    {"--anti", {"first_only=true pairs", "false"}},
    {"-a 1", {"left_alone", "true"}},
    {"-a 2", {"right_alone", "true"}},
    {"-v", {"pairs", "false"}}};
// Functions of columns in the results of groups.
constexpr std::string_view functions[] = {"--sum",      "--min",           "--max",    "--mean",
                                          "--first",    "--last",          "--stddev", "--median",
                                          "--quantile", "--count-distinct"};

bool is_among(std::string_view word, const auto& words) {
  return std::ranges::find(words, word) != std::end(words);
}

// Returns the length of the value at the beginning of a text: a text in quotes, or a word.
size_t value_bytes(std::string_view text) {
  if (text.starts_with('\'')) {
    const size_t end = text.find('\'', 1);
    if (end != text.npos) return end + 1;
  }
  size_t end = std::min(text.find_first_of(" ,;)"), text.size());
  while (end > 0 && text[end - 1] == '.') --end;
  return end;
}

// The words of an option and its value at the beginning of a text, and what replaces them. Empty:
// there is none.
struct Replaced {
  size_t bytes = 0;
  std::string member;
};

Replaced replaced(std::string_view text, FindMember find) {
  constexpr std::string_view letters =
      "-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  constexpr std::string_view letters_of_gnu_sort = "bdfghiMnRrV";
  size_t end = std::min(text.find_first_not_of(letters), text.size());
  const std::string_view word = text.substr(0, end);
  if (word.size() < 2 || (end < text.size() && !std::string_view(" ,;:)=").contains(text[end])))
    return {};
  const bool has_equals = end < text.size() && text[end] == '=';
  std::optional<Member> member = find(word);
  const bool is_function = is_among(word, functions) && (!member || has_equals);
  if (is_function) {
    const size_t value = end < text.size() ? value_bytes(text.substr(end + 1)) : 0;
    if (value == 0) return {};
    return {end + 1 + value, "results=" + std::string(word.substr(2)) + "=" +
                                 std::string(text.substr(end + 1, value))};
  }
  for (const auto& [other, set] : other_words) {
    if (member || !(other == word || (other.contains(' ') && text.starts_with(other)))) continue;
    member = set;
    end = other.size();
  }
  if (!member && word[1] != '-' && word.find_first_not_of(letters_of_gnu_sort, 1) == word.npos)
    return {end, "letters=" + std::string(word.substr(1))};
  if (!member) return {};
  const std::string name(member->name);
  if (end < text.size() && (has_equals || (member->takes_next_word && text[end] == ' '))) {
    const std::string_view rest = text.substr(end + 1);
    const size_t bytes = value_bytes(rest);
    const std::string value(rest.substr(0, bytes));
    if (bytes > 0 && (has_equals || (value.front() != '-' && !is_among(value, no_values))))
      return {end + 1 + bytes, name + "=" + (word == "--sort" ? ":" : "") + value};
  }
  return {end, member->value.empty() ? name : name + "=" + std::string(member->value)};
}

}  // namespace

std::string with_members(std::string_view text, FindMember find) {
  std::string made;
  bool is_of_other_program = false;
  for (size_t at = 0; at < text.size();) {
    const bool begins_word = at == 0 || std::string_view(" (").contains(text[at - 1]);
    const std::string_view rest = text.substr(at);
    size_t bytes = 1;
    if (begins_word && rest.front() == '\'') {
      bytes = value_bytes(rest);
    } else if (begins_word) {
      const size_t word = std::min(rest.find_first_of(" ,;|)"), rest.size());
      is_of_other_program |= is_among(rest.substr(0, word), programs);
      if (rest.front() == '-' && !is_of_other_program) {
        const Replaced option = replaced(rest, find);
        made += option.member;
        at += option.bytes;
        if (option.bytes > 0) continue;
      }
    }
    bytes = std::max<size_t>(bytes, 1);
    if (std::string_view(",;|)").contains(rest.front())) is_of_other_program = false;
    made += rest.substr(0, bytes);
    at += bytes;
  }
  return made;
}

Error with_members(Error error, FindMember find) {
  // Errors of data hold data.
  if (error.code != ErrorCode::corrupt && error.code != ErrorCode::unsorted)
    error.attempted = with_members(error.attempted, find);
  if (error.subject.starts_with('-')) error.subject = with_members(error.subject, find);
  error.hint = with_members(error.hint, find);
  return error;
}

}  // namespace penstock::api
