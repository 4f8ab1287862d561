#pragma once

// How a subcommand joins the program: one file each, which parses into options of its own and
// prints. What it does lies in src/.

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/error.h"

namespace penstock::cli {

// Exit codes, as GNU sort's.
inline constexpr int exit_ok = 0;
inline constexpr int exit_disorder = 1;  // -c, -C: the input is not sorted
inline constexpr int exit_error = 2;     // anything that kept the program from doing what was asked

// A subcommand that was added to the program: run() is called after parsing when `app` was chosen,
// and returns the program's exit code.
struct Command {
  CLI::App* app;
  std::function<int()> run;
};

Command add_cat(CLI::App& program);
Command add_check(CLI::App& program);
Command add_compare(CLI::App& program);
Command add_convert(CLI::App& program);
Command add_disk(CLI::App& program);
Command add_doctor(CLI::App& program);
Command add_find(CLI::App& program);
Command add_gen(CLI::App& program);
Command add_group(CLI::App& program);
Command add_join(CLI::App& program);
Command add_merge(CLI::App& program);
Command add_partition(CLI::App& program);
Command add_plan(CLI::App& program);
Command add_replay(CLI::App& program);
Command add_report(CLI::App& program);
Command add_sort(CLI::App& program);
Command add_trace(CLI::App& program);

// The words of a command line, the program's name left out, with a "--" in front of the program
// that `penstock trace` is to run, whose own options are none of ours.
std::vector<std::string> mark_traced_program(int argc, const char* const* argv);

// Prints "penstock COMMAND: what the error says" on stderr; returns exit_error, for `return
// report(...)`.
int report(std::string_view command, const Error& error);

}  // namespace penstock::cli
