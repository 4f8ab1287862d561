#pragma once

// The help, manual pages and shell completions, all made from the texts that the options were
// declared with.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/common/parser.h"
#include "penstock/base.h"

namespace penstock::cli {

// The help of a command, or of the program if `command` is empty, in lines of at most 80
// characters, or of a narrower terminal's columns down to 60. `all`: also the rare options. This and
// the functions below return nullopt if there is no such command or shell.
std::optional<std::string> help_text(const std::vector<CommandText>& texts,
                                     std::string_view command, bool all = false);

// A manual page of section 1 in the man(7) format.
std::optional<std::string> manual_page(const std::vector<CommandText>& texts,
                                       std::string_view command, std::string_view version);

// The completion script for `shell`: bash, zsh or fish.
std::optional<std::string> completion(const std::vector<CommandText>& texts,
                                      std::string_view shell);

// Writes all manual pages and completions below `folder`, which has the layout of an installation's
// share/.
Status write_manual(const std::vector<CommandText>& texts, std::string_view version,
                    const std::string& folder);

}  // namespace penstock::cli
