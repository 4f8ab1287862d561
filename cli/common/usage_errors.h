#pragma once

// Messages about words of a command line that the parser does not take. Only parser.cc and
// this file use CLI11.

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace penstock::cli {

bool is_shown(const CLI::App* command);
// The help's name for the option's value.
std::string value_of(const CLI::Option& option);
// Returns the option with this name, "--key" or "-k"; nullptr if there is none.
const CLI::Option* find_option(const CLI::App& app, std::string_view name);

// Returns the message about a size whose unit follows a blank, as in "-S 1 G"; empty if there is
// none.
std::string detached_unit(const CLI::App& app, const std::vector<std::string>& words);
// Returns the message about the first negative number, which CLI11 takes for a positional word, as
// it does with the rest of "-n3"; empty if there is none.
std::string negative_number(const CLI::App& app, const std::vector<std::string>& words);
// Returns the message about a value that is no number, from CLI11's "Could not convert: --name =
// value".
std::string unreadable_value(const CLI::App& app, const std::string& text);
// Returns the message about words that no option takes, `left`: it names the first of them in
// `words`.
std::string unexpected_word(const CLI::App& app, bool is_program,
                            const std::vector<std::string>& words,
                            const std::vector<std::string>& left);

}  // namespace penstock::cli
