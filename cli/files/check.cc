// penstock check: is a file sorted, and what does it hold?

#include <fmt/core.h>

#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "base/printable.h"
#include "cli/common/command.h"
#include "cli/common/format_options.h"
#include "cli/common/print.h"
#include "cli/common/source_words.h"
#include "files/check_input.h"

namespace penstock::cli {
namespace {

struct CheckArguments {
  std::string input = "-";
  FormatOptions format;
  // Equal keys are duplicates, and no disorder.
  OrderRules order = {.stable = true};
  bool json = false;
  unsigned threads = 2;
  SourceOptions source;
};

void print_json(const CheckArguments& arguments, const record::CheckResult& result,
                double seconds) {
  nlohmann::ordered_json json = {{"version", 1},
                                 {"file", arguments.input},
                                 {"format", arguments.format.name},
                                 {"sorted", result.sorted()},
                                 {"count", result.count},
                                 {"duplicates", nullptr},
                                 {"checksum", result.checksum_hex()},
                                 {"first_unsorted", nullptr},
                                 {"seconds", seconds}};
  if (result.sorted()) {
    json["duplicates"] = result.duplicates;
  } else {
    json["first_unsorted"] = *result.first_unsorted;
  }
  // A path need not be UTF-8.
  print("{}\n", json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
}

void print_text(const CheckArguments& arguments, const record::CheckResult& result) {
  std::string order = "sorted";
  std::string duplicates = fmt::format("{} duplicates", result.duplicates);
  if (!result.sorted()) {
    order = fmt::format("not sorted: item {} belongs before item {}", *result.first_unsorted,
                        *result.first_unsorted - 1);
    duplicates = "duplicates are counted in sorted files only";
  }
  print("{}: {}; {} items, {}, checksum {}\n", printable(arguments.input), order, result.count,
        duplicates, result.checksum_hex());
}

int run_check(const CheckArguments& arguments) {
  const auto format = arguments.format.format(arguments.order);
  if (!format) return report("check", format.error());
  const auto begin = std::chrono::steady_clock::now();
  const auto result =
      files::check_input(arguments.input,
                         {.check = {*format, arguments.format.descending(arguments.order, *format)},
                          .threads = arguments.threads},
                         arguments.source);
  if (!result) return report("check", result.error());
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
  if (arguments.json) {
    print_json(arguments, *result, elapsed.count());
  } else {
    print_text(arguments, *result);
  }
  return result->sorted() ? exit_ok : exit_disorder;
}

}  // namespace

Command add_check(Parser& program) {
  Parser parser = program.add_subcommand(
      "check", "tell whether a file is sorted, and count and sum up what it holds");
  auto arguments = std::make_shared<CheckArguments>();
  parser.add_option("file", arguments->input, "the file to read; - (default) is stdin");
  add_format_options(parser, arguments->format);
  add_text_words(parser, arguments->format.text, false);
  parser.add_flag("-r,--reverse", arguments->order.descending, "sorted means descending");
  parser.add_flag("--json", arguments->json, "print the result as JSON");
  parser.add_option("--parallel", arguments->threads, "threads (default 2)").within(1, 256);
  add_source_words(parser, arguments->source);
  parser.footer(
      "Items that equal the one before them in their whole key count as duplicates; where the file "
      "is not sorted these are not all, and none are told (--json: null). The checksum does "
      "not depend on the order: an input and its sorted output have the same. Of records of 100 "
      "bytes "
      "it is the Sort Benchmark's. Exit code: 0 sorted, 1 not sorted, 2 an error.");
  return {parser, [arguments] { return run_check(*arguments); }};
}

}  // namespace penstock::cli
