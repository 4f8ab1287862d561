#include "cli/common/parser.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "base/printable.h"
#include "cli/common/command.h"
#include "cli/common/print.h"

namespace penstock::cli {

Option Option::required() {
  option_->required();
  return *this;
}

Option Option::one_word() {
  option_->allow_extra_args(false);
  return *this;
}

Option Option::one_of(std::initializer_list<const char*> words) {
  option_->check(CLI::IsMember(std::vector<std::string>(words.begin(), words.end())));
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
  return Parser(app_->add_subcommand(name, help));
}

template <typename T>
Option Parser::add_option(const char* names, T& value, const std::string& help) {
  return Option(app_->add_option(names, value, help));
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
  return Option(app_->add_flag(names, value, help));
}
template Option Parser::add_flag(const char*, bool&, const char*);
template Option Parser::add_flag(const char*, std::string&, const char*);

void Parser::add_flag_that_clears(const char* names, bool& value, const char* help) {
  app_->add_flag_callback(names, [&value] { value = false; }, help);
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
  app_->set_help_flag("--help", "print this help and exit");
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

CommandLine::CommandLine(const char* name, const char* description, const char* version)
    : app_(std::make_unique<CLI::App>(description, name)) {
  app_->set_version_flag("--version", version);
}

CommandLine::~CommandLine() = default;

Parser CommandLine::parser() {
  return Parser(app_.get());
}

CLI::App* CommandLine::find(const std::string& subcommand) const {
  auto found = app_->get_subcommands([&](CLI::App* app) { return app->get_name() == subcommand; });
  return found.empty() ? nullptr : found.front();
}

std::optional<int> CommandLine::parse(std::vector<std::string> words) {
  const std::string first = words.empty() ? "" : words.front();
  // "--name=": an empty value, and not the next word.
  for (size_t i = 0; i < words.size() && words[i] != "--"; ++i) {
    if (!words[i].starts_with("--") || words[i].find('=') != words[i].size() - 1) continue;
    words[i].pop_back();
    words.insert(words.begin() + static_cast<ptrdiff_t>(++i), "");
  }
  std::ranges::reverse(words);  // as CLI11 takes them
  try {
    app_->parse(words);
    return std::nullopt;
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app_->exit(error);  // --help, --version
    const std::string message = error.what();
    const std::string who = app_->get_name() + (find(first) != nullptr ? " " + first : "");
    print_to(stderr, "{}: {}\n", who, printable(message, std::string::npos));
    if (message.find("(try:") == std::string::npos) print_to(stderr, "Try '{} --help'.\n", who);
    return exit_error;
  }
}

std::optional<std::string> CommandLine::help(const std::string& subcommand) const {
  if (subcommand.empty()) return app_->help();
  const CLI::App* app = find(subcommand);
  if (app == nullptr) return std::nullopt;
  return app->help(app_->get_name());
}

}  // namespace penstock::cli
