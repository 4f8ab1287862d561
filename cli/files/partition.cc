// penstock partition: distributes the items of files to many files.

#include <memory>

#include "base/shell_word.h"
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
  return run_files("partition", arguments, [&](const FilesOptions& files) -> Result<FilesDone> {
    PartitionFilesOptions options = arguments.partition;
    options.checksums = arguments.json;
    const auto by =
        api::value_of_word<PartitionFilesBy>(arguments.by, "partition in this way", "--by ");
    if (!by) {
      Error error = by.error();
      error.hint += "; for the values of a column --key " + typed_word(arguments.by);
      return std::unexpected(error);
    }
    options.by = *by;
    return statistics_of(partition_files(files, options));
  });
}

}  // namespace

Command add_partition(Parser& program) {
  Parser parser =
      program.add_subcommand("partition", "distribute items to files by range, hash or bits");
  auto arguments = std::make_shared<PartitionArguments>();
  add_files_words(
      parser, *arguments, "files to partition (default, or -: standard input)",
      {{"penstock partition --parts 8 -k1,1 access.log -o 'part-{}.log'",
        "distribute lines to 8 files; those with the same first field to the same file"},
       {"penstock partition --by range --parts 4 --format u64 keys.u64 -o 'part-{}.u64'",
        "split numbers into 4 ranges of about the same size"}});
  add_text_words(parser, arguments->format.text, false);
  parser.group("Parts");
  parser
      .add_option("-o,--output", arguments->output,
                  "names of the parts; {} becomes the part's number, as in 'part-{}.bin'")
      .required("'part-{}', where {} becomes the number of the part")
      .names_files(FileUse::parts);
  add_option(parser, api::option<PartitionFilesOptions>("by"), arguments->by)
      .offers(api::option_words<PartitionFilesBy>);
  add_options(parser, arguments->partition);
  return {parser, [arguments] { return run_partition(*arguments); }};
}

}  // namespace penstock::cli
