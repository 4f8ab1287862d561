#pragma once

// The options that merge, partition, group and join share (inputs, format, memory, temporaries, the
// device), and the outline of their runs: signals, the progress line, statistics.

#include <functional>
#include <string>
#include <vector>

#include "cli/common/parser.h"
#include "cli/common/run_words.h"
#include "penstock/files.h"

namespace penstock::cli {

// `words` must outlive the parsing. The commands add their own -o.
void add_files_words(Parser& parser, RunWords& words, const char* inputs_help,
                     std::vector<Example> examples);

// Declares the options of commands that take items as they are: inputs and their format, without keys,
// -S, and the rules of outputs. `words` must outlive the parsing.
void add_items_words(Parser& parser, RunWords& words, const char* inputs_help);

// Declares -n and, if `by_chance`, --seed. `words` must outlive the parsing.
void add_draw_words(Parser& parser, DrawFilesOptions& words, bool by_chance);

// Declares -o of commands with one output, and -Z.
void add_output_file(Parser& parser, RunWords& words);

// The statistics of a finished operation.
struct FilesDone {
  std::string json;
  RunSummary summary;
};

// Makes options of the words and runs `work` with signals and progress. Prints the message of a
// failure. Returns the exit code.
using FilesWork = std::function<Result<FilesDone>(const FilesOptions& options)>;
int run_files(const std::string& command, const RunWords& words, const FilesWork& work);

// The figures of an operation without statistics as JSON, or its error.
template <class Stats>
Result<FilesDone> figures_of(const Result<Stats>& done) {
  if (!done) return std::unexpected(done.error());
  return FilesDone{{}, summary_of(*done)};
}

// The statistics of an operation, or its error.
template <class Stats>
Result<FilesDone> statistics_of(const Result<Stats>& done) {
  if (!done) return std::unexpected(done.error());
  return FilesDone{to_json(*done), summary_of(*done)};
}

}  // namespace penstock::cli
