// penstock merge: merges any number of sorted files into one.

#include <memory>

#include "cli/common/command.h"
#include "cli/common/keep_word.h"
#include "cli/common/option_words.h"
#include "cli/files/files_words.h"

namespace penstock::cli {
namespace {

struct MergeArguments : RunWords {
  MergeFilesOptions merge;
  std::string keep;
  MergeArguments() { orders = counts_odd_values = true; }
};

int run_merge(const MergeArguments& arguments) {
  return run_files("merge", arguments, [&](const FilesOptions& files) -> Result<FilesDone> {
    MergeFilesOptions options = arguments.merge;
    if (Status kept = apply_keep_word(arguments.keep, options); !kept)
      return std::unexpected(kept.error());
    return statistics_of(merge_files(files, options));
  });
}

}  // namespace

Command add_merge(Parser& program) {
  Parser parser = program.add_subcommand("merge", "merge any number of sorted files into one");
  auto arguments = std::make_shared<MergeArguments>();
  add_files_words(parser, *arguments, "sorted files (default, or -: standard input)",
                  {{"penstock merge january.txt february.txt -o year.txt", "merge sorted lines"},
                   {"penstock merge --key id:n january.csv february.csv -o year.csv",
                    "merge CSV files that are sorted by a column"}});
  add_output_file(parser, *arguments);
  parser.add_flag("-r,--reverse,--desc", arguments->descending,
                  "the files are in descending order");
  add_columns_word(parser, *arguments);
  add_select_word(parser, *arguments);
  add_options(parser, arguments->merge);
  add_keep_word<MergeFilesOptions>(parser, arguments->keep);
  add_text_words(parser, arguments->format.text, false);
  return {parser, [arguments] { return run_merge(*arguments); }};
}

}  // namespace penstock::cli
