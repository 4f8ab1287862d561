#include "cli/common/usage_errors.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/did_you_mean.h"
#include "cli/common/other_names.h"

namespace penstock::cli {
namespace {

// The help's names for values by option, the same in all commands.
constexpr std::pair<std::string_view, const char*> value_names[] = {{"output", "FILE"},
                                                                    {"report", "FILE"},
                                                                    {"stats", "FILE"},
                                                                    {"input", "FILE"},
                                                                    {"bounds", "FILE"},
                                                                    {"files0-from", "FILE"},
                                                                    {"random-source", "FILE"},
                                                                    {"temporary-directory", "DIR"},
                                                                    {"on", "DIR"},
                                                                    {"work", "DIR"},
                                                                    {"files", "DIR"},
                                                                    {"traces", "DIR"},
                                                                    {"under", "PATH"},
                                                                    {"buffer-size", "SIZE"},
                                                                    {"window", "SIZE"},
                                                                    {"size", "SIZE"},
                                                                    {"bytes", "SIZE"},
                                                                    {"memory", "SIZE"},
                                                                    {"ring", "SIZE"},
                                                                    {"count", "N"},
                                                                    {"device", "DISK"},
                                                                    {"simulate", "DISK"},
                                                                    {"emulate", "DISK"},
                                                                    {"format", "FORMAT"},
                                                                    {"from", "FORMAT"},
                                                                    {"dtype", "TYPE"},
                                                                    {"key", "KEY"},
                                                                    {"field-separator", "BYTE"},
                                                                    {"requests", "FROM..TO"},
                                                                    {"value", "OFFSET:LENGTH"},
                                                                    {"right-key", "OFFSET:LENGTH"},
                                                                    {"1", "FIELD"},
                                                                    {"2", "FIELD"},
                                                                    {"j", "FIELD"},
                                                                    {"batch-size", "N"},
                                                                    {"compress-program", "PROGRAM"},
                                                                    {"engine", "ENGINE"},
                                                                    {"regexp", "REGEXP"},
                                                                    {"e", "TEXT"},
                                                                    {"dist", "NAME"},
                                                                    {"name", "NAME"},
                                                                    {"by", "HOW"},
                                                                    {"limit", "HOW"},
                                                                    {"pace", "HOW"},
                                                                    {"room", "HOW"},
                                                                    {"run", "COMMAND"},
                                                                    {"a", "FILENUM"},
                                                                    {"v", "FILENUM"}};

// The message about the number `rest` that follows a flag in one word, "-3" of "-n3", or else about
// a number as a word of its own.
std::string value_of_flag(const CLI::App& app, const std::vector<std::string>& words,
                          const std::string& rest) {
  for (const std::string& word : words) {
    if (word.size() <= rest.size() || word[0] != '-' || !word.ends_with(rest.substr(1))) continue;
    const std::string flags = word.substr(0, word.size() - rest.size() + 1);
    if (find_option(app, "-" + flags.substr(flags.size() - 1)) == nullptr) continue;
    const bool has_keys = find_option(app, "-k") != nullptr;
    return fmt::format("{}: -{} takes no value (try: {}{})", word, flags.back(), flags,
                       has_keys ? " -k" + rest.substr(1) : "");
  }
  const CLI::Option* const count = find_option(app, "-n");
  if (count != nullptr && count->get_items_expected_max() > 0 &&
      rest.find_first_not_of("0123456789", 1) == rest.npos)
    return fmt::format("no option {} (try: -n {})", rest, rest.substr(1));
  return fmt::format("no option {} (try: -- in front of a word that begins with -)", rest);
}

}  // namespace

bool is_shown(const CLI::App* command) {
  return !command->get_group().empty();
}

std::string value_of(const CLI::Option& option) {
  const std::string name = option.get_type_name();
  const std::string type = name.substr(0, name.find(':'));  // without the names of checks
  if (type == "TEXT") {
    for (const auto& [named, value] : value_names)
      if (option.check_lname(std::string(named)) || option.check_sname(std::string(named)))
        return value;
  }
  return type == "TEXT" ? "WORD" : type == "UINT" || type == "INT" || type == "FLOAT" ? "N" : type;
}

const CLI::Option* find_option(const CLI::App& app, std::string_view name) {
  for (const CLI::Option* option : app.get_options()) {
    if (name.starts_with("--") ? option->check_lname(std::string(name.substr(2)))
                               : option->check_sname(std::string(name.substr(1))))
      return option;
  }
  return nullptr;
}

std::string detached_unit(const CLI::App& app, const std::vector<std::string>& words) {
  constexpr std::string_view units = " K M G T KB MB GB TB KiB MiB GiB TiB k m g t % ";
  for (size_t i = 0; i + 2 < words.size() && words[i] != "--"; ++i) {
    if (words[i].size() < 2 || words[i][0] != '-') continue;
    const CLI::Option* const option = find_option(app, words[i]);
    if (option == nullptr || value_of(*option) != "SIZE") continue;
    const std::string& number = words[i + 1];
    const std::string& unit = words[i + 2];
    std::error_code ignored;
    if (number.empty() || number.find_first_not_of("0123456789.") != number.npos ||
        !units.contains(" " + unit + " ") || std::filesystem::exists(unit, ignored))
      continue;
    return fmt::format("{} {} {}: cannot read this as a size: it is one word (try: {} {}{})",
                       words[i], number, unit, words[i], number, unit);
  }
  return {};
}

std::string negative_number(const CLI::App& app, const std::vector<std::string>& words) {
  const auto behind = std::ranges::find(words, "--");
  for (const CLI::Option* option :
       app.get_options([](const CLI::Option* one) { return one->get_positional(); })) {
    for (const std::string& word : option->results()) {
      if (word.size() < 2 || word[0] != '-' || word[1] < '0' || word[1] > '9') continue;
      if (std::find(behind, words.end(), word) != words.end()) continue;
      return value_of_flag(app, words, word);
    }
  }
  return {};
}

std::string unreadable_value(const CLI::App& app, const std::string& text) {
  const size_t is = text.find(" = ");
  const size_t begin = text.find(": ");
  if (is == text.npos || begin == text.npos) return text;
  const std::string name = text.substr(begin + 2, is - begin - 2);
  const CLI::Option* const option = app.get_option_no_throw(name);
  const bool is_fraction = option != nullptr && option->get_type_name().starts_with("FLOAT");
  return fmt::format("{} {}: cannot read this value (try: {})", name, text.substr(is + 3),
                     is_fraction ? "a number, such as 0.5" : "a whole number, such as 2");
}

std::string unexpected_word(const CLI::App& app, bool is_program,
                            const std::vector<std::string>& words,
                            const std::vector<std::string>& left) {
  const auto found = std::ranges::find_if(words, [&](const std::string& word) {
    return std::ranges::find(left, word) != left.end() ||
           std::ranges::find(left, word.substr(0, word.find('='))) != left.end();
  });
  const std::string word = found == words.end() ? (left.empty() ? "" : left.front()) : *found;
  std::vector<std::string> names;
  if (word.starts_with("-")) {
    for (const CLI::Option* option : app.get_options()) {
      if (option->get_group().empty()) continue;
      for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    }
    const std::string name = word.substr(0, word.find('='));
    if (name == "--version" && !is_program) return "no option --version (try: penstock --version)";
    for (const auto& [other, ours] : other_options) {
      if (name == other && find_option(app, ours.substr(0, ours.find_first_of(" ="))) != nullptr)
        return fmt::format("no option {} (did you mean {}?)", name, ours);
    }
    const std::string in_command = app.get_name() + " " + name;
    for (const auto& [other, way] : other_ways)
      if (name == other || in_command == other)
        return fmt::format("no option {} (try: {})", name, way);
    if (is_program && !app.get_subcommands(is_shown).empty())
      return fmt::format("no option {} in front of a command (try: penstock sort {} ...)", name,
                         word);
    return fmt::format("no option {}{}", name, did_you_mean(name, names));
  }
  if (!is_program)
    return fmt::format("unexpected argument: {} (try: one file, or one run for each)", word);
  std::error_code ignored;
  for (const auto& [other, ours] : other_commands) {
    if (word != other) continue;
    std::string line(ours);
    const size_t at = line.find("FILE");
    const auto next = found == words.end() ? found : std::next(found);
    if (at != line.npos && next != words.end() && std::filesystem::exists(*next, ignored))
      line.replace(at, 4, *next);
    return fmt::format("no command {} (try: {})", word, line);
  }
  if (std::filesystem::is_regular_file(word, ignored))
    return fmt::format("no command {} (try: penstock sort {})", word, word);
  for (const CLI::App* command : app.get_subcommands(is_shown))
    names.push_back(command->get_name());
  return fmt::format("no command {}{}", word, did_you_mean(word, names));
}

}  // namespace penstock::cli
