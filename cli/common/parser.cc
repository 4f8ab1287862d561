#include "cli/common/parser.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <string_view>
#include <type_traits>

#include "base/misuse.h"
#include "base/printable.h"
#include "cli/common/command.h"
#include "cli/common/manual.h"
#include "cli/common/print.h"

namespace penstock::cli {
namespace {

constexpr const char* choices_name = "choices";

const CLI::Validator* choices_of(const CLI::Option& option) {
  try {
    return const_cast<CLI::Option&>(option).get_validator(choices_name);
  } catch (const CLI::OptionNotFound&) {
    return nullptr;
  }
}

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
                                                                    {"a", "FILENUM"},
                                                                    {"v", "FILENUM"}};

bool is_shown(const CLI::App* command) {
  return !command->get_group().empty();
}

// The help's name for the option's value.
std::string value_of(const CLI::Option& option) {
  const std::string name = option.get_type_name();
  const std::string type = name.substr(0, name.find(':'));
  if (type == "TEXT") {
    for (const auto& [named, value] : value_names)
      if (option.check_lname(std::string(named)) || option.check_sname(std::string(named)))
        return value;
  }
  return type == "TEXT" ? "WORD" : type == "UINT" || type == "INT" || type == "FLOAT" ? "N" : type;
}

// The edit distance (Damerau-Levenshtein): insertions, deletions, substitutions and swaps of
// neighbors.
size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<size_t>> d(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) d[i][0] = i;
  for (size_t j = 0; j <= b.size(); ++j) d[0][j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    for (size_t j = 1; j <= b.size(); ++j) {
      d[i][j] =
          std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  }
  return d[a.size()][b.size()];
}

// " (did you mean --output?)"; empty if no name is near.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& names) {
  std::string_view nearest;
  size_t least = 1 + word.size() / 3;  // one more than the letters that may differ
  for (const std::string& name : names) {
    const size_t differ = distance(word, name);
    if (differ < least || (differ == least && nearest.empty() && name.starts_with(word))) {
      least = differ;
      nearest = name;
    }
  }
  return nearest.empty() ? std::string() : fmt::format(" (did you mean {}?)", nearest);
}

const CLI::Option* find_option(const CLI::App& app, std::string_view name) {
  for (const CLI::Option* option : app.get_options()) {
    if (name.starts_with("--") ? option->check_lname(std::string(name.substr(2)))
                               : option->check_sname(std::string(name.substr(1))))
      return option;
  }
  return nullptr;
}

// Whether the next word is the value of this one, even if it looks like an option.
bool takes_next_word(const CLI::App& app, const std::string& word) {
  if (word.size() < 2 || word.front() != '-') return false;
  const bool is_long = word.starts_with("--");
  // Several flags in one word: the first letter that takes a value takes the rest of the word.
  for (size_t at = 1; at < word.size(); ++at) {
    const CLI::Option* option =
        find_option(app, is_long ? std::string_view(word) : "-" + word.substr(at, 1));
    if (option == nullptr) return false;
    if (option->get_items_expected_min() > 0) return is_long || at + 1 == word.size();
    if (is_long) return false;
  }
  return false;
}

// Marks words that CLI11 would misread, so that they arrive as they were typed. The mark is a NUL,
// which no word of a command line contains; remove_marks() removes it.
// - CLI11 takes "[a,b]" for a list: the NUL follows the word.
// - CLI11 may take words after "--" for subcommands: the NUL precedes each of them, and the "--" is
//   dropped.
// - CLI11 takes the next word as the value of "--name=": it becomes two words, the second one
//   empty.
std::vector<std::string> with_marks(const CLI::App& app, const std::vector<std::string>& words) {
  std::vector<std::string> marked;
  bool behind_mark = false;
  bool is_value = false;
  for (std::string word : words) {
    if (word.ends_with(']')) word += '\0';
    if (behind_mark) {
      word.insert(0, 1, '\0');
    } else if (is_value) {
      is_value = false;
    } else if (word == "--") {
      behind_mark = true;
      continue;
    } else if (word.starts_with("--") && word.find('=') == word.size() - 1) {
      word.pop_back();
      marked.push_back(std::move(word));
      word.clear();
    } else {
      is_value = takes_next_word(app, word);
    }
    marked.push_back(std::move(word));
  }
  return marked;
}

void remove_marks(std::string& word) {
  if (word.ends_with('\0')) word.pop_back();
  if (word.starts_with('\0')) word.erase(0, 1);
}

