#pragma once

// What the program says of itself, all of it made of the texts that its options were declared with: the help, manual pages, and
// what shells complete.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/common/parser.h"
#include "penstock/base.h"

namespace penstock::cli {

// Of the program (an empty name) or one of its commands, in lines of at most 100 characters. Nothing where there is no such
// command, as below.
std::optional<std::string> help_text(const std::vector<CommandText>& texts,
                                     std::string_view command);

// A manual page in section 1 in the language of man(7).
std::optional<std::string> manual_page(const std::vector<CommandText>& texts,
                                       std::string_view command, std::string_view version);

// What `shell` reads to complete the program's words: bash, zsh or fish.
std::optional<std::string> completion(const std::vector<CommandText>& texts,
                                      std::string_view shell);

// All of them, to where they are found when `folder` is the share/ of an installation.
Status write_manual(const std::vector<CommandText>& texts, std::string_view version,
                    const std::string& folder);

}  // namespace penstock::cli
