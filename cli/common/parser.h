#pragma once

// The declaration and parsing of the options of the program and its subcommands.
//
// CLI11 does the parsing. A file that includes it takes seconds to compile, so only parser.cc does,
// and lists the types that an option can have. Errors name the subcommand, and have exit code 2
// (command.h).

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "penstock/base.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace penstock::cli {

// A mode of a command: some options choose it, and others have no meaning in it. `text` is its name
// in messages, such as "with --size".
struct Mode {
  unsigned bit;
  const char* text;
};

// The mode of options that name none: the command's plain run.
inline constexpr unsigned plain_mode = 1;

// A command line in a command's help, and its effect in a few words.
struct Example {
  const char* command;
  const char* effect;
};

// Stands for all exit codes that CommandNotes does not list.
inline constexpr int other_exit_code = -1;

// The texts of a command's help besides its options.
struct CommandNotes {
  std::vector<Example> examples;
  std::vector<std::string> notes;  // paragraphs
  std::vector<std::pair<int, const char*>> exit_codes = {{0, "done"}, {2, "any error"}};
};

// How a command uses the files that an option or a positional word names.
enum class FileUse {
  none,
  read,
  written,   // must not be one that is read
  replaced,  // may be one that is read: the new file takes the name when it is complete
  parts,     // several `written` files: a pattern with {} for the number of each
};

// The properties of an option that CLI11 does not store.
struct Declared {
  unsigned modes = plain_mode;
  // Returns the words that the option's variable holds; null if the variable is not text.
  std::function<std::vector<std::string>()> words;
  bool is_list = false;
  bool (*looks_like_value)(const std::string&) = nullptr;            // Option::values_like()
  bool (*takes_next)(std::span<const std::string> words) = nullptr;  // Option::takes_next_word_if()
  const char* stands_for = nullptr;                                  // Option::stands_for()
  const char* example = nullptr;                                     // Option::required()
  std::string value_name;                                            // Option::value_name()
  std::vector<std::string> choices;                                  // Option::offers()
  bool is_rare = false;                                              // Option::rare()
  FileUse file_use = FileUse::none;                                  // Option::names_files()
  size_t first_file = 0;
};

// The declarations of a command line, by CLI11's options and commands.
struct Declarations {
  std::unordered_map<const CLI::Option*, Declared> options;
  std::unordered_map<const CLI::App*, CommandNotes> commands;
};

// A handle to an added option, to declare more properties of it. Copies are the same option.
class Option {
 public:
  Option(CLI::Option* option, Declared* declared) : option_(option), declared_(declared) {}

  // An option that must be given; `example` is a value for it.
  Option required(const char* example);
  // The modes in which the command obeys the option; Parser::refuse_outside() refuses it in all
  // others.
  Option in(unsigned modes);
  Option one_of(std::initializer_list<const char*> words);
  Option within(int64_t least, int64_t most);
  // `what_is_wrong` returns the message for a bad word, and an empty text for a good one.
  Option check(std::string (*what_is_wrong)(const std::string&));
  // For a flag with an optional value, which must follow "=": recognizes such a value. A next word
  // that looks like one is a mistake, unless it is the name of a file.
  Option values_like(bool (*looks_like_one)(const std::string&));
  // Another option that gives the same, whose name the command's errors use.
  Option stands_for(const char* name);
  // For a flag with an optional value: takes the next word for the value, unless that begins with
  // "-", if `it_does` for the words of the command line.
  Option takes_next_word_if(bool (*it_does)(std::span<const std::string> words));
  // The help's name for the value.
  Option value_name(const char* name);
  // Values that shells offer. Others are not refused.
  Option offers(std::span<const char* const> values);
  Option offers(std::initializer_list<const char*> values) {
    return offers(std::span(values.begin(), values.size()));
  }
  // Declares that the values are names of files, those of a list from number `first` on.
  Option names_files(FileUse use, size_t first = 0);
  // The heading above the option in the help.
  Option group(const char* heading);
  // Leaves the option out of --help; --help-all and the manual page have it.
  Option rare();
  // Leaves the option out of the help.
  Option hidden();

 private:
  CLI::Option* option_;
  Declared* declared_;
};

