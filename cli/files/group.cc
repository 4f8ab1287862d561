// penstock group: one result for each key.

#include <fmt/format.h>

#include <charconv>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/misuse.h"
#include "cli/common/command.h"
#include "cli/files/files_words.h"
#include "files/group_files.h"

namespace penstock::cli {
namespace {

struct GroupArguments : FilesWords {
  files::Aggregates aggregates;
  std::string value;
  bool is_signed = false;
  bool big_endian = false;
  bool sorted = false;
  std::optional<uint64_t> top;
};

// "8:4".
Result<files::ValueField> parse_value(const std::string& text) {
  files::ValueField value;
  const char* const end = text.data() + text.size();
  const auto offset = std::from_chars(text.data(), end, value.offset);
  const bool has_colon = offset.ec == std::errc{} && offset.ptr != end && *offset.ptr == ':';
  const auto bytes = has_colon ? std::from_chars(offset.ptr + 1, end, value.bytes) : offset;
  if (!has_colon || bytes.ec != std::errc{} || bytes.ptr != end) {
    return failure(ErrorCode::invalid_argument, "find this value", "--value " + text,
                   "OFFSET:LENGTH in bytes, as in --value 8:4");
  }
  return value;
}

int run_group(GroupArguments& arguments) {
  // Lines that are counted, as uniq -c writes them.
  if (arguments.format.name == "uniq") {
    arguments.format.name = "lines";
    arguments.aggregates.count = arguments.aggregates.like_uniq = true;
  }
  return run_files("group", arguments, [&](files::FilesOptions& files, auto& told) -> Status {
    if (files.format.keys != nullptr)
      return misuse("group by such a key", "--key", "--format record --key OFFSET:LENGTH");
    files::Aggregates aggregates = arguments.aggregates;
    if (arguments.value.empty() && (arguments.is_signed || arguments.big_endian)) {
      // Of pairs the value is where it always is.
      if (files.format.type != record::Type::kv64) {
        return failure(ErrorCode::invalid_argument, "read the value so",
                       arguments.is_signed ? "--signed" : "--big-endian", "--value OFFSET:LENGTH");
      }
      aggregates.value = files::ValueField{.offset = 8};
    }
    if (!arguments.value.empty()) {
      auto value = parse_value(arguments.value);
      if (!value) return std::unexpected(value.error());
      aggregates.value = *value;
    }
    if (aggregates.value) {
      if (!aggregates.sum && !aggregates.min && !aggregates.max) {
        return failure(ErrorCode::invalid_argument, "use a value", "--value",
                       "--sum, --min or --max");
      }
      aggregates.value->is_signed = arguments.is_signed;
      aggregates.value->big_endian = arguments.big_endian;
    }
    auto done = files::group_files({.files = files,
                                    .aggregates = aggregates,
                                    .sorted = arguments.sorted,
                                    .top = arguments.top});
    if (!done) return std::unexpected(done.error());
    told["items"] = done->items;
    told["groups"] = done->groups;
    told["bytes"] = done->bytes;
    told["buckets"] = done->buckets;
    told.update(files_json(*done));
    return {};
  });
}

}  // namespace

Command add_group(Parser& program) {
  Parser parser =
      program.add_subcommand("group", "group items by key: count, sum, min, max, distinct");
  auto arguments = std::make_shared<GroupArguments>();
  GroupArguments& a = *arguments;
  add_files_words(parser, a, "what to group; - or nothing is standard input");
  parser.add_option("-o,--output", a.output,
                    "where the results go; may be an input (default: standard output)");
  parser.add_flag("--count", a.aggregates.count, "how many items each key has");
  parser.add_flag("--sum", a.aggregates.sum, "the sum of their values");
  parser.add_flag("--min", a.aggregates.min, "the least value");
  parser.add_flag("--max", a.aggregates.max, "the greatest value");
  parser.add_flag("--distinct", a.aggregates.distinct, "the first item of each key, whole");
  parser.add_option(
      "--value", a.value,
      "OFFSET:LENGTH of the value in an item, an integer of 1 to 8 bytes (default: of "
      "kv64 the second number, of other integers the number itself)");
  parser.add_flag("--signed", a.is_signed, "the value may be negative (two's complement)");
  parser.add_flag("--big-endian", a.big_endian, "the value's first byte is its highest");
  parser.add_flag("--sorted", a.sorted,
                  "results in the order of their keys (default: in any order)");
  parser.add_option("--top", a.top,
                    "with --count: the N keys that are most frequent alone, by count, descending; "
                    "--format uniq: lines, counted and written as uniq -c does");
  return {parser, [arguments] { return run_group(*arguments); }};
}

}  // namespace penstock::cli
