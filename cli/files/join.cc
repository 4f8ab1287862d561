// penstock join: two sorted files, by key.

#include <memory>
#include <nlohmann/json.hpp>

#include "base/misuse.h"
#include "cli/common/command.h"
#include "cli/files/files_words.h"
#include "files/join_files.h"

namespace penstock::cli {
namespace {

struct JoinArguments : FilesWords {
  // Of the right side, where it differs.
  std::optional<uint32_t> right_record_bytes;
  std::optional<std::string> right_key;
  bool descending = false;
};

int run_join(const JoinArguments& arguments) {
  return run_files("join", arguments, [&](files::FilesOptions& files, auto& told) -> Status {
    if (files.format.keys != nullptr)
      return misuse("join by such a key", "--key", "--format record --key OFFSET:LENGTH");
    FormatOptions right = arguments.format;
    if (arguments.right_record_bytes) right.record_bytes = arguments.right_record_bytes;
    if (arguments.right_key) right.keys = {*arguments.right_key};
    auto right_format = right.format();
    if (!right_format) return std::unexpected(right_format.error());
    auto done = files::join_files(
        {.files = files, .right = *right_format, .descending = arguments.descending});
    if (!done) return std::unexpected(done.error());
    told["items"] = done->items;
    told["bytes"] = done->bytes;
    told.update(files_json(*done));
    return {};
  });
}

}  // namespace

Command add_join(Parser& program) {
  Parser parser = program.add_subcommand("join", "join two sorted files by key");
  auto arguments = std::make_shared<JoinArguments>();
  JoinArguments& a = *arguments;
  add_files_words(parser, a, "the left and the right file, both sorted; one may be -");
  parser.add_option("-o,--output", a.output,
                    "where the result goes; may be an input (default: standard output)");
  parser.add_option("--right-record", a.right_record_bytes,
                    "bytes of a record of the right file (default: as the left one)");
  parser.add_option("--right-key", a.right_key,
                    "OFFSET:LENGTH of the key in the right file's records (default: as the left "
                    "one's)");
  parser.add_flag("-r,--reverse", a.descending, "the files are in descending order");
  return {parser, [arguments] { return run_join(*arguments); }};
}

}  // namespace penstock::cli
