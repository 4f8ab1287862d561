// penstock check: whether a file is sorted, its number of items, its duplicates and its checksum.

#include <fmt/core.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/printable.h"
#include "cli/common/column_numbers.h"
#include "cli/common/command.h"
#include "cli/common/format_options.h"
#include "cli/common/input_notices.h"
#include "cli/common/option_words.h"
#include "cli/common/print.h"
#include "cli/common/source_words.h"
#include "cli/common/table_guess.h"
#include "files/run/walk.h"
#include "interfaces/api/item_format.h"
#include "penstock/files.h"

namespace penstock::cli {
namespace {

struct CheckArguments {
  std::string input = "-";
  FormatOptions format;
  bool descending = false;
  bool json = false;
  bool quiet = false;
  unsigned threads = 2;
  std::string bad_rows;
  SourceOptions source;
};

// The place of the unsorted item number `item`. For rows, the line is known only if the file can be
// read again.
std::string place_of_disorder(const FilesOptions& files, uint64_t item) {
  const auto format = api::format_of(files.items);
  if (!format) return fmt::format("item {}", item + 1);
  const uint64_t row = format->header_lines + item + 1;
  if (files::leaves_rows_out(files))
    return fmt::format("row {} of those that are not left out", row);
  if (!format->framing().spans_lines) return items::Place{row, row}.text(*format);
  const files::FilesOptions look{files, *format};
  uint64_t passed = 0;
  const auto found = files::find_row(look, files::named_files(look),
                                     [&](std::string_view) { return passed++ == item; });
  return found ? found->place.text(*format) : fmt::format("row {}", row);
}

void print_result(const CheckArguments& arguments, const FilesOptions& files,
                  const FileCheck& result) {
  std::string order = "sorted";
  std::string duplicates = fmt::format("{} duplicates", result.duplicates);
  if (!result.sorted()) {
    order = fmt::format("not sorted: {} belongs before the one in front of it",
                        place_of_disorder(files, *result.first_unsorted));
    duplicates = "duplicates are counted in sorted files only";
  }
  print("{}: {}; {} items, {}, checksum {}\n", printable(arguments.input), order, result.count,
        duplicates, result.checksum);
}

int run_check(const CheckArguments& arguments) {
  const std::vector<std::string> inputs = {arguments.input};
  FormatOptions format = arguments.format;
  Beginnings beginnings;
  if (Status keys = prepare_for_keys(format.keys, inputs, arguments.source, beginnings, format);
      !keys)
    return report("check", keys.error());
  const auto items = format.items(arguments.descending);
  if (!items) return report("check", items.error());
  if (Status columns =
          check_column_numbers(*items, arguments.source, beginnings, inputs, "--key", items->keys);
      !columns)
    return report("check", columns.error());
  FilesOptions files{.inputs = inputs,
                     .items = *items,
                     .bad_rows = arguments.bad_rows,
                     .memory_scope = MemoryScope::process,
                     .option_names = OptionNames::command_line,
                     .source = arguments.source};
  if (!arguments.quiet) {
    files.notice = [](const std::string& notice) { print_notices("check", {as_typed(notice)}); };
    for (const std::string& notice :
         input_notices(files, beginnings, {.header = !format.text.no_header}))
      files.notice(notice);
  }
  const auto result = check_file(files, arguments.threads);
  if (!result) return report("check", result.error());
  if (arguments.json) {
    print("{}\n", to_json(*result, arguments.input, *items));
  } else {
    print_result(arguments, files, *result);
  }
  return result->sorted() ? exit_ok : exit_disorder;
}

}  // namespace

Command add_check(Parser& program) {
  Parser parser = program.add_subcommand("check", "check an order; print a count and a checksum");
  auto arguments = std::make_shared<CheckArguments>();
  parser.add_option("FILE", arguments->input, "the file to read (default -: standard input)");
  add_format_options(parser, arguments->format);
  add_text_words(parser, arguments->format.text, false);
  parser.add_flag("-r,--reverse,--desc", arguments->descending, "expect descending order");
  parser.add_flag("--json", arguments->json, "print the result as JSON");
  parser.add_flag("-q,--quiet", arguments->quiet, "print only errors and the result");
  parser.add_option("--parallel,--threads", arguments->threads, "threads (default 2)")
      .within(1, 256)
      .rare();
  add_source_words(parser, arguments->source);
  add_option(parser, api::option<FilesOptions>("bad_rows"), arguments->bad_rows)
      .names_files(FileUse::written);
  parser.describe(
      {.examples = {{"penstock check sorted.txt", "check the order of lines, and count them"},
                    {"penstock check --format u64 --json sorted.u64", "check numbers"}},
       .notes =
           {"Duplicates are items whose whole key equals that of the item before them; they "
            "are counted only in sorted files (--json: else null). The checksum does not "
            "depend on the order: an input and its sorted output have the same. For records of "
            "100 bytes it is the Sort Benchmark's."},
       .exit_codes = {{0, "sorted"}, {1, "not sorted"}, {2, "any error"}}});
  return {parser, [arguments] { return run_check(*arguments); }};
}

}  // namespace penstock::cli
