#pragma once

// What merge, partition, group and join have in common on the command line: inputs, format, memory,
// temporaries, the device; the signals, the progress line and the statistics of a run.

#include <functional>
#include <string>

#include "cli/common/parser.h"
#include "cli/common/run_words.h"
#include "penstock/files.h"

namespace penstock::cli {

// `words` must outlive the parsing. The commands add their own -o.
void add_files_words(Parser& parser, RunWords& words, const char* inputs_help);
extern const char* const files_words_footer;

// One run: the words made options, signals and progress around `work`, which tells what it did as
// JSON; or the message of what went wrong. Returns the exit code.
using FilesWork = std::function<Result<std::string>(const FilesOptions& options)>;
int run_files(const std::string& command, const RunWords& words, const FilesWork& work);

// What an operation returns, told.
template <class Stats>
Result<std::string> told(const Result<Stats>& done) {
  if (!done) return std::unexpected(done.error());
  return to_json(*done);
}

}  // namespace penstock::cli
