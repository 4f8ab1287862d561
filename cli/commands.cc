#include "cli/commands.h"

#include <algorithm>
#include <utility>

#include "cli/sort/gnu_options.h"

namespace penstock::cli {
namespace {

constexpr const char* sorting = "Sort and combine";
constexpr const char* reading = "Read and write files";
constexpr const char* planning = "Plan";
constexpr const char* tracing = "Trace programs";

constexpr CommandDeclaration commands[] = {
    {"sort", add_sort, sorting},      {"merge", add_merge, sorting},
    {"join", add_join, sorting},      {"group", add_group, sorting},
    {"uniq", add_uniq, sorting},      {"partition", add_partition, sorting},
    {"split", add_split, sorting},    {"shuf", add_shuf, sorting},
    {"sample", add_sample, sorting},  {"check", add_check, sorting},
    {"cat", add_cat, reading},        {"head", add_head, reading},
    {"find", add_find, reading},      {"gen", add_gen, reading},
    {"plan", add_plan, planning},     {"disk", add_disk, planning},
    {"doctor", add_doctor, planning}, {"trace", add_trace, tracing},
    {"report", add_report, tracing},  {"convert", add_convert, tracing},
    {"replay", add_replay, tracing},  {"compare", add_compare, tracing}};

}  // namespace

std::span<const CommandDeclaration> all_commands() {
  return commands;
}

std::vector<Command> commands_for(std::string_view word, Parser& program) {
  std::vector<Command> added;
  for (const auto& command : commands) {
    if (command.name == word) return {command.add(program)};
  }
  for (const auto& command : commands) {
    added.push_back(command.add(program));
    added.back().parser.heading(command.heading);
  }
  Parser help = program.add_subcommand("help", "explain the program or a command");
  help.heading("Help");
  help.describe(
      {.examples = {
           {"penstock help sort", "the help of a command"},
           {"penstock help --man sort | man -l -", "its manual page"},
           {"source <(penstock help --completion bash)", "complete words in bash; or zsh, fish"},
           {"penstock help --write share", "write manual pages and completions"}}});
  return added;
}

std::vector<std::string> words_of(int argc, const char* const* argv,
                                  const std::vector<Command>& commands) {
  std::vector<std::string> words(argv + std::min(argc, 1), argv + argc);
  if (words.empty() || commands.size() != 1) return words;
  if (words.front() == "trace") return mark_traced_program(std::move(words), commands[0].parser);
  if (words.front() == "sort") return with_gnu_forms(std::move(words), commands[0].parser);
  return words;
}

}  // namespace penstock::cli
