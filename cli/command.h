#pragma once

// How a subcommand joins the program: one file each, which parses into options of its own and
// prints. What it does lies in src/.

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <string_view>

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
Command add_doctor(CLI::App& program);
Command add_find(CLI::App& program);
Command add_gen(CLI::App& program);
Command add_sort(CLI::App& program);

// Prints "penstock COMMAND: what the error says" on stderr; returns exit_error, for `return
// report(...)`.
int report(std::string_view command, const Error& error);

}  // namespace penstock::cli
