// penstock merge: merges any number of sorted files into one.

#include <memory>

#include "cli/common/command.h"
#include "cli/common/compressed_word.h"
#include "cli/common/option_words.h"
#include "cli/files/files_words.h"

namespace penstock::cli {
namespace {

struct MergeArguments : RunWords {
  MergeFilesOptions merge;
};

int run_merge(const MergeArguments& arguments) {
  return run_files("merge", arguments, [&](const FilesOptions& files) {
    return json_of_stats(merge_files(files, arguments.merge));
  });
}

}  // namespace

Command add_merge(Parser& program) {
  Parser parser = program.add_subcommand("merge", "merge any number of sorted files into one");
  auto arguments = std::make_shared<MergeArguments>();
  add_files_words(parser, *arguments, "sorted files (default, or -: standard input)");
  parser.add_option("-o,--output", arguments->output,
                    "output file; may be an input (default: standard output)");
  add_compressed_word(parser, arguments->compressed);
  parser.add_flag("-r,--reverse", arguments->descending, "the files are in descending order");
  add_options(parser, arguments->merge);
  add_text_words(parser, arguments->format.text, false);
  return {parser, [arguments] { return run_merge(*arguments); }};
}

}  // namespace penstock::cli
