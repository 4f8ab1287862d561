#pragma once

// The interface of a subcommand. Each has one file, which declares its options and prints; the work
// is done in src/.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/common/parser.h"
#include "penstock/base.h"

namespace penstock::cli {

// Exit codes, as GNU sort's.
inline constexpr int exit_ok = 0;
inline constexpr int exit_disorder = 1;    // -c, -C: the input is not sorted
inline constexpr int exit_incomplete = 1;  // a part could not be read or done; the rest was
inline constexpr int exit_error = 2;       // any other failure

// A subcommand that was added to the program: run() is called after parsing when `parser` was
// chosen, and returns the program's exit code.
struct Command {
  Parser parser;
  std::function<int()> run;
};

Command add_cat(Parser& program);
Command add_check(Parser& program);
Command add_compare(Parser& program);
Command add_convert(Parser& program);
Command add_disk(Parser& program);
Command add_doctor(Parser& program);
Command add_find(Parser& program);
Command add_gen(Parser& program);
Command add_group(Parser& program);
Command add_head(Parser& program);
Command add_uniq(Parser& program);
Command add_join(Parser& program);
Command add_merge(Parser& program);
Command add_partition(Parser& program);
Command add_plan(Parser& program);
Command add_replay(Parser& program);
Command add_report(Parser& program);
Command add_sample(Parser& program);
Command add_shuf(Parser& program);
Command add_sort(Parser& program);
Command add_split(Parser& program);
// Makes the program itself the sort command, for a program that was started under the name "sort".
Command make_sort(Parser& program);
Command add_trace(Parser& program);

// Returns the words of "trace" with a "--" in front of the traced program, so that its options are
// not taken for ours. `trace` is the parser of the command.
std::vector<std::string> mark_traced_program(std::vector<std::string> words, const Parser& trace);

// An option as it was typed: all of its names, the one on the command line, and its value.
struct TypedOption {
  std::vector<std::string> names;
  std::string name;
  std::string value;
};
// Keeps the command, the options and the text of the command line, for messages and pages.
void keep_typed(std::string command, std::vector<TypedOption> options, std::string text);
// Returns the words after the program's name, as one types them: "sort -S 1G big.txt".
const std::string& typed_text();
// Returns the command that was typed, "sort"; empty if there was none.
const std::string& typed_command();
// Returns whether an option was given with this value by this name, "--key", and not by another one.
bool was_typed(std::string_view name, std::string_view value);
// Returns a text of a message with the names of options as they were typed: "--threads 0" for
// "--parallel 0".
std::string as_typed(std::string text);

// The beginning of each message: "penstock COMMAND", or "sort" after call_me_sort().
std::string called(std::string_view command);
void call_me_sort();

// Prints "penstock COMMAND: MESSAGE" on stderr; returns exit_error, for `return report(...)`.
int report(std::string_view command, const Error& error);

}  // namespace penstock::cli
