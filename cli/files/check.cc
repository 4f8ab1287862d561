// penstock check: whether a file is sorted, its number of items, its duplicates and its checksum.

#include <fmt/core.h>

#include <memory>
#include <string>

#include "base/printable.h"
#include "cli/common/binary_input.h"
#include "cli/common/command.h"
#include "cli/common/format_options.h"
#include "cli/common/print.h"
#include "cli/common/source_words.h"
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
  SourceOptions source;
};

// The place of the unsorted item number `item`. For rows, the line is known only if the file can be
// read again.
std::string place_of_disorder(const FilesOptions& files, uint64_t item) {
  const auto format = api::format_of(files.items);
  if (!format) return fmt::format("item {}", item + 1);
  const uint64_t row = format->header_lines + item + 1;
  if (!format->framing().quote) return items::Place{row, row}.text(*format);
  const files::FilesOptions look{files, *format};
  uint64_t passed = 0;
  const auto found = files::find_row(look, files::named_files(look),
                                     [&](std::string_view) { return passed++ == item; });
  return found ? found->place.text(*format) : fmt::format("row {}", row);
}

void print_text(const CheckArguments& arguments, const FilesOptions& files,
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
  const auto items = arguments.format.items(arguments.descending);
  if (!items) return report("check", items.error());
  const std::string notice =
      arguments.quiet ? std::string() : binary_notice({arguments.input}, *items, arguments.source);
  if (!notice.empty())
    print_to(stderr, "{}: {}\n", called("check"), printable(notice, std::string::npos));
  const FilesOptions files{.inputs = {arguments.input},
                           .items = *items,
                           .memory_scope = MemoryScope::process,
                           .source = arguments.source};
  const auto result = check_file(files, arguments.threads);
  if (!result) return report("check", result.error());
  if (arguments.json) {
    print("{}\n", to_json(*result, arguments.input, *items));
  } else {
    print_text(arguments, files, *result);
  }
  return result->sorted() ? exit_ok : exit_disorder;
}

}  // namespace

Command add_check(Parser& program) {
  Parser parser = program.add_subcommand(
      "check", "check whether a file is sorted; count its items and print a checksum");
  auto arguments = std::make_shared<CheckArguments>();
  parser.add_option("file", arguments->input, "the file to read (default -: standard input)");
  add_format_options(parser, arguments->format);
  add_text_words(parser, arguments->format.text, false);
  parser.add_flag("-r,--reverse", arguments->descending, "expect descending order");
  parser.add_flag("--json", arguments->json, "print the result as JSON");
  parser.add_flag("--quiet", arguments->quiet, "print only errors and the result");
  parser.add_option("--parallel", arguments->threads, "threads (default 2)").within(1, 256);
  add_source_words(parser, arguments->source);
  parser.footer(
      "Duplicates are items whose whole key equals that of the item before them; they are counted "
      "only in sorted files (--json: else null). The checksum does not depend on the order: an "
      "input and its sorted output have the same. For records of 100 bytes it is the Sort "
      "Benchmark's. Exit codes: 0 sorted, 1 not sorted, 2 any error.");
  return {parser, [arguments] { return run_check(*arguments); }};
}

}  // namespace penstock::cli
