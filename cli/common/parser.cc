#include "cli/common/parser.h"

#include <fmt/core.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <filesystem>
#include <ranges>
#include <string_view>
#include <type_traits>
#include <utility>

#include "base/misuse.h"
#include "base/printable.h"
#include "base/shell_word.h"
#include "cli/common/command.h"
#include "cli/common/manual.h"
#include "cli/common/print.h"
#include "cli/common/usage_errors.h"
#include "io/file.h"
#include "io/names.h"

namespace penstock::cli {
namespace {

constexpr const char* choices_name = "choices";
constexpr const char* help_all = "help-all";

// The help's names for values that are columns or words out of a set.
constexpr std::string_view values_that_are_no_files[] = {
    "KEY", "FIELD", "OFFSET:LENGTH", "COLUMNS", "FORMAT", "HOW", "PROGRAM"};

const CLI::Validator* choices_of(const CLI::Option& option) {
  try {
    return const_cast<CLI::Option&>(option).get_validator(choices_name);
  } catch (const CLI::OptionNotFound&) {
    return nullptr;
  }
}

// An option of a command line, as it was typed.
struct Typed {
  const CLI::Option* option;
  std::string name;
  std::optional<std::string> value = {};  // behind the name in one word, or a "="
  bool takes_next_word = false;
};

// The words of a command, and its declarations.
struct TypedLine {
  const CLI::App& app;
  const Declarations& declarations;
  std::span<const std::string> words;