// The message about the first negative number: CLI11 takes "-3", and the rest of "-n3", for a
// positional word.
std::string negative_number(const CLI::App& app, const std::vector<std::string>& words) {
  const auto behind = std::ranges::find(words, "--");
  for (const CLI::Option* option :
       app.get_options([](const CLI::Option* one) { return one->get_positional(); })) {
    for (const std::string& word : option->results()) {
      if (word.size() < 2 || word[0] != '-' || word[1] < '0' || word[1] > '9') continue;
      if (std::find(behind, words.end(), word) != words.end()) continue;
      return fmt::format("no option {} (try: -- in front of a word that begins with -)", word);
    }
  }
  return {};
}

// The message about a flag's optional value that follows a blank instead of "=".
std::string detached_value(const CLI::App& app, const Declarations& declarations,
                           const std::vector<std::string>& words) {
  for (size_t i = 0; i + 1 < words.size() && words[i] != "--"; ++i) {
    const std::string& word = words[i];
    const CLI::Option* option =
        word.size() > 1 && word[0] == '-' && (word[1] == '-' || word.size() == 2)
            ? find_option(app, word)
            : nullptr;
    const auto declared = declarations.find(option);
    if (declared == declarations.end() || declared->second.looks_like_value == nullptr) continue;
    if (!declared->second.looks_like_value(words[i + 1])) continue;
    std::error_code ignored;
    if (std::filesystem::exists(words[i + 1], ignored)) continue;
    const std::string name = option->get_name();
    return fmt::format("{}: its value must follow '=' (try: {}={}, or a file's name as ./{})", word,
                       name, words[i + 1], words[i + 1]);
  }
  return {};
}

// Names that other programs use for our options.
constexpr std::pair<std::string_view, std::string_view> other_names[] = {
    {"--tmp", "temporary-directory"},
    {"--temp", "temporary-directory"},
    {"--tmpdir", "temporary-directory"},
    {"--tempdir", "temporary-directory"},
    {"--temp-dir", "temporary-directory"},
    {"--tmp-dir", "temporary-directory"},
    {"--mem", "buffer-size"},
    {"--memory", "buffer-size"},
    {"--threads", "parallel"},
    {"--jobs", "parallel"},
    {"--delimiter", "field-separator"},
    {"--separator", "field-separator"},
    {"--sep", "field-separator"},
    {"--desc", "reverse"},
    {"--descending", "reverse"}};

// The message about words that no option takes, `left`: it names the first of them in `words`.
std::string unexpected(const CLI::App& app, bool is_program, const std::vector<std::string>& words,
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
    if (name == "-") {
      // The rest of "-Z=zstd".
      for (const std::string& whole : words) {
        if (whole.size() <= word.size() || !whole.ends_with(word.substr(1))) continue;
        const CLI::Option* flag =
            find_option(app, "-" + whole.substr(whole.size() - word.size(), 1));
        if (flag != nullptr)
          return fmt::format("{}: a one-letter option takes no =VALUE (try: {}{})", whole,
                             flag->get_name(), word.substr(1));
      }
    }
    for (const auto& [other, ours] : other_names) {
      const CLI::Option* option = app.get_option_no_throw("--" + std::string(ours));
      if (name == other && option != nullptr)
        return fmt::format("no option {} (did you mean {}?)", name, option->get_name(false, true));
    }
    return fmt::format("no option {}{}", name, did_you_mean(name, names));
  }
  if (!is_program) return fmt::format("unexpected word {}", word);
  for (const CLI::App* command : app.get_subcommands(is_shown))
    names.push_back(command->get_name());
  return fmt::format("no command {}{}", word, did_you_mean(word, names));
}

}  // namespace

Option Option::required() {
  option_->required();
  return *this;
}

Option Option::in(unsigned modes) {
  declared_->modes = modes;
  return *this;
}

Option Option::one_of(std::initializer_list<const char*> words) {
  const std::vector<std::string> choices(words.begin(), words.end());
  CLI::Validator member = CLI::IsMember(choices);
  member.name(choices_name);
  member.description(fmt::format("{}", fmt::join(choices, "|")));
  option_->check(member);
  return *this;
}

Option Option::within(int64_t least, int64_t most) {
  option_->check(CLI::Range(least, most));
  return *this;
}

Option Option::check(std::string (*what_is_wrong)(const std::string&)) {
  option_->check(CLI::Validator(what_is_wrong, ""));
  return *this;
}

Option Option::values_like(bool (*looks_like_one)(const std::string&)) {
  declared_->looks_like_value = looks_like_one;
  return *this;
}

Option Option::value_name(const char* name) {
  declared_->value_name = name;
  return *this;
}

Option Option::group(const char* heading) {
  option_->group(heading);
  return *this;
}

Option Option::hidden() {
  option_->group("");  // an empty group keeps an option out of the help
  return *this;
}

Parser Parser::add_subcommand(const char* name, const char* help) {
  return Parser(app_->add_subcommand(name, help), declarations_);
}

