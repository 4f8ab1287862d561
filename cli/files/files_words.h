#pragma once

// The options that merge, partition, group and join share (inputs, format, memory, temporaries, the
// device), and the outline of their runs: signals, the progress line, statistics.

#include <functional>
#include <string>

#include "cli/common/parser.h"
#include "cli/common/run_words.h"
#include "penstock/files.h"

namespace penstock::cli {

// `words` must outlive the parsing. The commands add their own -o.
void add_files_words(Parser& parser, RunWords& words, const char* inputs_help);
extern const char* const files_words_footer;

// Makes options of the words and runs `work`, which returns its statistics as JSON, with signals and
// progress. Prints the message of a failure. Returns the exit code.
using FilesWork = std::function<Result<std::string>(const FilesOptions& options)>;
int run_files(const std::string& command, const RunWords& words, const FilesWork& work);

// The statistics of an operation as JSON, or its error.
template <class Stats>
Result<std::string> json_of_stats(const Result<Stats>& done) {
  if (!done) return std::unexpected(done.error());
  return to_json(*done);
}

}  // namespace penstock::cli
