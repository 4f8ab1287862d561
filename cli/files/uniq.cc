// penstock uniq: one of each line, in any order of the input, with the options of GNU uniq.

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "base/misuse.h"
#include "cli/common/command.h"
#include "cli/common/option_words.h"
#include "cli/files/files_words.h"
#include "os/limits.h"

namespace penstock::cli {
namespace {

struct UniqArguments : RunWords {
  bool count = false;
  bool repeated = false;
  bool all_repeated = false;
  bool once = false;
  bool in_order = false;
  std::optional<uint64_t> fields, characters, width;
  unsigned threads = std::clamp(os::cores_usable(), 1u, GroupFilesOptions().threads);
  UniqArguments() { counts_odd_values = true; }
};

// The key of GNU sort that begins after so many fields and characters and is so wide.
std::string compared_key_of(const UniqArguments& arguments) {
  // No line has more.
  constexpr uint64_t most = uint64_t{1} << 60;
  const uint64_t field = std::min(arguments.fields.value_or(0), most) + 1;
  const uint64_t character = std::min(arguments.characters.value_or(0), most);
  const std::string from = fmt::format("{}.{}", field, character + 1);
  if (!arguments.width) return from;
  // An end in front of the begin makes all keys empty.
  if (*arguments.width == 0) return fmt::format("{},{}.1", field + 1, field);
  return fmt::format("{},{}.{}", from, field, character + std::min(*arguments.width, most));
}

// Refuses options that contradict each other.
Status refuse_contradictions(const UniqArguments& arguments) {
  if (arguments.once && (arguments.repeated || arguments.all_repeated))
    return misuse("print lines that are both repeated and not",
                  arguments.repeated ? "-d -u" : "-D -u", "one of the two");
  if (arguments.all_repeated && arguments.count)
    return misuse("count lines and print all of them", "-D -c", "-d -c");
  if (arguments.all_repeated && arguments.in_order)
    return misuse("keep the order of the input with all repeated lines", "--in-order", "-d");
  const bool has_place = arguments.fields || arguments.characters || arguments.width;
  if (has_place && !arguments.format.keys.empty())
    return misuse("compare by a key and by fields that follow others", "-f, -s, -w", "--key alone");
  const bool is_jsonl = arguments.format.name == "jsonl";
  if (arguments.format.name != "lines" && !is_jsonl)
    return misuse("compare items that are no text", "--format " + arguments.format.name,
                  "penstock sort --keep first, or group --distinct");
  const bool has_columns = arguments.format.text.rows() || is_jsonl;
  if (has_columns && arguments.format.keys.empty())
    return misuse("compare without a key", arguments.format.text.rows() ? "--csv" : "--jsonl",
                  "--key COLUMN; without this option whole lines are compared");
  if (has_columns && arguments.count)
    return misuse("write counts in front of rows", "-c",
                  "penstock group, whose results have a column of counts");
  return {};
}

int run_uniq(UniqArguments& arguments) {
  if (Status valid = refuse_contradictions(arguments); !valid) return report("uniq", valid.error());
  if (arguments.fields || arguments.characters || arguments.width)
    arguments.format.keys = {compared_key_of(arguments)};
  return run_files("uniq", arguments, [&](const FilesOptions& files) -> Result<FilesDone> {
    if (arguments.all_repeated)
      return statistics_of(
          sort_files(files, {.threads = arguments.threads, .keep = Keep::repeated}));
    return statistics_of(
        group_files(files, {.aggregates = {.count = arguments.count,
                                           .distinct = true,
                                           .like_uniq = arguments.count,
                                           .kept = arguments.repeated ? GroupsKept::repeated
                                                   : arguments.once   ? GroupsKept::once
                                                                      : GroupsKept::all},
                            .sorted = !arguments.in_order,
                            .in_order = arguments.in_order,
                            .threads = arguments.threads}));
  });
}

}  // namespace

Command add_uniq(Parser& program) {
  Parser parser = program.add_subcommand(
      "uniq", "keep one of each line of an unsorted input, as sort | uniq does");
  auto arguments = std::make_shared<UniqArguments>();
  UniqArguments& a = *arguments;
  add_files_words(
      parser, a, "files to read, in any order; -o names the output (default, or -: standard input)",
      {{"penstock uniq -c access.log", "count the lines, as sort access.log | uniq -c"},
       {"penstock uniq -d -i names.txt.gz -o twice.txt",
        "print the names that come more than once, in small or capital letters"},
       {"penstock uniq --in-order --key id orders.csv",
        "keep the first row of each id, in the order of the file"}});
  add_line_words(parser, a.format.text);
  parser.group("Input and output");
  add_output_file(parser, a);
  parser.group("Lines");
  parser.add_flag("-c,--count", a.count, "write the number of equal lines in front of each");
  parser.add_flag("-d,--repeated", a.repeated, "only one of each of those that repeat");
  parser.add_flag("-D,--all-repeated", a.all_repeated, "all lines that repeat, and no others");
  parser.add_flag("-u,--unique", a.once, "only lines that do not repeat");
  parser.add_flag("--in-order", a.in_order,
                  "write lines in the order of the input (default: in the order of what is "
                  "compared)");
  parser.group("Order");
  parser.add_flag("-i,--ignore-case", a.format.text.ignore_case, "ignore case");
  auto add_number = [&](const char* words, std::optional<uint64_t>& value, const char* help) {
    parser.add_option(words, value, help).value_name("N").check(what_is_wrong_with_a_count);
  };
  add_number("-f,--skip-fields", a.fields,
             "skip N fields of each line; a field is blanks and the text up to the next ones");
  add_number("-s,--skip-chars", a.characters, "skip N bytes, after the skipped fields");
  add_number("-w,--check-chars", a.width, "compare at most N bytes");
  parser.group("Memory and disk");
  add_option(parser, api::option<GroupFilesOptions>("threads"), a.threads);
  return {parser, [arguments] { return run_uniq(*arguments); }};
}

}  // namespace penstock::cli
