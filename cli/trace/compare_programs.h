#pragma once

// Programs that do the same work on the same input: those that are prepared, and the user's own.
// Each becomes the words of a command line; how they run is compare.cc's.

#include <cstdint>
#include <string>
#include <vector>

#include "penstock/base.h"

namespace penstock::cli {

// What all programs of a comparison are given.
struct SharedWork {
  std::string input;   // absolute
  std::string format;  // "lines" or "u64"
  uint64_t memory_bytes = 0;
  unsigned threads = 1;
  std::string device = {};  // what the traces are replayed on, where it is a profile (--device)
};

// What one of them is.
struct ComparedProgram {
  std::string name;
  std::vector<std::string> words;    // the command line, to run as it is
  std::vector<std::string> prepare;  // a command that runs before, and is not traced; empty: none
  std::string input;                 // what it reads: the shared input, or what `prepare` made
  std::string output;                // what it writes
  bool same_bytes = false;           // its output is as long as the input
  std::string problem;               // why it cannot run here
};

std::vector<std::string> preset_names();

// A prepared program. `folder` is empty and all its own. A program that is not installed, or cannot
// do this work, has a `problem`. Errors: invalid_argument for a name that is none.
Result<ComparedProgram> preset(const std::string& name, const SharedWork& work,
                               const std::string& folder);

// NAME=COMMAND, a line for the shell in which {input}, {output}, {memory} (bytes), {threads} and
// {tmp} (an empty folder) are replaced, quoted as the shell needs it.
Result<ComparedProgram> user_program(const std::string& name_and_command, const SharedWork& work,
                                     const std::string& folder);

}  // namespace penstock::cli
