#pragma once

// The options of the program and of its subcommands, as their files declare them.
//
// CLI11 parses them. It takes a compiler seconds for each file that includes it, so parser.cc alone does, and the types
// that an option can have are listed there. Errors name the subcommand, and are exit code 2 (command.h).

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "penstock/base.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace penstock::cli {

// A way in which a command runs, which some of its options choose and others have no meaning in: a bit, and how a message
// names it, as in "with --size".
struct Mode {
  unsigned bit;
  const char* text;
};

// The mode of an option that names none: the command's plain run.
inline constexpr unsigned plain_mode = 1;

// A declaration beside what CLI11 knows of an option.
struct Declared {
  unsigned modes = plain_mode;
  // The words that the option's variable holds; empty where the variable is no text.
  std::function<std::vector<std::string>()> words;
  bool is_list = false;
  bool (*looks_like_value)(const std::string&) = nullptr;  // Option::values_like()
};

// The declarations of a command line. CLI11's options are their keys.
using Declarations = std::unordered_map<const CLI::Option*, Declared>;

// An option that was added, to say more of it. A handle: copies are the same option.
class Option {
 public:
  Option(CLI::Option* option, Declared* declared) : option_(option), declared_(declared) {}

  Option required();
  // The modes in which the command obeys the option; Parser::refuse_outside() refuses it in all others.
  Option in(unsigned modes);
  Option one_of(std::initializer_list<const char*> words);
  Option within(int64_t least, int64_t most);
  // `what_is_wrong` gives the message for a bad word, and an empty text for a good one.
  Option check(std::string (*what_is_wrong)(const std::string&));
  // How the values of a flag look, which stand behind "=" alone: such a word behind the flag is a mistake, unless it is the
  // name of a file.
  Option values_like(bool (*looks_like_one)(const std::string&));
  // What the help calls the value.
  Option value_name(const char* name);
  // The heading above it in the help.
  Option group(const char* heading);
  // Left out of the help.
  Option hidden();

 private:
  CLI::Option* option_;
  Declared* declared_;
};

// A text option, or a word without a name, for tests: its names, and what its variable holds after the parsing.
struct TextOption {
  std::vector<std::string> names;  // "-o", "--output"; a word without a name has none
  bool is_list = false;
  bool is_flag = false;     // takes a value behind "=" alone
  bool is_checked = false;  // refuses some values
  bool is_required = false;
  std::function<std::vector<std::string>()> words;
};

// The options of the program or of one subcommand. A handle: copies are the same options. What a value is written to must
// outlive the parsing, and stays what it was where the option is not given.
class Parser {
 public:
  Parser(CLI::App* app, Declarations* declarations) : app_(app), declarations_(declarations) {}

  Parser add_subcommand(const char* name, const char* help);
  // "-o,--output": an option with a value. "FILE": a word without a name, or a list of those. Each time that it is given, a
  // list takes one word, as it was typed.
  template <typename T>
  Option add_option(const char* names, T& value, const std::string& help);
  // Without a value. (Text: "true", or what follows a "=".)
  template <typename T>
  Option add_flag(const char* names, T& value, const char* help);
  Option add_flag_that_clears(const char* names, bool& value, const char* help);
  // An option that is an error, whatever its value: `message` says why. The help does not show it.
  void refuse(const char* names, bool takes_value, const std::string& message);
  // "--help" alone, where "-h" is something else.
  void give_up_short_help();
  // The heading above the options that are added from now on, in the help and in the manual.
  void group(const char* heading);
  // Stands below the help.
  void footer(const std::string& text);

  // Behind the parsing:
  bool chosen() const;
  bool given(const char* name) const;
  // The next word of a command line is this one's value, whatever it looks like. (Before the parsing, too.)
  bool takes_next_word(const std::string& word) const;
  // Errors: an option was given that `mode` does not obey. One that obeys any of `also` is let pass.
  Status refuse_outside(const Mode& mode, unsigned also = 0) const;
  std::vector<TextOption> text_options() const;

 private:
  CLI::App* app_;
  Declarations* declarations_;
};

// What the help and the manual say of an option, and of a word without a name.
inline constexpr const char* usual_group = "Options";
struct OptionText {
  std::vector<std::string> names;  // "-o", "--output"; a word without a name has none
  std::string value;               // what its value is called; empty: it takes none
  bool optional_value = false;
  std::vector<std::string> choices;  // all values that it may have, where that is known
  std::string help;
  std::string group;
};
struct CommandText {
  std::string name;
  std::string help;
  std::string footer;
  std::vector<OptionText> words;
  std::vector<OptionText> options;
};

class CommandLine {
 public:
  CommandLine(const char* name, const char* description, const char* version);
  ~CommandLine();

  Parser parser();
  // `words` without the program's name. The exit code, where the program has nothing more to do: it has printed the help,
  // its version or an error.
  std::optional<int> parse(std::vector<std::string> words);
  // The program first, then its subcommands. What the help does not show is left out.
  std::vector<CommandText> texts() const;

 private:
  CLI::App* find(const std::string& subcommand) const;

  const std::unique_ptr<CLI::App> app_;
  Declarations declarations_;
};

}  // namespace penstock::cli
