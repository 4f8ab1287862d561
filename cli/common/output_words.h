#pragma once

// What every command with an output says of it.

#include <unistd.h>

#include <string>

#include "cli/common/modes.h"
#include "cli/common/parser.h"
#include "cli/common/stop_signals.h"
#include "file/file.h"

namespace penstock::cli {

// `rules` must outlive the parsing.
inline void add_output_words(Parser& parser, OutputRules& rules) {
  constexpr unsigned written = modes::items | modes::merging;
  parser
      .add_flag("--overwrite-device", rules.overwrite_device,
                "the output may be a block device: all that is on it is lost")
      .in(written);
  parser
      .add_flag_that_clears(
          "--no-sync", rules.sync,
          "end before the output is on the disk: faster, but a power cut soon after may lose it")
      .in(written);
}

// What a stopped run tells. A file is written anew, and the inputs stay what they are; what is
// written as it is, is half written, and nothing more is known.
inline StopOptions stop_options(const std::string& command, const std::string& output,
                                const OutputRules& rules) {
  const bool anew = !rules.overwrite_device && file::names_a_file(output);
  StopOptions options{.command = command,
                      .outcome = "the output is not complete",
                      .writes_stdout = file::output_descriptor(output) == STDOUT_FILENO};
  if (!anew) return options;
  options.outcome = "the input is untouched, no output was written";
  // It may have been about to get its name.
  options.outcome_at_once = "the output is there only if it is complete";
  return options;
}

}  // namespace penstock::cli
