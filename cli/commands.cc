#include "cli/commands.h"

#include <algorithm>
#include <utility>

#include "cli/sort/gnu_options.h"

namespace penstock::cli {
namespace {

constexpr CommandDeclaration commands[] = {
    {"sort", add_sort},           {"cat", add_cat},        {"find", add_find},
    {"check", add_check},         {"gen", add_gen},        {"disk", add_disk},
    {"plan", add_plan},           {"doctor", add_doctor},  {"trace", add_trace},
    {"convert", add_convert},     {"report", add_report},  {"merge", add_merge},
    {"partition", add_partition}, {"group", add_group},    {"join", add_join},
    {"replay", add_replay},       {"compare", add_compare}};

}  // namespace

std::span<const CommandDeclaration> all_commands() {
  return commands;
}

std::vector<Command> commands_for(std::string_view word, Parser& program) {
  std::vector<Command> added;
  for (const auto& command : commands) {
    if (command.name == word) return {command.add(program)};
  }
  for (const auto& command : commands) added.push_back(command.add(program));
  program.add_subcommand("help", "explain the program, or one of its commands")
      .footer(
          "penstock help COMMAND\n"
          "penstock help --man [COMMAND] | man -l -          show it as a manual page\n"
          "source <(penstock help --completion bash)        complete words in bash (or zsh, fish)\n"
          "penstock help --write FOLDER                     write manual pages and completions");
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
