// penstock trace: records a program's requests to files.

#include "penstock/trace.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/printable.h"
#include "cli/common/command.h"
#include "cli/common/print.h"
#include "cli/common/size.h"
#include "cli/common/stop_signals.h"
#include "cli/trace/trace_summary.h"
#include "trace/capture/backends.h"
#include "trace/report/text.h"

namespace penstock::cli {
namespace {

// Sizes of the ring that the kernel accepts: powers of two, in whole pages.
constexpr uint64_t ring_bytes_min = 4096;
constexpr uint64_t ring_bytes_max = uint64_t{1} << 30;

constexpr const char* default_output = "run.trace";

struct TraceArguments {
  std::vector<std::string> words;
  std::string output;  // empty: default_output
  std::string backend = "auto";
  std::string ring;
  int32_t attach = 0;
  bool quiet = false;
  bool verbose = false;
};

Result<trace::Backend> backend_of(const std::string& name) {
  if (name == "auto") return trace::Backend::unknown;
  for (const trace::Backend backend : {trace::Backend::ptrace, trace::Backend::bpf}) {
    if (name == name_of(backend)) return backend;
  }
  return failure(ErrorCode::invalid_argument, "trace with this backend", name,
                 "auto, ptrace or bpf");
}

// Prints a summary of the trace, if it is a file that can be read again, and not a pipe or /dev/null.
void summarize(const trace::Captured& captured, const TraceArguments& arguments) {
  if (arguments.quiet || arguments.output == "-") return;
  std::error_code error;
  if (!std::filesystem::is_regular_file(arguments.output, error)) return;
  const auto converted = trace::convert_file(arguments.output, {}, {});
  if (!converted) {
    report("trace", converted.error());
    return;
  }
  print_to(stderr, "penstock trace: {} in {} ({}), by {}\n",
           counted(captured.totals.events, "event"), printable(arguments.output),
           report::bytes_text(captured.trace_bytes), name_of(captured.backend));
  if (captured.kept_old) {
    print_to(stderr, "  (the trace before it is {}.old)\n", printable(arguments.output));
  }
  if (arguments.verbose && !captured.reason.empty()) {
    print_to(stderr, "  ({})\n", captured.reason);
  }
  print_summary(stderr, *converted);
}

// Says that an option after the program's name went to the program, if it names a trace.
void report_late_output(const std::vector<std::string>& words) {
  for (size_t i = 1; i + 1 < words.size(); ++i) {
    const bool names_output = words[i] == "-o" || words[i] == "--output";
    if (!names_output || !words[i + 1].ends_with(".trace")) continue;
    print_to(stderr,
             "penstock trace: {} {} goes to {}, the trace to run.trace (try: penstock trace -o {} "
             "-- {} ...)\n",
             words[i], printable(words[i + 1]), printable(words[0]), printable(words[i + 1]),
             printable(words[0]));
    return;
  }
}

// Returns the exit code of shells, env and nohup for a program that does not exist or cannot be run.
int exit_of_not_run(int error) {
  constexpr int not_found = 127, not_run = 126;
  return error == ENOENT ? not_found : not_run;
}

int run_trace(TraceArguments arguments) {
  const bool named = !arguments.output.empty();
  if (!named) arguments.output = default_output;
  const std::vector<std::string>& words = arguments.words;
  const auto misuse = [](std::string attempted, std::string subject) {
    return report("trace", {ErrorCode::invalid_argument, std::move(attempted), std::move(subject),
                            0, "penstock trace -o run.trace -- PROGRAM ARGS..."});
  };
  if (arguments.attach == 0 && words.empty()) return misuse("trace nothing", "PROGRAM");
  if (arguments.attach != 0 && !words.empty()) return misuse("trace both", "-p and PROGRAM");
  if (arguments.attach < 0) return misuse("attach to this", "-p");
  const auto backend = backend_of(arguments.backend);
  if (!backend) return report("trace", backend.error());

  trace::CaptureOptions options{.output = arguments.output,
                                .backend = *backend,
                                .command = words,
                                .attach = arguments.attach,
                                .keeps_old = !named};
  if (!arguments.ring.empty()) {
    const auto ring_bytes = parse_size("--ring", arguments.ring, 0);
    if (!ring_bytes) return report("trace", ring_bytes.error());
    options.ring_bytes = std::bit_ceil(std::clamp(*ring_bytes, ring_bytes_min, ring_bytes_max));
  }
  if (!arguments.quiet && !named) report_late_output(words);
  if (!arguments.quiet) {
    options.on_left = [] {
      print_to(stderr,
               "penstock trace: the program has ended, processes that it left run on; Ctrl-C ends "
               "the trace\n");
    };
  }
  std::optional<StopSignals> stop;
  if (options.attach != 0) {
    stop.emplace(StopOptions{.command = "trace", .outcome = "the trace ends here"});
    options.stop = &stop->flag();
    if (!arguments.quiet) {
      options.on_attached = [process = options.attach] {
        print_to(stderr, "penstock trace: attached to process {}; Ctrl-C ends the trace\n",
                 process);
      };
    }
  }
  auto captured = trace::capture(options);
  if (!captured) {
    if (captured.error().system_errno == ENOENT && words.size() == 1 && words[0].contains(' '))
      captured.error().hint = "without the quotes: penstock trace -- " + words[0];
    const int code = report("trace", captured.error());
    return captured.error().attempted == trace::run_program
               ? exit_of_not_run(captured.error().system_errno)
               : code;
  }
  stop.reset();
  summarize(*captured, arguments);
  return captured->totals.exit_code;
}

}  // namespace

std::vector<std::string> mark_traced_program(std::vector<std::string> words, const Parser& trace) {
  for (size_t i = 1; i < words.size() && words[i] != "--"; ++i) {
    if (trace.takes_next_word(words[i])) {
      ++i;
    } else if (!words[i].starts_with('-')) {
      words.insert(words.begin() + static_cast<ptrdiff_t>(i), "--");
      break;
    }
  }
  return words;
}

Command add_trace(Parser& program) {
  auto arguments = std::make_shared<TraceArguments>();
  TraceArguments& a = *arguments;
  Parser parser = program.add_subcommand("trace", "record the file accesses of a program");
  parser
      .add_option("-o,--output", a.output,
                  "the trace (default run.trace; an earlier one becomes run.trace.old; -: standard "
                  "output, and the program's own output goes to standard error)")
      .names_files(FileUse::written);
  parser
      .add_option(
          "--backend", a.backend,
          "the method: ptrace (any program, no rights needed), bpf (as root; twenty times cheaper "
          "for the program), or auto (default): bpf if it is available, and ptrace otherwise")
      .offers({"auto", "ptrace", "bpf"})
      .rare();
  parser
      .add_option(
          "--ring", a.ring,
          "bpf: buffer for calls on their way to penstock, 4K to 1G (default 32M); choose more if "
          "events were lost")
      .rare();
  parser.add_option("-p,--pid", a.attach, "attach to a running process, until Ctrl-C")
      .value_name("PID");
  parser.add_flag("-q,--quiet", a.quiet, "no summary on standard error");
  parser.add_flag("-v,--verbose", a.verbose, "say why bpf is not used");
  parser.add_option("PROGRAM", a.words, "the program to run, with its arguments")
      .names_files(FileUse::read, 1);
  parser.describe(
      {.examples = {{"penstock trace -o run.trace -- ls -l",
                     "record the file accesses of ls -l and its children"},
                    {"penstock trace -p 1234 -o run.trace",
                     "record a running process, until Ctrl-C"}},
       .notes =
           {"Follows all threads and child processes until the last has ended. Options after "
            "PROGRAM belong to the program, and the exit code is its own (128 + the signal that "
            "ended it).",
            "If the program has ended, and a process that it left runs on, Ctrl-C or SIGTERM "
            "ends the trace: with bpf that process runs on; with ptrace it gets SIGTERM, and "
            "SIGKILL the next time.",
            "penstock report shows a trace; penstock convert makes CSV, fio's iolog or a time "
            "line of it."},
       .exit_codes = {
           {2, "the program could not be traced"},
           {126, "it could not be run"},
           {127, "it does not exist"},
           {other_exit_code, "that of the program, or 128 + the signal that ended it"}}});
  return {parser, [arguments] { return run_trace(*arguments); }};
}

}  // namespace penstock::cli
