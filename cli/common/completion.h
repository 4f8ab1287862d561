#pragma once

// Completion scripts of shells, made from the texts that the options were declared with.

#include <string>
#include <vector>

#include "cli/common/parser.h"

namespace penstock::cli {

std::string bash_completion(const std::vector<CommandText>& texts);
std::string zsh_completion(const std::vector<CommandText>& texts);
std::string fish_completion(const std::vector<CommandText>& texts);

}  // namespace penstock::cli
