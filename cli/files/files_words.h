#pragma once

// What merge, partition, group and join have in common on the command line: inputs, format, memory,
// temporaries, the device; the signals, the progress line and the statistics of a run.

#include <functional>
#include <string>
#include <vector>

#include "cli/common/format_options.h"
#include "cli/common/parser.h"
#include "cli/common/progress_line.h"
#include "cli/sort/sort_words.h"
#include "penstock/files.h"

namespace penstock::cli {

struct FilesWords : MemoryWords {
  std::vector<std::string> inputs;
  std::string output = "-";
  FormatOptions format;
  bool descending = false;
  std::string device;
  bool json = false;
  OutputRules output_rules;
  std::string compressed;    // of those that write one output, which add the word themselves
  bool can_compress = true;  // the command has -Z
  SourceOptions source;
  TellingWords telling;
};

// `words` must outlive the parsing. The commands add their own -o.
void add_files_words(Parser& parser, FilesWords& words, const char* inputs_help);
extern const char* const files_words_footer;

// One run: the words made options, signals and progress around `work`, which tells what it did as
// JSON; or the message of what went wrong. Returns the exit code.
using FilesWork = std::function<Result<std::string>(const FilesOptions& options)>;
int run_files(const std::string& command, const FilesWords& words, const FilesWork& work);

// What an operation returns, told.
template <class Stats>
Result<std::string> told(const Result<Stats>& done) {
  if (!done) return std::unexpected(done.error());
  return to_json(*done);
}

}  // namespace penstock::cli
