#include "cli/common/parser.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
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

// What the help calls values, the same in every command.
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
                                                                    {"a", "FILE"},
                                                                    {"v", "FILE"}};

// What the help calls its value.
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

// How many letters must be written, left out or changed, or change places with the next one, to make one of the other.
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

// " (did you mean --output?)", or nothing where no name is near.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& names) {
  std::string_view nearest;
  size_t least = 1 + word.size() / 3;  // letters that may differ, and one more
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

// The next word is the value of this one, whatever it looks like.
bool takes_next_word(const CLI::App& app, const std::string& word) {
  if (word.size() < 2 || word.front() != '-') return false;
  const bool is_long = word.starts_with("--");
  // Flags in one word: the first letter that takes a value takes what stands behind it.
  for (size_t at = 1; at < word.size(); ++at) {
    const CLI::Option* option =
        find_option(app, is_long ? std::string_view(word) : "-" + word.substr(at, 1));
    if (option == nullptr) return false;
    if (option->get_items_expected_min() > 0) return is_long || at + 1 == word.size();
    if (is_long) return false;
  }
  return false;
}

// Makes "--name=" two words: the value is empty, where CLI11 would take the next word.
void split_empty_values(const CLI::App& app, std::vector<std::string>& words) {
  for (size_t i = 0; i < words.size() && words[i] != "--"; ++i) {
    if (takes_next_word(app, words[i])) {
      ++i;
      continue;
    }
    if (!words[i].starts_with("--") || words[i].find('=') != words[i].size() - 1) continue;
    words[i].pop_back();
    words.insert(words.begin() + static_cast<ptrdiff_t>(++i), "");
  }
}

// CLI11 takes "-3", and what is left of "-n3", for a word without a name. The message about the first one of those.
std::string negative_number(const CLI::App& app, const std::vector<std::string>& words) {
  const auto behind = std::ranges::find(words, "--");
  for (const CLI::Option* option :
       app.get_options([](const CLI::Option* one) { return one->get_positional(); })) {
    for (const std::string& word : option->results()) {
      if (word.size() < 2 || word[0] != '-' || word[1] < '0' || word[1] > '9') continue;
      if (std::find(behind, words.end(), word) != words.end()) continue;
      return fmt::format("no option {} (try: -- in front of a word that begins so)", word);
    }
  }
  return {};
}

// Words that nothing takes: of `words` the first one of `left`.
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
    return fmt::format("no option {}{}", name, did_you_mean(name, names));
  }
  if (!is_program) return fmt::format("no use for the word {}", word);
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
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

Option Option::value_name(const char* name) {
  option_->type_name(name);
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
  // Without this, CLI11 takes the words of a list for lists of its own: "[a,b]" is then a and b.
  option->allow_extra_args(false);
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
  CLI::Option* option =
      takes_value
          ? app_->add_option_function<std::string>(names, [fail](const std::string&) { fail(); })
                ->expected(0, 1)  // without its value it is refused all the same
          : app_->add_flag_callback(names, fail);
  option->group("");
}

void Parser::give_up_short_help() {
  app_->set_help_flag("--help", "print this help and exit")->group(usual_group);
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

bool Parser::given(const char* name) const {
  return app_->count(name) > 0;
}

std::vector<std::string> Parser::given_options() const {
  std::vector<std::string> names;
  for (const CLI::Option* option : std::as_const(*app_).get_options()) {
    if (option->count() > 0) names.push_back(option->get_name());
  }
  return names;
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
                         "print the version and exit; with --json what it was built for");
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
  split_empty_values(*app, words);
  std::string message;
  try {
    app_->parse(
        std::vector<std::string>(words.rbegin(), words.rend()));  // backwards, as CLI11 takes them
    message = negative_number(*app, words);
    if (message.empty()) return std::nullopt;
  } catch (const CLI::ExtrasError&) {
    message = unexpected(*app, app == app_.get(), words, app_->remaining(true));
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
    message = text.substr(0, text.find(": ")) + ": a value is missing, or there is one too many";
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

CommandText text_of(const CLI::App& app) {
  CommandText text{
      .name = app.get_name(), .help = app.get_description(), .footer = app.get_footer()};
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group().empty()) continue;
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
      if (const std::string more = value_of(*option); more != "WORD") one.value += " " + more;
      text.words.push_back(std::move(one));
      continue;
    }
    if (option->get_items_expected_max() > 0) one.value = value_of(*option);
    one.optional_value = !one.value.empty() && option->get_items_expected_min() == 0;
    text.options.push_back(std::move(one));
  }
  return text;
}

}  // namespace

std::vector<CommandText> CommandLine::texts() const {
  std::vector<CommandText> texts = {text_of(*app_)};
  for (const CLI::App* app : app_->get_subcommands({})) texts.push_back(text_of(*app));
  return texts;
}

}  // namespace penstock::cli
