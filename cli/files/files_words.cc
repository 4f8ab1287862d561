#include "cli/files/files_words.h"

#include <unistd.h>

#include <utility>

#include "base/misuse.h"
#include "cli/common/command.h"
#include "cli/common/compressed_word.h"
#include "cli/common/option_words.h"
#include "cli/common/output_words.h"
#include "cli/common/print.h"
#include "cli/common/source_words.h"
#include "io/file.h"

namespace penstock::cli {
void add_files_words(Parser& parser, RunWords& words, const char* inputs_help,
                     std::vector<Example> examples) {
  parser.describe({.examples = std::move(examples),
                   .notes = {"Sizes are as in penstock sort: K M G T for powers of 1024, b for "
                             "bytes, % for a share of the memory. The guide is docs/files.md."}});
  parser.add_option("FILE", words.inputs, inputs_help);
  add_format_options(parser, words.format);
  parser.group("Memory and disk");
  add_memory_words(parser, words);
  add_memory_pool_word(parser, words);
  parser.group("Advanced");
  parser
      .add_option("--device", words.device,
                  "the disk to plan passes for: array24, hdd, sata-ssd, nvme, or a profile of "
                  "penstock disk (default: nvme)")
      .offers(disk_names)
      .rare();
  add_output_words(parser, words.output_rules);
  add_source_words(parser, words.source);
  add_option(parser, api::option<FilesOptions>("bad_rows"), words.bad_rows)
      .names_files(FileUse::written);
  parser.group("Input and output");
  parser.add_flag("--json", words.json, "print the statistics as JSON").rare();
  add_telling_words(parser, words.telling);
}

void add_items_words(Parser& parser, RunWords& words, const char* inputs_help) {
  words.takes_keys = false;
  parser.add_option("FILE", words.inputs, inputs_help);
  add_format_options(parser, words.format, words.takes_keys);
  add_line_words(parser, words.format.text, false);
  parser.group("Memory and disk");
  add_option(parser, api::option<FilesOptions>("memory_bytes"), words.memory);
  parser.group("Input and output");
  add_source_words(parser, words.source);
  add_output_words(parser, words.output_rules);
  add_telling_words(parser, words.telling);
}

void add_draw_words(Parser& parser, DrawFilesOptions& words, bool by_chance) {
  parser.group("Items");
  add_option(parser, api::option<DrawFilesOptions>("count"), words.count)
      .check(what_is_wrong_with_a_count);
  if (!by_chance) return;
  add_option(parser, api::option<DrawFilesOptions>("seed"), words.seed)
      .check(what_is_wrong_with_a_seed);
}

void add_output_file(Parser& parser, RunWords& words) {
  parser.add_option("-o,--output", words.output,
                    "output file; may be an input (default: standard output)");
  add_compressed_word(parser, words.compressed);
}

int run_files(const std::string& command, const RunWords& words, const FilesWork& work) {
  if (words.json && io::output_descriptor(words.output) == STDOUT_FILENO)
    return report(
        command,
        misuse("print statistics to the same place as the output", "--json", "-o FILE").error());
  auto options = files_options(words);
  if (!options) return report(command, options.error());
  std::string json;
  const int code = carry_out(command, words, *options, [&]() -> Result<RunSummary> {
    auto done = work(*options);
    if (!done) return std::unexpected(done.error());
    json = std::move(done->json);
    return done->summary;
  });
  if (code != exit_ok) return code;
  if (words.json) print("{}\n", json);
  return exit_ok;
}

}  // namespace penstock::cli
