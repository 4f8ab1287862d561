// penstock convert: a trace, or another program's log, as a sequence of requests in other programs'
// formats, or as a trace.

#include <signal.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>

#include "cli/common/command.h"
#include "cli/common/output_words.h"
#include "cli/common/print.h"
#include "cli/common/stop_signals.h"
#include "cli/trace/request_range.h"
#include "cli/trace/trace_summary.h"
#include "trace/export/export.h"
#include "trace/import/import.h"

namespace penstock::cli {
namespace {

struct ConvertArguments {
  std::string input;
  std::string from;
  std::string output;
  std::string format;
  std::string under;
  std::string files;
  bool quiet = false;
};

Result<trace::ExportFormat> format_of(const ConvertArguments& arguments) {
  if (arguments.format.empty()) return trace::export_format_of(arguments.output);
  return trace::export_format_named(arguments.format);
}

bool is_pipe(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::is_fifo(path, ignored);
}

int run_convert(const ConvertArguments& arguments) {
  if (!arguments.format.empty()) {
    if (const auto known = trace::export_format_named(arguments.format); !known)
      return report("convert", known.error());
  }
  if (arguments.output.empty() && (!arguments.format.empty() || arguments.quiet)) {
    return report("convert", {ErrorCode::invalid_argument, "convert to nothing",
                              arguments.quiet ? "--quiet" : "--format", 0, "-o FILE"});
  }
  const StopSignals signals([&] {
    const bool to_file = !arguments.output.empty();
    StopOptions stop = stop_options("convert", to_file ? arguments.output : "-", {});
    stop.reads_stdin = arguments.input == "-";
    stop.may_wait = is_pipe(arguments.input) || is_pipe(arguments.output);
    return stop;
  }());
  const trace::ConvertOptions options{.under = absolute_under(arguments.under),
                                      .cancel = &signals.flag()};
  Result<trace::Conversion> converted;
  auto kind = trace::LogKind::detect;
  if (!arguments.from.empty()) {
    const auto named = trace::log_kind_of(arguments.from);
    if (!named) return report("convert", named.error());
    kind = *named;
  }
  // Errors of the output are reported before the program waits for the input, which may be a pipe.
  Result<trace::ExportFormat> format = trace::ExportFormat::csv;
  if (!arguments.output.empty()) format = format_of(arguments);
  if (!format) return report("convert", format.error());
  if (*format == trace::ExportFormat::trace && !arguments.under.empty()) {
    return report("convert", {ErrorCode::invalid_argument, "leave files out of a trace", "--under",
                              0, "--under where the trace is read: convert, report or replay"});
  }
  auto trace = trace::open_trace(arguments.input, kind);
  if (!trace) return signals.caught() != 0 ? signals.die() : report("convert", trace.error());
  if (arguments.output.empty()) {
    converted = trace::convert(*trace, options, {});
  } else {
    converted = trace::export_requests(*trace, options, *format, arguments.output);
  }
  if (!converted && signals.caught() != 0) return signals.die();
  // The reader of our output has closed it: end by SIGPIPE, as other filters do.
  if (!converted && converted.error().system_errno == EPIPE) return die_by(SIGPIPE);
  if (!converted) return report("convert", converted.error());
  if (arguments.output.empty()) {
    Status part = check_part(converted->requests, arguments.under, "", arguments.input);
    if (!part) return report("convert", part.error());
  }
  if (!arguments.files.empty()) {
    if (Status made = trace::make_iolog_files(*converted, arguments.files); !made) {
      return report("convert", made.error());
    }
  }
  if (arguments.output.empty() || !arguments.quiet) {
    print_summary(arguments.output.empty() ? stdout : stderr, *converted);
  } else if (!converted->complete) {
    // --quiet does not hide the reason of an exit code other than 0.
    print_to(stderr, "penstock convert: {}; the part in front of it is written\n",
             converted->cut_off.message());
  }
  return converted->complete ? exit_ok : exit_incomplete;
}

}  // namespace

Command add_convert(Parser& program) {
  auto arguments = std::make_shared<ConvertArguments>();
  ConvertArguments& a = *arguments;
  Parser parser = program.add_subcommand("convert", "convert a trace to and from other formats");
  parser
      .add_option("TRACE", a.input,
                  "a file of penstock trace, fio --write_iolog, or strace -f -ttt -T -yy -o; - is "
                  "standard input")
      .required("run.trace");
  parser
      .add_option("--from", a.from,
                  "format of TRACE, if its beginning does not show it: trace, iolog or strace")
      .offers({"trace", "iolog", "strace"});
  parser
      .add_option("-o,--output", a.output,
                  "x.csv, x.iolog (fio --read_iolog), x.json (ui.perfetto.dev) or x.trace; none: "
                  "a summary on standard output")
      .names_files(FileUse::written);
  parser.add_option("--format", a.format, "csv, iolog, json or trace, regardless of the name")
      .offers({"csv", "iolog", "json", "trace"});
  parser.add_option(
      "--under", a.under,
      "only files whose path begins with this: a folder, with its /; the relative name of a "
      "file or folder will do");
  parser.add_option("--files", a.files,
                    "also make the files that fio needs, sparse and of their largest size, in this "
                    "folder");
  parser.add_flag("-q,--quiet", a.quiet, "no summary on standard error");
  parser.describe(
      {.examples = {{"penstock convert run.trace -o requests.csv", "a table of all requests"},
                    {"penstock convert run.trace -o run.json", "a time line for ui.perfetto.dev"},
                    {"penstock convert strace.log -o run.trace",
                     "a trace of what strace -f -ttt -T -yy -o strace.log recorded"}},
       .notes = {"A request reads or writes bytes [offset, offset + bytes) of a file; requests are "
                 "listed in the order in which they started. file_seek: the request does not begin "
                 "where the last access to its file ended; device_seek: nor where the last access "
                 "to any file ended. The summary counts device seeks."},
       .exit_codes = {{0, "done"},
                      {1, "the trace was cut off (the part before the cut was written)"},
                      {2, "any error"}}});
  return {parser, [arguments] { return run_convert(*arguments); }};
}

}  // namespace penstock::cli
