// penstock group: computes one result for each key.

#include <algorithm>
#include <charconv>
#include <memory>

#include "base/misuse.h"
#include "cli/common/command.h"
#include "cli/common/compressed_word.h"
#include "cli/common/option_words.h"
#include "cli/files/files_words.h"
#include "os/limits.h"

namespace penstock::cli {
namespace {

struct GroupArguments : RunWords {
  GroupFilesOptions group{.threads =
                              std::clamp(os::cores_usable(), 1u, GroupFilesOptions().threads)};
  std::vector<std::string> values;
  bool is_signed = false;
  bool big_endian = false;
};

// Parses --value, such as "8:4".
Result<ValueField> parse_value(const std::string& text) {
  ValueField value;
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

// The field that --sum, --min and --max aggregate; nullopt: the format's default. Errors: a word is
// wrong.
Result<std::optional<ValueField>> value_of(const GroupArguments& arguments) {
  const Aggregates& aggregates = arguments.group.aggregates;
  if (arguments.values.size() > 1)
    return misuse("use several values", "--value " + arguments.values.back(), "one");
  if (arguments.values.empty() && !arguments.is_signed && !arguments.big_endian) return {};
  ValueField value{.offset = 8};  // the value of a pair
  if (arguments.values.empty()) {
    if (arguments.format.name != "kv64") {
      return misuse("read the value so", arguments.is_signed ? "--signed" : "--big-endian",
                    "--value OFFSET:LENGTH");
    }
  } else {
    auto parsed = parse_value(arguments.values.front());
    if (!parsed) return std::unexpected(parsed.error());
    value = *parsed;
  }
  if (!aggregates.sum && !aggregates.min && !aggregates.max)
    return misuse("use a value", "--value", "--sum, --min or --max");
  value.is_signed = arguments.is_signed;
  value.big_endian = arguments.big_endian;
  return value;
}

int run_group(GroupArguments& arguments) {
  // --format uniq counts lines, and writes them as uniq -c does.
  if (arguments.format.name == "uniq") {
    arguments.format.name = "lines";
    arguments.group.aggregates.count = arguments.group.aggregates.like_uniq = true;
  }
  return run_files("group", arguments, [&](const FilesOptions& files) -> Result<std::string> {
    GroupFilesOptions options = arguments.group;
    if (files.items.name == "lines") {
      options.columns = arguments.values;
    } else {
      auto value = value_of(arguments);
      if (!value) return std::unexpected(value.error());
      options.aggregates.value = *value;
    }
    return json_of_stats(group_files(files, options));
  });
}

}  // namespace

Command add_group(Parser& program) {
  Parser parser =
      program.add_subcommand("group", "group items by key: count, sum, min, max, distinct");
  auto arguments = std::make_shared<GroupArguments>();
  GroupArguments& a = *arguments;
  add_files_words(parser, a, "files to group (default, or -: standard input)");
  add_text_words(parser, a.format.text, false);
  parser.add_option("-o,--output", a.output,
                    "output file; may be an input (default: standard output)");
  add_compressed_word(parser, a.compressed);
  add_options(parser, a.group);
  add_option(parser, api::option<GroupFilesOptions>("value"), a.values);
  parser.add_flag("--signed", a.is_signed, "the value may be negative (two's complement)");
  parser.add_flag("--big-endian", a.big_endian,
                  "the value's first byte is its most significant one");
  return {parser, [arguments] { return run_group(*arguments); }};
}

}  // namespace penstock::cli
