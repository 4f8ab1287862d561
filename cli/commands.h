#pragma once

// The commands of the program, and its command line as its parser takes it.

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/common/command.h"

namespace penstock::cli {

struct CommandDeclaration {
  std::string_view name;
  Command (*add)(Parser& program);
};
std::span<const CommandDeclaration> all_commands();

// The command that `word` names, alone: the options of the others cost a millisecond, and their names may be
// those of files. All commands where it names none, for the help and for the words near a wrong one.
std::vector<Command> commands_for(std::string_view word, Parser& program);

// The words of a command line, without the program's name, for the commands that commands_for() has made: a
// traced program stands behind "--", and forms of GNU sort's options that the parser does not know are put in
// those that it knows.
std::vector<std::string> words_of(int argc, const char* const* argv,
                                  const std::vector<Command>& commands);

}  // namespace penstock::cli
