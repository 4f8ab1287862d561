// penstock split: the items of files in parts, in their order.

#include <memory>
#include <string>

#include "cli/common/command.h"
#include "cli/common/option_words.h"
#include "cli/common/size.h"
#include "cli/files/files_words.h"

namespace penstock::cli {
namespace {

struct SplitArguments : RunWords {
  SplitFilesOptions split;
  std::string bytes;
  SplitArguments() {
    can_compress = false;
    orders = true;
  }
};

int run_split(const SplitArguments& arguments) {
  return run_files("split", arguments, [&](const FilesOptions& files) -> Result<FilesDone> {
    SplitFilesOptions split = arguments.split;
    if (!arguments.bytes.empty()) {
      const auto bytes = parse_size("--bytes", arguments.bytes, 0);
      if (!bytes) return std::unexpected(bytes.error());
      split.bytes = *bytes;
    }
    return figures_of(split_files(files, split));
  });
}

}  // namespace

Command add_split(Parser& program) {
  Parser parser = program.add_subcommand("split", "cut files into parts of whole lines or rows");
  auto arguments = std::make_shared<SplitArguments>();
  parser.describe(
      {.examples = {{"penstock split -l 1000000 big.txt -o 'part-{}.txt'",
                     "parts of a million lines: part-00000.txt and so on"},
                    {"penstock split --bytes 1G --csv --header orders.csv -o 'part-{}.csv'",
                     "parts of at most 1 GiB, each with the header"}},
       .notes = {"Sizes are as in penstock sort. Parts appear when all are complete. For parts by "
                 "the values of a key: penstock partition."}});
  add_items_words(parser, *arguments, "files to split (default, or -: standard input)");
  parser.group("Parts");
  parser
      .add_option("-o,--output", arguments->output,
                  "names of the parts; {} becomes the part's number, as in 'part-{}.csv'")
      .required("'part-{}', where {} becomes the number of the part")
      .names_files(FileUse::parts);
  add_option(parser, api::option<SplitFilesOptions>("items"), arguments->split.items)
      .check(what_is_wrong_with_a_count);
  add_option(parser, api::option<SplitFilesOptions>("bytes"), arguments->bytes);
  parser.refuse("-b", true, "cannot cut items (try: -C, whose parts have whole ones)");
  parser.refuse("-n,--number", true,
                "cannot make a number of parts in order (try: -l or -C; or penstock partition "
                "--parts 4, which divides by keys)");
  return {parser, [arguments] { return run_split(*arguments); }};
}

}  // namespace penstock::cli
