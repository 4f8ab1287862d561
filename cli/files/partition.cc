// penstock partition: distributes the items of files to many files.

#include <memory>

#include "cli/common/command.h"
#include "cli/common/option_words.h"
#include "cli/files/files_words.h"

namespace penstock::cli {
namespace {

struct PartitionArguments : RunWords {
  std::string by = "hash";
  PartitionFilesOptions partition;
  PartitionArguments() { can_compress = false; }
};

int run_partition(const PartitionArguments& arguments) {
  return run_files("partition", arguments, [&](const FilesOptions& files) -> Result<std::string> {
    PartitionFilesOptions options = arguments.partition;
    options.checksums = arguments.json;
    const auto by =
        api::value_of_word<PartitionFilesBy>(arguments.by, "partition in this way", "--by ");
    if (!by) return std::unexpected(by.error());
    options.by = *by;
    return json_of_stats(partition_files(files, options));
  });
}

}  // namespace

Command add_partition(Parser& program) {
  Parser parser = program.add_subcommand(
      "partition", "distribute items to many files, by range, hash or bits of the key");
  auto arguments = std::make_shared<PartitionArguments>();
  add_files_words(parser, *arguments, "files to partition (default, or -: standard input)");
  add_text_words(parser, arguments->format.text, false);
  parser
      .add_option("-o,--output", arguments->output,
                  "names of the parts; {} becomes the part's number, as in 'part-{}.bin'")
      .required();
  add_option(parser, api::option<PartitionFilesOptions>("by"), arguments->by);
  add_options(parser, arguments->partition);
  return {parser, [arguments] { return run_partition(*arguments); }};
}

}  // namespace penstock::cli
