#pragma once

// What merge, partition, group and join have in common on the command line: inputs, format, memory,
// temporaries, the device; the signals, the progress line and the statistics of a run.

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "cli/common/format_options.h"
#include "cli/common/parser.h"
#include "cli/common/profile_json.h"
#include "cli/sort/sort_words.h"
#include "files/options.h"

namespace penstock::cli {

struct FilesWords : MemoryWords {
  std::vector<std::string> inputs;
  std::string output = "-";
  FormatOptions format;
  OrderRules order;
  std::string device;
  bool json = false;
  file::OutputRules output_rules;
  SourceOptions source;
};

// `words` must outlive the parsing. The commands add their own -o.
void add_files_words(Parser& parser, FilesWords& words, const char* inputs_help);
extern const char* const files_words_footer;

// One run: the words made options, signals and progress around `work`, which fills in what it found
// for --json; or the message of what went wrong. Returns the exit code.
using FilesWork = std::function<Status(files::FilesOptions& options, nlohmann::ordered_json& told)>;
int run_files(const std::string& command, const FilesWords& words, const FilesWork& work);

// What --json tells of every run.
nlohmann::ordered_json files_json(const files::FilesStats& stats);

}  // namespace penstock::cli
