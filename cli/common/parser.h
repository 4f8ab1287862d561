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
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace penstock::cli {

// An option that was added, to say more of it. A handle: copies are the same option.
class Option {
 public:
  explicit Option(CLI::Option* option) : option_(option) {}

  Option required();
  // A list takes one word each time it is given: those behind it are something else.
  Option one_word();
  Option one_of(std::initializer_list<const char*> words);
  Option within(int64_t least, int64_t most);
  // `what_is_wrong` gives the message for a bad word, and an empty text for a good one.
  Option check(std::string (*what_is_wrong)(const std::string&));
  // What the help calls the value.
  Option value_name(const char* name);
  // Left out of the help.
  Option hidden();

 private:
  CLI::Option* option_;
};

// The options of the program or of one subcommand. A handle: copies are the same options. What a value is written to must
// outlive the parsing, and stays what it was where the option is not given.
class Parser {
 public:
  explicit Parser(CLI::App* app) : app_(app) {}

  Parser add_subcommand(const char* name, const char* help);
  // "-o,--output": an option with a value. "FILE": a word without a name, or a list of those.
  template <typename T>
  Option add_option(const char* names, T& value, const std::string& help);
  // Without a value. (Text: "true", or what follows a "=".)
  template <typename T>
  Option add_flag(const char* names, T& value, const char* help);
  void add_flag_that_clears(const char* names, bool& value, const char* help);
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
  // The long names of all that was given; of a word without a name what the help calls it.
  std::vector<std::string> given_options() const;

 private:
  CLI::App* app_;
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
};

}  // namespace penstock::cli
