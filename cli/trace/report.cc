// penstock report: traces as a page with pictures, or in a few lines on a terminal.

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/misuse.h"
#include "cli/common/command.h"
#include "cli/common/output_words.h"
#include "cli/common/print.h"
#include "cli/common/write_file.h"
#include "cli/trace/request_range.h"
#include "cli/trace/sort_page.h"
#include "cli/trace/sort_report.h"
#include "cli/trace/trace_summary.h"
#include "trace/report/page.h"
#include "trace/report/summary.h"
#include "trace/report/terminal.h"

namespace penstock::cli {
namespace {

using report::SortRun;
using report::TraceSummary;

struct ReportArguments {
  std::vector<std::string> traces;
  std::vector<std::string> stats;
  std::string output;
  std::string under;
  std::string requests;
  std::optional<size_t> width;
  OutputRules output_rules;
};

Result<std::vector<SortRun>> read_stats(const std::vector<std::string>& paths) {
  std::vector<SortRun> runs;
  for (const std::string& path : paths) {
    std::ifstream file(path, std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    if (!file.good() && !file.eof()) return system_error(errno, "read the statistics", path);
    auto run = sort_run_of(text, path);
    if (!run) return std::unexpected(run.error());
    runs.push_back(std::move(*run));
  }
  return runs;
}

Status check_report_arguments(const ReportArguments& arguments) {
  if (arguments.traces.empty() && arguments.stats.empty()) {
    return misuse("report on nothing", "TRACE", "penstock trace -o run.trace -- PROGRAM");
  }
  if (!arguments.requests.empty() && arguments.traces.size() > 1) {
    return misuse("take one part of several traces", "--requests", "one trace");
  }
  if (arguments.traces.empty() && (!arguments.requests.empty() || !arguments.under.empty())) {
    return misuse("take a part of a trace", arguments.under.empty() ? "--requests" : "--under",
                  "TRACE");
  }
  if (arguments.width && !arguments.output.empty()) {
    return misuse("give a page a width", "--width", "no -o");
  }
  return arguments.output.empty() ? Status{} : check_page(arguments.output);
}

Result<int> make_report(const ReportArguments& arguments) {
  if (Status valid = check_report_arguments(arguments); !valid)
    return std::unexpected(valid.error());
  report::SummaryOptions options{.convert = {.under = absolute_under(arguments.under)}};
  if (!arguments.requests.empty()) {
    const auto part = parse_request_range(arguments.requests);
    if (!part) return std::unexpected(part.error());
    options.first_request = part->first;
    options.requests = part->count;
  }
  // Several traces share the room of a page.
  const bool page = !arguments.output.empty();
  const size_t sharing = std::max<size_t>(1, arguments.traces.size());
  options.single_requests = page ? options.single_requests / sharing : 0;
  if (sharing > 2) options.rows /= 2;

  const auto stats = read_stats(arguments.stats);
  if (!stats) return std::unexpected(stats.error());
  std::vector<TraceSummary> summaries;
  int code = exit_ok;
  for (const std::string& path : arguments.traces) {
    auto summary = report::summarize(path, options);
    if (!summary) return std::unexpected(summary.error());
    Status part = check_part(summary->totals.requests(), arguments.under, arguments.requests, path);
    if (!part) return std::unexpected(part.error());
    if (!summary->conversion.complete) code = exit_incomplete;
    if (page) {
      summaries.push_back(std::move(*summary));
      continue;
    }
    print("{}{}", path == arguments.traces.front() ? "" : "\n",
          terminal_report(*summary, {.width = arguments.width.value_or(80),
                                     .unicode = terminal_has_unicode()}));
  }
  for (const SortRun& sort : *stats) {
    if (page) break;
    const bool first = arguments.traces.empty() && &sort == &stats->front();
    print("{}{}", first ? "" : "\n",
          terminal_report(
              sort, {.width = arguments.width.value_or(80), .unicode = terminal_has_unicode()}));
  }
  if (page) {
    const std::string text =
        report::make_page(summaries, *stats, {.version = PENSTOCK_VERSION_STRING});
    if (Status written = write_file(arguments.output, text, arguments.output_rules); !written) {
      return std::unexpected(written.error());
    }
  }
  return code;
}

int run_report(const ReportArguments& arguments) {
  const Result<int> code = make_report(arguments);
  return code ? *code : report("report", code.error());
}

}  // namespace

Command add_report(Parser& program) {
  auto arguments = std::make_shared<ReportArguments>();
  ReportArguments& a = *arguments;
  Parser parser = program.add_subcommand("report", "show a trace on a page or in the terminal");
  parser.add_option("TRACE", a.traces,
                    "a file of penstock trace, strace -o or fio --write_iolog; several are "
                    "shown side by side");
  parser
      .add_option("-o,--output", a.output,
                  "write a page (HTML, complete in itself; -: to stdout) instead of text")
      .names_files(FileUse::written);
  add_output_words(parser, a.output_rules);
  parser
      .add_option("--stats", a.stats,
                  "statistics of penstock sort --stats: adds predicted and measured figures, the "
                  "use of the memory, and how full buckets were")
      .names_files(FileUse::read);
  parser.add_option(
      "--under", a.under,
      "only files whose path begins with this; the relative name of a file or folder will do");
  parser.add_option("--requests", a.requests,
                    "only this part of the trace: FROM..TO, counted from 0");
  parser.add_option("--width", a.width, "columns of the terminal (default 80)").within(40, 240);
  parser.describe(
      {.examples = {{"penstock report run.trace", "a summary in the terminal"},
                    {"penstock report run.trace -o page.html", "a page for the browser"},
                    {"penstock report before.trace after.trace -o page.html",
                     "two runs side by side"}},
       .notes = {"A page shows up to 200,000 requests one by one. For a longer trace it has a "
                 "picture of the whole, and single requests at some places; --requests FROM..TO "
                 "shows any other part."},
       .exit_codes = {{0, "done"},
                      {1, "a trace was cut off (the report shows the part before the cut)"},
                      {2, "any error"}}});
  return {parser, [arguments] { return run_report(*arguments); }};
}

}  // namespace penstock::cli