  const Declared* declared(const CLI::Option* option) const {
    const auto found = declarations.options.find(option);
    return found == declarations.options.end() ? nullptr : &found->second;
  }
  // The word behind another, or nullptr.
  const std::string* next(size_t number) const {
    return number + 1 < words.size() ? &words[number + 1] : nullptr;
  }
};

// Returns whether an option takes the word behind its own: it has to, or it is a flag that may
// (Option::takes_next_word_if()).
bool takes_next_word(const TypedLine& line, const CLI::Option* option, const std::string* next) {
  if (option->get_items_expected_min() > 0) return true;
  const Declared* const declared = line.declared(option);
  return declared != nullptr && declared->takes_next != nullptr && next != nullptr &&
         !next->starts_with('-') && declared->takes_next(line.words);
}

// Returns the options that one word names: several flags, and perhaps one with a value, may share it.
std::vector<Typed> options_of_word(const TypedLine& line, size_t number) {
  const CLI::App& app = line.app;
  const std::string& word = line.words[number];
  std::vector<Typed> typed;
  if (word.size() < 2 || word.front() != '-' || word == "--") return typed;
  if (word.starts_with("--")) {
    const size_t is = word.find('=');
    const std::string name = word.substr(0, is);
    const CLI::Option* const option = find_option(app, name);
    if (option == nullptr) return typed;
    typed.push_back({option, name});
    if (is != word.npos) typed.back().value = word.substr(is + 1);
    typed.back().takes_next_word =
        is == word.npos && takes_next_word(line, option, line.next(number));
    return typed;
  }
  // The first letter that takes a value takes the rest of the word.
  for (size_t at = 1; at < word.size(); ++at) {
    if (word[at] == '=' && !typed.empty()) typed.back().value = word.substr(at + 1);
    const std::string name = "-" + word.substr(at, 1);
    const CLI::Option* const option = find_option(app, name);
    if (option == nullptr) break;
    typed.push_back({option, name});
    if (option->get_items_expected_min() == 0) continue;
    typed.back().takes_next_word = at + 1 == word.size();
    if (at + 1 < word.size()) typed.back().value = word.substr(at + 1);
    break;
  }
  return typed;
}

// Marks words that CLI11 would misread, so that they arrive as they were typed. The mark is a NUL,
// which no word of a command line contains; remove_marks() removes it.
// - CLI11 takes "[a,b]" for a list: the NUL follows the word.
// - CLI11 may take words after "--" for subcommands: the NUL precedes each of them, and the "--" is
//   dropped.
// - CLI11 takes the next word as the value of "--name=": it becomes two words, the second one
//   empty.
// - A flag takes no next word: one that does so here (Option::takes_next_word_if()) becomes one word
//   with it.
std::vector<std::string> with_marks(const TypedLine& line) {
  std::vector<std::string> marked;
  bool behind_mark = false;
  bool is_value = false;
  for (size_t i = 0; i < line.words.size(); ++i) {
    std::string word = line.words[i];
    const bool may_be_option = !behind_mark && !is_value;
    if (may_be_option) {
      const auto typed = options_of_word(line, i);
      is_value = !typed.empty() && typed.back().takes_next_word;
      if (is_value && typed.back().option->get_items_expected_min() == 0) {
        word += "=" + line.words[++i];
        is_value = false;
      }
    } else {
      is_value = false;
    }
    if (word.ends_with(']')) word += '\0';
    if (behind_mark) {
      word.insert(0, 1, '\0');
    } else if (may_be_option && word == "--") {
      behind_mark = true;
      continue;
    } else if (may_be_option && word.starts_with("--") && word.find('=') == word.size() - 1) {
      word.pop_back();
      marked.push_back(std::move(word));
      word.clear();
    }
    marked.push_back(std::move(word));
  }
  return marked;
}

void remove_marks(std::string& word) {
  if (word.ends_with('\0')) word.pop_back();
  if (word.starts_with('\0')) word.erase(0, 1);
}

// Calls use(typed, next) for each option in front of "--". `next` is the word behind it, or nullptr.
template <class Use>
void for_each_typed(const TypedLine& line, Use use) {
  for (size_t i = 0; i < line.words.size() && line.words[i] != "--"; ++i) {
    const std::vector<Typed> typed = options_of_word(line, i);
    for (const Typed& one : typed) use(one, line.next(i));
    if (!typed.empty() && typed.back().takes_next_word) ++i;
  }
}

// The message about a flag with a value that it does not take, or whose optional value follows a
// blank instead of "=".
std::string misplaced_value(const TypedLine& line) {
  std::string message;
  for_each_typed(line, [&](const Typed& typed, const std::string* next) {
    if (!message.empty() || typed.option->get_items_expected_max() > 0 || typed.takes_next_word)
      return;
    const Declared* const declared = line.declared(typed.option);
    const auto looks_like_value = declared == nullptr ? nullptr : declared->looks_like_value;
    if (typed.value && (looks_like_value == nullptr || !typed.name.starts_with("--"))) {
      message = fmt::format("{}={}: ", typed.name, *typed.value);
      message += looks_like_value == nullptr
                     ? fmt::format("{0} takes no value (try: {0})", typed.name)
                     : fmt::format("a one-letter option takes no =VALUE (try: {}={})",
                                   typed.option->get_name(), *typed.value);
      return;
    }
    if (looks_like_value == nullptr) return;
    std::error_code ignored;
    if (typed.value || next == nullptr || !looks_like_value(*next) ||
        std::filesystem::exists(*next, ignored))
      return;
    message = fmt::format("{}: its value must follow '=' (try: {}={}, or a file's name as ./{})",
                          typed.name, typed.option->get_name(), *next, *next);
  });
  return message;
}

// The message about a file that an option took for its value, so that the command has none.
std::string file_as_value(const CLI::App& app, const Declarations& declarations) {
  const auto positional = app.get_options([](const CLI::Option* one) {
    return one->get_positional() && one->get_name(true) == "FILE";
  });
  const CLI::Option* const list = find_option(app, "--files0-from");
  if (positional.empty() || positional.front()->count() > 0 || (list != nullptr && *list))
    return {};
  for (const CLI::Option* option : app.get_options()) {
    const auto declared = declarations.options.find(option);
    if (declared == declarations.options.end()) continue;
    std::string value = declared->second.value_name;
    if (value.empty()) value = value_of(*option);
    if (std::ranges::find(values_that_are_no_files, value) == std::end(values_that_are_no_files))
      continue;
    if (value != "FORMAT" && value != "HOW" && value != "PROGRAM") value = "COLUMN";
    for (const std::string& word : option->results()) {
      std::error_code ignored;
      if (!std::filesystem::is_regular_file(word, ignored) || ::access(word.c_str(), X_OK) == 0 ||
          std::ranges::find(declared->second.choices, word) != declared->second.choices.end())
        continue;
      const std::string name = option->get_name();
      return fmt::format("{0} {1}: its value is a file, and no other is named (try: {0} {2} {1})",
                         name, word, value);
    }
  }
  return {};
}

// The message about a required option of the command `who`, from CLI11's "--name is required".
std::string missing_option(const CLI::App& app, const Declarations& declarations,
                           const std::string& who, const std::string& text) {
  const std::string name = text.substr(0, text.find(" is required"));
  const CLI::Option* const option = app.get_option_no_throw(name);
  const auto declared = declarations.options.find(option);
  if (declared == declarations.options.end() || declared->second.example == nullptr) return text;
  // A short form is what people type.
  const auto& letters = option->get_snames();
  const std::string typed = letters.empty() ? name : "-" + letters.front();
  return fmt::format("{} is missing (try: {} {})", typed, option->get_positional() ? who : typed,
                     declared->second.example);
}

// The message about an option without its value, or with two, from CLI11's "--name: ...".
std::string wrong_count(const CLI::App& app, const std::string& text) {
  const std::string name = text.substr(0, text.find(": "));
  if (text.contains("but received")) return name + ": given more than once, but takes one value";
  const CLI::Option* const option = app.get_option_no_throw(name);
  return fmt::format(
      "{}: a value is missing{}", name,
      option == nullptr ? std::string() : fmt::format(" (try: {} {})", name, value_of(*option)));
}

// Keeps the options that were typed, for messages that name them.
void keep_typed(const TypedLine& line) {
  std::vector<TypedOption> kept;
  for_each_typed(line, [&](const Typed& typed, const std::string* next) {
    TypedOption one{.name = typed.name, .value = typed.value.value_or("")};
    if (typed.takes_next_word && next != nullptr) one.value = *next;
    for (const std::string& name : typed.option->get_snames()) one.names.push_back("-" + name);
    for (const std::string& name : typed.option->get_lnames()) one.names.push_back("--" + name);
    const Declared* const declared = line.declared(typed.option);
    if (declared != nullptr && declared->stands_for != nullptr)
      one.names.emplace_back(declared->stands_for);
    kept.push_back(std::move(one));
  });
  std::string text;
  for (const std::string& word : line.words) text += (text.empty() ? "" : " ") + typed_word(word);
  keep_typed(line.app.get_parent() == nullptr ? "" : line.app.get_name(), std::move(kept),
             std::move(text));
}

}  // namespace

Option Option::required(const char* example) {
  option_->required();
  declared_->example = example;
  return *this;
}

Option Option::in(unsigned modes) {
  declared_->modes = modes;
  return *this;
}

Option Option::one_of(std::initializer_list<const char*> words) {
  const std::vector<std::string> choices(words.begin(), words.end());
  const auto what_is_wrong = [choices](const std::string& word) {
    if (std::ranges::find(choices, word) != choices.end()) return std::string();
    return fmt::format("cannot take {} (try: {})", word, fmt::join(choices, ", "));
  };
  option_->check(
      CLI::Validator(what_is_wrong, fmt::format("{}", fmt::join(choices, "|")), choices_name));
  return *this;
}

Option Option::within(int64_t least, int64_t most) {
  option_->check(CLI::Validator(
      [least, most](const std::string& word) {
        int64_t number = 0;
        const char* const end = word.data() + word.size();
        const auto [at, error] = std::from_chars(word.data(), end, number);
        if (error == std::errc{} && at == end && least <= number && number <= most)
          return std::string();
        return fmt::format("cannot take {} (try: {} to {})", word, least, most);
      },
      ""));
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

Option Option::stands_for(const char* name) {
  declared_->stands_for = name;
  return *this;
}

Option Option::takes_next_word_if(bool (*it_does)(std::span<const std::string> words)) {
  declared_->takes_next = it_does;
  return *this;
}

Option Option::value_name(const char* name) {
  declared_->value_name = name;
  return *this;
}

Option Option::offers(std::span<const char* const> values) {
  declared_->choices.assign(values.begin(), values.end());
  return *this;
}

Option Option::rare() {
  declared_->is_rare = true;
  return *this;
}

Option Option::names_files(FileUse use, size_t first) {
  declared_->file_use = use;
  declared_->first_file = first;
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

// Adds an option to a command that seems to have no others. CLI11 compares a new option with each
// option of the command by copies of their names, which takes a third of the instructions of a
// sort of two lines. (words_test.cc finds a name that is declared twice.)
template <class Add>
CLI::Option* add_without_comparison(CLI::App& app, Add add) {
  struct Opened : CLI::App {
    using CLI::App::options_;
  };
  std::vector<CLI::Option_p>& options = app.*&Opened::options_;
  std::vector<CLI::Option_p> others = std::exchange(options, {});
  CLI::Option* const option = add();
  others.push_back(std::move(options.back()));
  options = std::move(others);
  return option;
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
  CLI::Option* const option =
      add_without_comparison(*app_, [&] { return app_->add_option(names, value, help); });
  remove_marks_of(*option);
  // Otherwise "010" is 8.
  if constexpr (std::is_integral_v<T> || std::is_same_v<T, std::optional<uint32_t>> ||
                std::is_same_v<T, std::optional<uint64_t>>) {
    option->transform([](std::string word) {
      if (!word.empty() && word.find_first_not_of("0123456789") == word.npos)
        word.erase(0, std::min(word.find_first_not_of('0'), word.size() - 1));
      return word;
    });
  }
  // A list takes one word each time it is given; the next words are not its values.
  if (!option->get_positional()) option->allow_extra_args(false);
  Declared& declared = declarations_->options[option];
  declared.words = words_in(value);
  declared.is_list = std::is_same_v<T, std::vector<std::string>>;
  const std::string_view word(names);
  if (word == "FILE" || word == "TRACE") declared.file_use = FileUse::read;
  if (word == "-o,--output") declared.file_use = FileUse::replaced;
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
  CLI::Option* const option =
      add_without_comparison(*app_, [&] { return app_->add_flag(names, value, help); });
  remove_marks_of(*option);
  Declared& declared = declarations_->options[option];
  declared.words = words_in(value);
  return {option, &declared};
}
template Option Parser::add_flag(const char*, bool&, const char*);
template Option Parser::add_flag(const char*, std::string&, const char*);

Option Parser::add_flag_that_clears(const char* names, bool& value, const char* help) {
  CLI::Option* const option = app_->add_flag_callback(names, [&value] { value = false; }, help);
  return {option, &declarations_->options[option]};
}

Option Parser::add_flag_that_sets(const char* names, std::string& value, const char* word,
                                  const char* help) {
  CLI::Option* const option =
      app_->add_flag_callback(names, [&value, word] { value = word; }, help);
  return {option, &declarations_->options[option]};
}

void Parser::refuse(const char* names, bool takes_value, const std::string& message) {
  const auto fail = [message] { throw CLI::ParseError(message, CLI::ExitCodes::InvalidError); };
  CLI::Option* option = takes_value ? app_->add_option_function<std::string>(
                                              names, [fail](const std::string&) { fail(); })
                                          ->expected(0, 1)  // refused also without a value
                                    : app_->add_flag_callback(names, fail);
  option->group("");
}

void Parser::give_up_short_forms() {
  app_->set_help_flag("--help", "print this help and exit")->group(usual_group);
  if (app_->get_parent() == nullptr)
    app_->set_version_flag("--version", app_->version(), "print the version and exit")
        ->group(usual_group);
}

void Parser::leave_out() {
  app_->group("");
  app_->set_help_flag();
  app_->set_help_all_flag();
  app_->allow_extras();
}

void Parser::group(const char* heading) {
  app_->option_defaults()->group(heading);
}

void Parser::heading(const char* text) {
  if (is_shown(app_)) app_->group(text);
}

void Parser::describe(CommandNotes notes) {
  declarations_->commands[app_] = std::move(notes);
}

bool Parser::chosen() const {
  return app_->parsed();
}

bool Parser::takes_next_word(const std::string& word) const {
  const auto typed = options_of_word({*app_, *declarations_, {&word, 1}}, 0);
  return !typed.empty() && typed.back().takes_next_word;
}

bool Parser::given(const char* name) const {
  return app_->count(name) > 0;
}

bool Parser::has_other_name(std::string_view beginning, std::string_view name) const {
  return std::ranges::any_of(std::as_const(*app_).get_options(), [&](const CLI::Option* option) {
    const auto& names = option->get_lnames();
    return !option->get_group().empty() && std::ranges::find(names, name) == names.end() &&
           std::ranges::any_of(names, [&](const auto& one) { return one.starts_with(beginning); });
  });
}

std::vector<std::pair<std::string, std::string>> Parser::values_in_order(
    std::span<const char* const> names) const {
  std::vector<std::pair<std::string, std::string>> values;
  std::unordered_map<const CLI::Option*, size_t> seen;
  for (const CLI::Option* option : app_->parse_order()) {
    const std::string name = option->get_name();
    if (std::ranges::find(names, name) == names.end()) continue;
    values.emplace_back(name, option->results()[seen[option]++]);
  }
  return values;
}

namespace {

struct NamedFile {
  std::string option;
  std::string path;
  FileUse use;
  bool is_default;
};

io::UsedFile used(const NamedFile& file) {
  using Use = io::UsedFile::Use;
  return {file.path, file.use == FileUse::read    ? Use::read
                     : file.use == FileUse::parts ? Use::parts
                                                  : Use::written};
}

}  // namespace

Status Parser::refuse_shared_files() const {
  std::vector<NamedFile> inputs, outputs;
  for (const CLI::Option* option : std::as_const(*app_).get_options()) {
    const auto found = declarations_->options.find(option);
    if (found == declarations_->options.end() || found->second.file_use == FileUse::none ||
        !found->second.words)
      continue;
    const bool is_read = found->second.file_use == FileUse::read;
    auto words = found->second.words();
    if (is_read && words.empty() && option->get_positional()) words.emplace_back("-");
    for (const std::string& path : words | std::views::drop(found->second.first_file)) {
      if (path.empty()) continue;
      (is_read ? inputs : outputs)
          .push_back({option->get_name(), path, found->second.file_use, option->count() == 0});
    }
  }
  // The output of join has two options.
  if (std::ranges::any_of(outputs, [](const NamedFile& output) {
        return output.use == FileUse::replaced && !output.is_default;
      }))
    std::erase_if(outputs, [](const NamedFile& output) { return output.is_default; });
  for (size_t i = 0; i < outputs.size(); ++i) {
    const NamedFile& output = outputs[i];
    const auto is_shared = [&](const NamedFile& other) {
      return io::share_a_file(used(output), used(other));
    };
    const auto other = std::find_if(outputs.begin(), outputs.begin() + i, is_shared);
    if (other != outputs.begin() + i)
      return misuse(fmt::format("write both {} and {} to it", other->option, output.option),
                    output.path, "another name for one of them");
    if (output.use != FileUse::replaced && std::ranges::any_of(inputs, is_shared))
      return misuse("write over an input", output.path, "another name for " + output.option);
  }
  return {};
}

Status Parser::refuse_outside(const Mode& mode, unsigned also) const {
  for (const CLI::Option* option : std::as_const(*app_).get_options()) {
    const auto declared = declarations_->options.find(option);
    if (option->count() == 0 || declared == declarations_->options.end()) continue;
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
    const auto found = declarations_->options.find(option);
    if (found == declarations_->options.end() || !found->second.words) continue;
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
  app_->set_help_all_flag(std::string("--") + help_all, "print all options and exit");
  app_->set_version_flag("-V,--version", version,
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
  const TypedLine line{*app, declarations_, words};
  keep_typed(line);
  std::string message = misplaced_value(line);
  try {
    if (message.empty()) {
      std::vector<std::string> marked = with_marks(line);
      std::ranges::reverse(marked);  // CLI11 takes the words in reverse order
      app_->parse(std::move(marked));
      message = negative_number(*app, words);
    }
    if (message.empty()) message = detached_unit(*app, words);
    if (message.empty() && app != app_.get()) message = file_as_value(*app, declarations_);
    if (message.empty()) return std::nullopt;
  } catch (const CLI::ExtrasError&) {
    std::vector<std::string> left = app_->remaining(true);
    for (std::string& word : left) remove_marks(word);
    message = unexpected_word(*app, app == app_.get(), words, left);
  } catch (const CLI::ConversionError& error) {
    message = unreadable_value(*app, error.what());
  } catch (const CLI::ArgumentMismatch& error) {
    message = wrong_count(*app, error.what());
  } catch (const CLI::RequiredError& error) {
    message = missing_option(*app, declarations_, who, error.what());
  } catch (const CLI::ParseError& error) {
    const bool all = dynamic_cast<const CLI::CallForAllHelp*>(&error) != nullptr;
    if (all || dynamic_cast<const CLI::CallForHelp*>(&error) != nullptr) {
      print("{}", help_text(texts(), app == app_.get() ? "" : app->get_name(), all).value_or(""));
      return exit_ok;
    }
    if (error.get_exit_code() == 0) return app_->exit(error);  // --version
    message = error.what();
  }
  message = as_typed(std::move(message));
  print_to(stderr, "{}: {}\n", who, printable(message, std::string::npos));
  if (message.find("(try:") == std::string::npos) print_to(stderr, "Try '{} --help'.\n", who);
  return exit_error;
}

namespace {

// The values that `choices` allows.
std::vector<std::string> words_of(const CLI::Validator& choices) {
  std::vector<std::string> words;
  const std::string all = choices.get_description();
  for (size_t at = 0; at <= all.size();) {
    const size_t end = std::min(all.find('|', at), all.size());
    words.push_back(all.substr(at, end - at));
    at = end + 1;
  }
  return words;
}

CommandText text_of(const CLI::App& app, const Declarations& declarations) {
  CommandText text{.name = app.get_name(), .help = app.get_description(), .group = app.get_group()};
  const auto described = declarations.commands.find(&app);
  if (described != declarations.commands.end()) text.notes = described->second;
  std::vector<OptionText> about_itself;  // --help, --version: the last ones
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group().empty()) continue;
    const auto found = declarations.options.find(option);
    const bool is_ours = found != declarations.options.end();
    const Declared declared = is_ours ? found->second : Declared();
    const std::string value = declared.value_name.empty() ? value_of(*option) : declared.value_name;
    OptionText one{.choices = declared.choices,
                   .help = option->get_description(),
                   .group = option->get_group(),
                   .is_rare = declared.is_rare || option->check_lname(help_all),
                   .is_list = declared.is_list,
                   .is_required = option->get_required()};
    for (const std::string& name : option->get_snames()) one.names.push_back("-" + name);
    for (const std::string& name : option->get_lnames()) one.names.push_back("--" + name);
    if (const CLI::Validator* choices = choices_of(*option)) one.choices = words_of(*choices);
    if (option->get_positional()) {
      one.value = option->get_name(true);
      if (value != "WORD") one.value += " " + value;
      text.words.push_back(std::move(one));
      continue;
    }
    one.optional_value = declared.looks_like_value != nullptr;
    if (one.optional_value || option->get_items_expected_max() > 0) one.value = value;
    (is_ours ? text.options : about_itself).push_back(std::move(one));
  }
  text.options.insert(text.options.end(), about_itself.begin(), about_itself.end());
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
