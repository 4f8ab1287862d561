// penstock partition: the items of files dealt out to many files.

#include <fmt/format.h>

#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/common/command.h"
#include "cli/files/files_words.h"
#include "files/partition_files.h"

namespace penstock::cli {
namespace {

struct PartitionArguments : FilesWords {
  std::string by = "hash";
  uint32_t parts = 0;
  std::string bounds;
};

const std::map<std::string, files::PartitionBy> ways = {{"range", files::PartitionBy::range},
                                                        {"hash", files::PartitionBy::hash},
                                                        {"bits", files::PartitionBy::bits}};

int run_partition(const PartitionArguments& arguments) {
  return run_files("partition", arguments, [&](files::FilesOptions& files, auto& told) -> Status {
    const auto way = ways.find(arguments.by);
    if (way == ways.end()) {
      return failure(ErrorCode::invalid_argument, "partition in this way", "--by " + arguments.by,
                     "range, hash or bits");
    }
    const bool ranges = way->second == files::PartitionBy::range;
    if (!arguments.bounds.empty() && !ranges) {
      return failure(ErrorCode::invalid_argument, "use bounds", "--bounds", "--by range");
    }
    auto done = files::partition_files({.files = files,
                                        .by = way->second,
                                        .parts = arguments.parts,
                                        .bounds_path = arguments.bounds,
                                        .checksums = arguments.json});
    if (!done) return std::unexpected(done.error());
    told["by"] = arguments.by;
    told["format"] = arguments.format.name;
    told["parts"] = nlohmann::ordered_json::array();
    for (size_t j = 0; j < done->parts.size(); ++j) {
      const files::Part& part = done->parts[j];
      nlohmann::ordered_json one = {{"file", part.path},
                                    {"items", part.items},
                                    {"bytes", part.bytes},
                                    {"checksum", part.checksum}};
      // From the bound on, and before that of the next part.
      if (ranges) one["from"] = nullptr;
      if (ranges && j > 0) one["from"] = done->bounds[j - 1];
      told["parts"].push_back(std::move(one));
    }
    told.update(files_json(done->stats));
    return {};
  });
}

}  // namespace

Command add_partition(Parser& program) {
  Parser parser = program.add_subcommand(
      "partition", "deal the items of files out to many files, by range, hash or bits of the key");
  auto arguments = std::make_shared<PartitionArguments>();
  add_files_words(parser, *arguments, "what to partition; - or nothing is standard input");
  add_text_words(parser, arguments->format.text, false);
  arguments->order.stable = true;  // equal keys go to one part
  parser
      .add_option("-o,--output", arguments->output,
                  "names of the parts: the part's number stands for {}, as in 'part-{}.bin'")
      .required();
  parser.add_option("--by", arguments->by, "range, hash or bits (default: hash)");
  parser.add_option("--parts", arguments->parts, "how many; for bits a power of two");
  parser.add_option("--bounds", arguments->bounds,
                    "for range: a file of items, in order, each the first of a part; without it a "
                    "sample finds bounds that make parts of equal sizes");
  return {parser, [arguments] { return run_partition(*arguments); }};
}

}  // namespace penstock::cli
