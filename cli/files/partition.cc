// penstock partition: the items of files dealt out to many files.

#include <memory>

#include "base/misuse.h"
#include "cli/common/command.h"
#include "cli/files/files_words.h"

namespace penstock::cli {
namespace {

struct PartitionArguments : FilesWords {
  std::string by = "hash";
  PartitionFilesOptions partition;
  PartitionArguments() { can_compress = false; }
};

int run_partition(const PartitionArguments& arguments) {
  return run_files("partition", arguments, [&](const FilesOptions& files) -> Result<std::string> {
    PartitionFilesOptions options = arguments.partition;
    options.checksums = arguments.json;
    using enum PartitionFilesBy;
    for (const PartitionFilesBy way : {range, hash, bits}) {
      if (arguments.by != name_of(way)) continue;
      options.by = way;
      return told(partition_files(files, options));
    }
    return misuse("partition in this way", "--by " + arguments.by, "range, hash or bits");
  });
}

}  // namespace

Command add_partition(Parser& program) {
  Parser parser = program.add_subcommand(
      "partition", "deal the items of files out to many files, by range, hash or bits of the key");
  auto arguments = std::make_shared<PartitionArguments>();
  add_files_words(parser, *arguments, "what to partition; - or nothing is standard input");
  add_text_words(parser, arguments->format.text, false);
  parser
      .add_option("-o,--output", arguments->output,
                  "names of the parts: the part's number stands for {}, as in 'part-{}.bin'")
      .required();
  parser.add_option("--by", arguments->by, "range, hash or bits (default: hash)");
  parser.add_option("--parts", arguments->partition.parts, "how many; for bits a power of two");
  parser.add_option("--bounds", arguments->partition.bounds_path,
                    "for range: a file of items, in order, each the first of a part; without it a "
                    "sample finds bounds that make parts of equal sizes");
  return {parser, [arguments] { return run_partition(*arguments); }};
}

}  // namespace penstock::cli
