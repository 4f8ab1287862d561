#pragma once

// The options that all commands with an output share.

#include <sys/stat.h>
#include <unistd.h>

#include <string>

#include "base/misuse.h"
#include "cli/common/option_words.h"
#include "cli/common/stop_signals.h"
#include "io/file.h"

namespace penstock::cli {

// `rules` must outlive the parsing.
inline void add_output_words(Parser& parser, OutputRules& rules) {
  add_flag(parser, api::option<FilesOptions>("overwrite_device"), rules.overwrite_device);
  add_flag_that_clears(parser, api::option<FilesOptions>("sync"), rules.sync);
}

// Refuses --overwrite-device for an output that is no block device. (The parts of a partition are
// several.)
inline Status check_overwrite_device(const std::string& output, const OutputRules& rules) {
  if (!rules.overwrite_device || output.contains("{}")) return {};
  const auto descriptor = io::output_descriptor(output);
  struct stat there = {};
  const int failed = descriptor ? ::fstat(*descriptor, &there) : ::stat(output.c_str(), &there);
  if (failed == 0 && S_ISBLK(there.st_mode)) return {};
  return misuse("overwrite what is no block device", output == "-" ? "standard output" : output,
                "the same without --overwrite-device");
}

// The messages of a stopped run. A new file appears only when it is complete, and the inputs stay
// intact; an output that is written in place (a device, a pipe) is left half written.
inline StopOptions stop_options(const std::string& command, const std::string& output,
                                const OutputRules& rules) {
  const bool anew = !rules.overwrite_device && io::names_a_file(output);
  StopOptions options{.command = command,
                      .outcome = "the output is not complete",
                      .writes_stdout = io::output_descriptor(output) == STDOUT_FILENO};
  if (!anew) return options;
  options.outcome = "the input is untouched, no output was written";
  // The run may have stopped just as the output got its name.
  options.outcome_at_once = "the output is there only if it is complete";
  return options;
}

}  // namespace penstock::cli
