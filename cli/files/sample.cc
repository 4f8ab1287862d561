// penstock sample: a random sample of the items of files.

#include <memory>

#include "cli/common/command.h"
#include "cli/files/files_words.h"

namespace penstock::cli {
namespace {

struct SampleArguments : RunWords {
  DrawFilesOptions sample;
  SampleArguments() { orders = true; }
};

}  // namespace

Command add_sample(Parser& program) {
  Parser parser = program.add_subcommand("sample", "draw a random sample of lines or rows");
  auto arguments = std::make_shared<SampleArguments>();
  parser.describe(
      {.examples = {{"penstock sample -n 1000 access.log.gz", "a thousand lines, in their order"},
                    {"penstock sample -n 1000 --seed 7 --csv --header orders.csv -o some.csv",
                     "the header and the same thousand rows each time"}},
       .notes = {"Each set of as many items is equally likely. The inputs, which may be pipes, are "
                 "read once; the sample is in memory."}});
  add_draw_words(parser, arguments->sample, true);
  add_items_words(parser, *arguments, "files to read (default, or -: standard input)");
  add_output_file(parser, *arguments);
  return {parser, [arguments] {
            return run_files("sample", *arguments, [&](const FilesOptions& files) {
              return figures_of(sample_files(files, arguments->sample));
            });
          }};
}

}  // namespace penstock::cli
