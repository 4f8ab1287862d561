#include "cli/files/files_words.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/misuse.h"
#include "cli/common/binary_input.h"
#include "cli/common/command.h"
#include "cli/common/compressed_word.h"
#include "cli/common/output_words.h"
#include "cli/common/print.h"
#include "cli/common/progress_line.h"
#include "cli/common/source_words.h"
#include "cli/common/stop_signals.h"
#include "file/file.h"

namespace penstock::cli {
namespace {

// Where nothing but files is written, stdout belongs to --json.
bool writes_stdout(const FilesWords& words) {
  return file::output_descriptor(words.output) == STDOUT_FILENO;
}

Result<FilesOptions> files_options(const FilesWords& words) {
  if (words.json && writes_stdout(words))
    return misuse("print statistics between the output's items", "--json", "-o FILE");
  auto items = words.format.items(words.descending);
  if (!items) return std::unexpected(items.error());
  if (Status usable = check_temp_directories(words); !usable)
    return std::unexpected(usable.error());
  auto memory_bytes = memory_bytes_of(words);
  if (!memory_bytes) return std::unexpected(memory_bytes.error());
  auto compressed = compressed_format(words.compressed, words.output);
  if (!compressed) return std::unexpected(compressed.error());
  FilesOptions options{
      .inputs = words.inputs.empty() ? std::vector<std::string>{"-"} : words.inputs,
      .output = words.output,
      .compressed = *compressed,
      .items = std::move(*items),
      .memory_bytes = *memory_bytes,
      .memory_scope = MemoryScope::process,
      .temp_directories = words.temp_directories,
      .output_rules = words.output_rules,
      .source = words.source};
  if (!words.device.empty()) {
    auto loaded = load_profile(words.device);
    if (!loaded) return std::unexpected(loaded.error());
    options.device = std::make_shared<const DeviceProfile>(std::move(*loaded));
  }
  return options;
}

}  // namespace

const char* const files_words_footer =
    "Sizes are as penstock sort's: K M G T for powers of 1024, b for bytes, % for a share of the\n"
    "memory. docs/files.md is the guide. Exit codes: 0 done, 2 anything that went wrong.";

void add_files_words(Parser& parser, FilesWords& words, const char* inputs_help) {
  parser.add_option("FILE", words.inputs, inputs_help);
  add_format_options(parser, words.format);
  parser.group("Memory and disk");
  add_memory_words(parser, words);
  add_memory_pool_word(parser, words);
  parser.group("Advanced");
  parser.add_option("--device", words.device,
                    "the disk to plan passes for: array24, hdd, sata-ssd, nvme, or a profile of "
                    "penstock disk (default: nvme)");
  add_output_words(parser, words.output_rules);
  add_source_words(parser, words.source);
  parser.group("Input and output");
  parser.add_flag("--json", words.json, "print what was done, as JSON");
  add_telling_words(parser, words.telling);
  parser.footer(files_words_footer);
}

int run_files(const std::string& command, const FilesWords& words, const FilesWork& work) {
  auto options = files_options(words);
  if (!options) return report(command, options.error());
  StopOptions stop = stop_options(command, words.output, words.output_rules);
  stop.reads_stdin = std::ranges::find(options->inputs, "-") != options->inputs.end();
  StopSignals signals(stop);
  options->cancel = &signals.flag();
  const Result<std::string> done = [&]() -> Result<std::string> {
    ProgressLine line(words.telling);
    if (const std::string notice = memory_notice(words); !notice.empty())
      line.tell(command, notice);
    for (const std::string& notice :
         {words.telling.quiet ? std::string()
                              : binary_notice(options->inputs, options->items, options->source),
          uncompressed_notice(words.compressed, words.output, words.can_compress)}) {
      if (!notice.empty()) line.tell(command, notice);
    }
    options->notice = [&](const std::string& text) { line.tell(command, text); };
    if (line.wanted()) options->progress = [&](const FilesProgress& now) { line.show(now); };
    const auto share =
        take_of_memory_pool(words, options->memory_bytes, options->cancel, options->notice);
    if (!share) return std::unexpected(share.error());
    return work(*options);
  }();
  if (!done) {
    if (done.error().code == ErrorCode::interrupted && signals.caught() != 0) return signals.die();
    // Whoever read our output has what he wanted: end as other filters do.
    if (done.error().system_errno == EPIPE) return die_by(SIGPIPE);
    return report(command, done.error());
  }
  if (words.json) print("{}\n", *done);
  return exit_ok;
}

}  // namespace penstock::cli
