#pragma once

// Programs that do the same work on the same input: presets, and the user's own. Each becomes the
// words of a command line, which compare.cc runs.

#include <cstdint>
#include <string>
#include <vector>

#include "penstock/base.h"

namespace penstock::cli {

// The work that all programs of a comparison do.
struct SharedWork {
  std::string input;   // absolute path
  std::string format;  // "lines" or "u64"
  uint64_t memory_bytes = 0;
  unsigned threads = 1;
  std::string device = {};  // profile on which the traces are replayed (--device); empty for a disk
};

// A program of a comparison.
struct ComparedProgram {
  std::string name;
  std::vector<std::string> words;    // the command line
  std::vector<std::string> prepare;  // a command that runs before, untraced; empty: none
  std::string input;                 // the shared input, or the output of `prepare`
  std::string output;                // the output file
  bool same_bytes = false;           // the output is as long as the input
  std::string problem;               // why the program cannot run here
};

std::vector<std::string> preset_names();

// Makes a preset program. `folder` is empty and for this program alone. A program that is not
// installed, or cannot do this work, has a `problem`. Errors: invalid_argument for an unknown name.
Result<ComparedProgram> preset(const std::string& name, const SharedWork& work,
                               const std::string& folder);

// Makes a program of NAME=COMMAND, a line for the shell in which {input}, {output}, {memory}
// (bytes), {threads} and {tmp} (an empty folder) are replaced, quoted for the shell.
Result<ComparedProgram> user_program(const std::string& name_and_command, const SharedWork& work,
                                     const std::string& folder);

}  // namespace penstock::cli
