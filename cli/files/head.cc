// penstock head: the first items of files.

#include <memory>

#include "cli/common/command.h"
#include "cli/common/compressed_word.h"
#include "cli/files/files_words.h"

namespace penstock::cli {
namespace {

struct HeadArguments : RunWords {
  DrawFilesOptions head;
  HeadArguments() { looks_for_header = false; }
};

}  // namespace

Command add_head(Parser& program) {
  Parser parser = program.add_subcommand("head", "write the first lines or rows of files");
  auto arguments = std::make_shared<HeadArguments>();
  parser.describe(
      {.examples = {{"penstock head -n 5 access.log.gz", "the first five lines"},
                    {"penstock head --csv --header -n 5 orders.csv",
                     "the header and five rows, whose fields may have line ends"}},
       .notes = {"Files count as one: -n is the number of items of all of them (default: 10)."}});
  add_draw_words(parser, arguments->head, false);
  add_items_words(parser, *arguments, "files to read (default, or -: standard input)");
  parser.add_option("-o,--output", arguments->output, "output file (default: standard output)");
  add_compressed_word(parser, arguments->compressed);
  return {parser, [arguments] {
            return run_files("head", *arguments, [&](const FilesOptions& files) {
              return figures_of(head_files(files, arguments->head));
            });
          }};
}

}  // namespace penstock::cli