// A text option or a positional word, for tests: its names, and the value of its variable after
// parsing.
struct TextOption {
  std::vector<std::string> names;  // "-o", "--output"; empty for a positional word
  bool is_list = false;
  bool is_flag = false;     // takes a value only after "="
  bool is_checked = false;  // refuses some values
  bool is_required = false;
  std::function<std::vector<std::string>()> words;
};

// A handle to the options of the program or of one subcommand. Copies are the same options. The
// variable of an option must outlive the parsing, and keeps its value if the option is not given.
class Parser {
 public:
  Parser(CLI::App* app, Declarations* declarations) : app_(app), declarations_(declarations) {}

  Parser add_subcommand(const char* name, const char* help);
  // "-o,--output": an option with a value. "FILE": a positional word, or a list of those. A list
  // option takes one word each time that it is given. FILE and TRACE are files that are read, and
  // -o is one that is replaced, unless Option::names_files() declares another use.
  template <typename T>
  Option add_option(const char* names, T& value, const std::string& help);
  // An option without a value. (A text variable holds "true", or the value that follows a "=".)
  template <typename T>
  Option add_flag(const char* names, T& value, const char* help);
  Option add_flag_that_clears(const char* names, bool& value, const char* help);
  // A flag that is short for an option with the value `word`.
  Option add_flag_that_sets(const char* names, std::string& value, const char* word,
                            const char* help);
  // An option that is always an error; `message` says why. The help does not show it.
  void refuse(const char* names, bool takes_value, const std::string& message);
  // Keeps "--help" and "--version" only, for commands in which "-h" and "-V" are other options.
  void give_up_short_forms();
  // Hides the subcommand from the help, and accepts any words after its name.
  void leave_out();
  // The heading above the options that are added from now on, in the help and in the manual.
  void group(const char* heading);
  // The heading above the command in the list of commands.
  void heading(const char* text);
  void describe(CommandNotes notes);

  // To be called after parsing:
  bool chosen() const;
  bool given(const char* name) const;
  // The values of options in the order of the command line, each with the option's name, "--sum". (A
  // flag without a value has "true".)
  std::vector<std::pair<std::string, std::string>> values_in_order(
      std::span<const char* const> names) const;
  // Whether the next word of a command line is the value of this one, even if it looks like an
  // option. (May be called before parsing.)
  bool takes_next_word(const std::string& word) const;
  // Returns whether an option other than `name` has a long name that begins with `beginning`, as
  // "compressed" and "compress-program" begin with "compress".
  bool has_other_name(std::string_view beginning, std::string_view name) const;
  // Errors: an option was given that `mode` does not obey. Options of the modes `also` are let
  // pass.
  Status refuse_outside(const Mode& mode, unsigned also = 0) const;
  // Errors: two options name one file, to write both to it, or to write it in place and to read it.
  Status refuse_shared_files() const;
  std::vector<TextOption> text_options() const;

 private:
  CLI::App* app_;
  Declarations* declarations_;
};

// The texts of an option or a positional word in the help and the manual.
inline constexpr const char* usual_group = "Options";
struct OptionText {
  std::vector<std::string> names;  // "-o", "--output"; empty for a positional word
  std::string value;               // name of its value; empty: it takes none
  bool optional_value = false;
  std::vector<std::string> choices;  // values that shells offer
  std::string help;
  std::string group;
  bool is_rare = false;
  bool is_list = false;
  bool is_required = false;
};
struct CommandText {
  std::string name;
  std::string help;  // "merge sorted files into one"
  std::string group;
  CommandNotes notes;
  std::vector<OptionText> words;
  std::vector<OptionText> options;
};

class CommandLine {
 public:
  CommandLine(const char* name, const char* description, const char* version);
  ~CommandLine();

  Parser parser();
  // Parses `words`, which leave out the program's name. Returns the exit code if the program has
  // nothing more to do: it has printed the help, its version or an error.
  std::optional<int> parse(std::vector<std::string> words);
  // The texts of the program, then of its subcommands, without hidden options.
  std::vector<CommandText> texts() const;

 private:
  CLI::App* find(const std::string& subcommand) const;

  const std::unique_ptr<CLI::App> app_;
  Declarations declarations_;
};

}  // namespace penstock::cli
