#pragma once

// The words of every command that runs on files, and the outline of its run: options made of the words; signals, notices, the
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
  bool takes_any_memory = false;  // too little is the least that works
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
// The bytes of -S; nine tenths of what there is, where it asks for more.
Result<uint64_t> memory_bytes_of(const RunWords& words);
// The words as the library takes them, or what is wrong with them.
Result<FilesOptions> files_options(const RunWords& words);

// Does `work` with the options, which get signals, notices, progress and the share of the pool. Returns the exit code: of a
// failure, after its message.
int carry_out(const std::string& command, const RunWords& words, FilesOptions& options,
              const std::function<Status()>& work);

}  // namespace penstock::cli