namespace {

void remove_marks_of(CLI::Option& option) {
  option.transform(CLI::Validator(
      [](std::string& word) {
        remove_marks(word);
        return std::string();
      },
      ""));
}

template <typename T>
std::function<std::vector<std::string>()> words_in(const T& value) {
  using Words = std::vector<std::string>;
  if constexpr (std::is_same_v<T, std::string>) return [&value] { return Words{value}; };
  if constexpr (std::is_same_v<T, std::vector<std::string>>) return [&value] { return value; };
  if constexpr (std::is_same_v<T, std::optional<std::string>>)
    return [&value] { return value ? Words{*value} : Words(); };
  return {};
}

}  // namespace

template <typename T>
Option Parser::add_option(const char* names, T& value, const std::string& help) {
  CLI::Option* const option = app_->add_option(names, value, help);
  remove_marks_of(*option);
  // A list takes one word each time it is given; the next words are not its values.
  if (!option->get_positional()) option->allow_extra_args(false);
  Declared& declared = (*declarations_)[option];
  declared.words = words_in(value);
  declared.is_list = std::is_same_v<T, std::vector<std::string>>;
  return {option, &declared};
}
template Option Parser::add_option(const char*, std::string&, const std::string&);
template Option Parser::add_option(const char*, std::vector<std::string>&, const std::string&);
template Option Parser::add_option(const char*, std::optional<std::string>&, const std::string&);
template Option Parser::add_option(const char*, int&, const std::string&);
template Option Parser::add_option(const char*, unsigned&, const std::string&);
template Option Parser::add_option(const char*, uint64_t&, const std::string&);
template Option Parser::add_option(const char*, std::optional<uint32_t>&, const std::string&);
template Option Parser::add_option(const char*, std::optional<uint64_t>&, const std::string&);
template Option Parser::add_option(const char*, std::optional<double>&, const std::string&);
template Option Parser::add_option(const char*, double&, const std::string&);

template <typename T>
Option Parser::add_flag(const char* names, T& value, const char* help) {
  CLI::Option* const option = app_->add_flag(names, value, help);
  remove_marks_of(*option);
  Declared& declared = (*declarations_)[option];
  declared.words = words_in(value);
  return {option, &declared};
}
template Option Parser::add_flag(const char*, bool&, const char*);
template Option Parser::add_flag(const char*, std::string&, const char*);

Option Parser::add_flag_that_clears(const char* names, bool& value, const char* help) {
  CLI::Option* const option = app_->add_flag_callback(names, [&value] { value = false; }, help);
  return {option, &(*declarations_)[option]};
}

void Parser::refuse(const char* names, bool takes_value, const std::string& message) {
  const auto fail = [message] { throw CLI::ParseError(message, CLI::ExitCodes::InvalidError); };
  CLI::Option* option = takes_value ? app_->add_option_function<std::string>(
                                              names, [fail](const std::string&) { fail(); })
                                          ->expected(0, 1)  // refused also without a value
                                    : app_->add_flag_callback(names, fail);
  option->group("");
}

void Parser::give_up_short_help() {
  app_->set_help_flag("--help", "print this help and exit")->group(usual_group);
}

void Parser::leave_out() {
  app_->group("");
  app_->set_help_flag();
  app_->allow_extras();
}

void Parser::group(const char* heading) {
  app_->option_defaults()->group(heading);
}

void Parser::footer(const std::string& text) {
  app_->footer(text);
}

bool Parser::chosen() const {
  return app_->parsed();
}

bool Parser::takes_next_word(const std::string& word) const {
  return cli::takes_next_word(*app_, word);
}

bool Parser::given(const char* name) const {
  return app_->count(name) > 0;
}

Status Parser::refuse_outside(const Mode& mode, unsigned also) const {
  for (const CLI::Option* option : std::as_const(*app_).get_options()) {
    const auto declared = declarations_->find(option);
    if (option->count() == 0 || declared == declarations_->end()) continue;
    if ((declared->second.modes & (mode.bit | also)) != 0) continue;
    const std::string name = option->get_name();
    return misuse(
        fmt::format("take this {} {}", option->get_positional() ? "word" : "option", mode.text),
        name, "the same without " + name);
  }
  return {};
}

std::vector<TextOption> Parser::text_options() const {
  std::vector<TextOption> texts;
  for (const CLI::Option* option : std::as_const(*app_).get_options()) {
    const auto found = declarations_->find(option);
    if (found == declarations_->end() || !found->second.words) continue;
    TextOption text{.is_list = found->second.is_list,
                    .is_flag = option->get_items_expected_max() == 0,
                    .is_checked = choices_of(*option) != nullptr,
                    .is_required = option->get_required(),
                    .words = found->second.words};
    for (const std::string& name : option->get_snames()) text.names.push_back("-" + name);
    for (const std::string& name : option->get_lnames()) text.names.push_back("--" + name);
    texts.push_back(std::move(text));
  }
  return texts;
}

