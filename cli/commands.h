#pragma once

// The commands of the program, and the words of its command line as the parser takes them.

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/common/command.h"

namespace penstock::cli {

struct CommandDeclaration {
  std::string_view name;
  Command (*add)(Parser& program);
  const char* heading;  // in the list of commands
};
std::span<const CommandDeclaration> all_commands();

// Adds only the command that `word` names: the options of the others cost a millisecond, and a file
// may have the name of another command. Adds all commands if `word` names none, for the help and
// for "did you mean".
std::vector<Command> commands_for(std::string_view word, Parser& program);

// Returns the words of a command line, without the program's name, for the commands that
// commands_for() added: inserts "--" in front of a traced program, and rewrites the forms of GNU
// sort's options that the parser does not know.
std::vector<std::string> words_of(int argc, const char* const* argv,
                                  const std::vector<Command>& commands);

}  // namespace penstock::cli
