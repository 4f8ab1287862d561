// penstock merge: sorted files, any number of them, into one.

#include <memory>
#include <nlohmann/json.hpp>

#include "cli/common/command.h"
#include "cli/files/files_words.h"
#include "files/merge_files.h"

namespace penstock::cli {
namespace {

int run_merge(const FilesWords& arguments) {
  return run_files("merge", arguments, [&](files::FilesOptions& files, auto& told) -> Status {
    files::MergeFilesOptions options{files};
    options.descending = arguments.format.descending(arguments.order, files.format);
    options.unique = arguments.order.unique;
    auto done = files::merge_files(options);
    if (!done) return std::unexpected(done.error());
    told["files"] = done->planned.files;
    told["items"] = done->items;
    told["bytes"] = done->bytes;
    told["factors"] = done->planned.factors;
    told["predicted_seconds"] = done->planned.seconds;
    told.update(files_json(*done));
    return {};
  });
}

}  // namespace

Command add_merge(Parser& program) {
  Parser parser =
      program.add_subcommand("merge", "merge sorted files, thousands of them, into one");
  auto arguments = std::make_shared<FilesWords>();
  add_files_words(parser, *arguments, "sorted files; - or nothing is standard input");
  parser.add_option("-o,--output", arguments->output,
                    "where the result goes; may be an input (default: standard output)");
  parser.add_flag("-r,--reverse", arguments->order.descending, "the files are in descending order");
  parser.add_flag("-u,--unique", arguments->order.unique,
                  "only the first of items with equal keys");
  parser.add_flag("-s,--stable", arguments->order.stable,
                  "the files were sorted with -s: lines of equal keys stand in any order in them");
  add_text_words(parser, arguments->format.text, false);
  return {parser, [arguments] { return run_merge(*arguments); }};
}

}  // namespace penstock::cli