CommandLine::CommandLine(const char* name, const char* description, const char* version)
    : app_(std::make_unique<CLI::App>(description, name)) {
  app_->set_help_flag("-h,--help", "print this help and exit");
  app_->set_version_flag("--version", version,
                         "print the version and exit; with --json also how it was built");
}

CommandLine::~CommandLine() = default;

Parser CommandLine::parser() {
  return Parser(app_.get(), &declarations_);
}

CLI::App* CommandLine::find(const std::string& subcommand) const {
  auto found = app_->get_subcommands([&](CLI::App* app) { return app->get_name() == subcommand; });
  return found.empty() ? nullptr : found.front();
}

std::optional<int> CommandLine::parse(std::vector<std::string> words) {
  const CLI::App* app = words.empty() ? nullptr : find(words.front());
  const std::string who = app_->get_name() + (app != nullptr ? " " + words.front() : "");
  if (app == nullptr) app = app_.get();
  std::string message;
  try {
    std::vector<std::string> marked = with_marks(*app, words);
    std::ranges::reverse(marked);  // CLI11 takes the words in reverse order
    app_->parse(std::move(marked));
    message = negative_number(*app, words);
    if (message.empty()) message = detached_value(*app, declarations_, words);
    if (message.empty()) return std::nullopt;
  } catch (const CLI::ExtrasError&) {
    std::vector<std::string> left = app_->remaining(true);
    for (std::string& word : left) remove_marks(word);
    message = unexpected(*app, app == app_.get(), words, left);
  } catch (const CLI::ConversionError& error) {
    const std::string text = error.what();
    const size_t is = text.find(" = ");
    const size_t begin = text.find(": ");
    message = is == text.npos || begin == text.npos
                  ? text
                  : fmt::format("{}: cannot read this value: {}",
                                text.substr(begin + 2, is - begin - 2), text.substr(is + 3));
  } catch (const CLI::ArgumentMismatch& error) {
    const std::string text = error.what();
    message = text.substr(0, text.find(": ")) + (text.find("but received") != text.npos
                                                     ? ": given more than once, but takes one value"
                                                     : ": a value is missing");
  } catch (const CLI::RequiredError& error) {
    message = error.what();
    if (message.ends_with(" is required"))
      message = message.substr(0, message.size() - 12) + " is missing";
  } catch (const CLI::ParseError& error) {
    if (dynamic_cast<const CLI::CallForHelp*>(&error) != nullptr) {
      print("{}", help_text(texts(), app == app_.get() ? "" : app->get_name()).value_or(""));
      return exit_ok;
    }
    if (error.get_exit_code() == 0) return app_->exit(error);  // --version
    message = error.what();
  }
  print_to(stderr, "{}: {}\n", who, printable(message, std::string::npos));
  if (message.find("(try:") == std::string::npos) print_to(stderr, "Try '{} --help'.\n", who);
  return exit_error;
}

namespace {

CommandText text_of(const CLI::App& app, const Declarations& declarations) {
  CommandText text{
      .name = app.get_name(), .help = app.get_description(), .footer = app.get_footer()};
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group().empty()) continue;
    const auto found = declarations.find(option);
    const Declared declared = found == declarations.end() ? Declared() : found->second;
    const std::string value = declared.value_name.empty() ? value_of(*option) : declared.value_name;
    OptionText one{.help = option->get_description(), .group = option->get_group()};
    for (const std::string& name : option->get_snames()) one.names.push_back("-" + name);
    for (const std::string& name : option->get_lnames()) one.names.push_back("--" + name);
    if (const CLI::Validator* choices = choices_of(*option)) {
      const std::string all = choices->get_description();
      for (size_t at = 0; at <= all.size();) {
        const size_t end = std::min(all.find('|', at), all.size());
        one.choices.push_back(all.substr(at, end - at));
        at = end + 1;
      }
    }
    if (option->get_positional()) {
      one.value = option->get_name(true);
      if (value != "WORD") one.value += " " + value;
      text.words.push_back(std::move(one));
      continue;
    }
    one.optional_value = declared.looks_like_value != nullptr;
    if (one.optional_value || option->get_items_expected_max() > 0) one.value = value;
    text.options.push_back(std::move(one));
  }
  return text;
}

}  // namespace

std::vector<CommandText> CommandLine::texts() const {
  std::vector<CommandText> texts = {text_of(*app_, declarations_)};
  for (const CLI::App* app : app_->get_subcommands(is_shown))
    texts.push_back(text_of(*app, declarations_));
  return texts;
}

}  // namespace penstock::cli
