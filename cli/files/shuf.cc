// penstock shuf: the items of files in random order.

#include <memory>

#include "cli/common/command.h"
#include "cli/common/option_words.h"
#include "cli/files/files_words.h"

namespace penstock::cli {
namespace {

struct ShufArguments : RunWords {
  DrawFilesOptions shuffle;
  ShufArguments() { orders = true; }
};

}  // namespace

Command add_shuf(Parser& program) {
  Parser parser = program.add_subcommand("shuf", "write lines or rows in random order");
  auto arguments = std::make_shared<ShufArguments>();
  parser.describe(
      {.examples = {{"penstock shuf big.txt -S 1G -o mixed.txt", "shuffle more than memory"},
                    {"penstock shuf --csv --header --seed 7 orders.csv -o mixed.csv",
                     "the header and all rows, in the same order each time"}},
       .notes = {"Each order is equally likely, and equal lines are not put together, as penstock "
                 "sort -R does."}});
  add_draw_words(parser, arguments->shuffle, true);
  parser.refuse("-r,--repeat", false,
                "cannot draw an item twice (try: penstock shuf FILE, which writes each one once)");
  parser.refuse(
      "-e,--echo", false,
      "cannot take items from the command line (try: printf '%s\\n' A B | penstock shuf)");
  parser.refuse("-i,--input-range", true, "cannot make numbers (try: seq 1 1000 | penstock shuf)");
  parser.refuse("--random-source", true, "cannot read random bytes (try: --seed 1)");
  add_items_words(parser, *arguments, "files to read (default, or -: standard input)");
  add_output_file(parser, *arguments);
  parser.group("Memory and disk");
  add_option(parser, api::option<FilesOptions>("temp_directories"), arguments->temp_directories);
  add_memory_pool_word(parser, *arguments);
  add_option(parser, api::option<DrawFilesOptions>("threads"), arguments->shuffle.threads);
  return {parser, [arguments] {
            return run_files("shuf", *arguments, [&](const FilesOptions& files) {
              return figures_of(shuffle_files(files, arguments->shuffle));
            });
          }};
}

}  // namespace penstock::cli
