#pragma once

// The options of all commands that run on files, and the outline of a run: signals, notices, the
// progress line and a share of a memory pool around the work.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "cli/common/format_options.h"
#include "cli/common/parser.h"
#include "cli/common/progress_line.h"
#include "penstock/files.h"

namespace penstock::cli {

struct RunWords {
  std::vector<std::string> inputs;
  std::string output = "-";
  FormatOptions format;
  bool descending = false;
  std::string memory;
  std::vector<std::string> temp_directories;
  std::string pool_of_memory;     // --memory-pool NAME[:SIZE]
  bool takes_any_memory = false;  // raises a too small -S to the least that works
  std::string device;
  std::string compressed;
  bool can_compress = true;  // the command has -Z
  OutputRules output_rules;
  SourceOptions source;
  TellingWords telling;
  bool json = false;
};

// Declares -S and -T.
void add_memory_words(Parser& parser, RunWords& words);
void add_memory_pool_word(Parser& parser, RunWords& words);
// The bytes of -S; nine tenths of the machine's memory if -S asks for more than that machine has.
Result<uint64_t> memory_bytes_of(const RunWords& words);
// Converts the words to the library's options. Errors: a word is wrong.
Result<FilesOptions> files_options(const RunWords& words);

// Does `work` with the options, after setting their cancel flag, notices and progress and taking
// the share of the pool. Returns the exit code; prints the message of a failure.
int carry_out(const std::string& command, const RunWords& words, FilesOptions& options,
              const std::function<Status()>& work);

}  // namespace penstock::cli
