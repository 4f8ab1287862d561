#pragma once

// What every command with an output says of it.

#include <unistd.h>

#include <string>

#include "cli/common/option_words.h"
#include "cli/common/stop_signals.h"
#include "io/file.h"

namespace penstock::cli {

// `rules` must outlive the parsing.
inline void add_output_words(Parser& parser, OutputRules& rules) {
  add_flag(parser, api::option<FilesOptions>("overwrite_device"), rules.overwrite_device);
  add_flag_that_clears(parser, api::option<FilesOptions>("sync"), rules.sync);
}

// What a stopped run tells. A file is written anew, and the inputs stay what they are; what is
// written as it is, is half written, and nothing more is known.
inline StopOptions stop_options(const std::string& command, const std::string& output,
                                const OutputRules& rules) {
  const bool anew = !rules.overwrite_device && io::names_a_file(output);
  StopOptions options{.command = command,
                      .outcome = "the output is not complete",
                      .writes_stdout = io::output_descriptor(output) == STDOUT_FILENO};
  if (!anew) return options;
  options.outcome = "the input is untouched, no output was written";
  // It may have been about to get its name.
  options.outcome_at_once = "the output is there only if it is complete";
  return options;
}

}  // namespace penstock::cli
