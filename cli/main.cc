#include <fmt/core.h>
#include <stdio_ext.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/misuse.h"
#include "cli/commands.h"
#include "cli/common/command.h"
#include "cli/common/manual.h"
#include "cli/common/print.h"
#include "cli/common/stop_signals.h"
#include "cli/sort/gnu_options.h"
#include "memory/fault/registry.h"
#include "memory/stream/recovery.h"
#include "os/cpu.h"
#include "os/limits.h"
#include "os/memory.h"
#include "os/process.h"
#include "os/standard_streams.h"

namespace penstock::cli {

namespace {

// "penstock help [COMMAND]". It bypasses the parser, which would take the topic for a command to
// run. "penstock help --man [COMMAND]" prints a manual page, "penstock help --completion SHELL" a
// completion script, and "penstock help --write FOLDER" writes all of them.
int explain(const CommandLine& line, const std::vector<std::string>& words) {
  const std::string first = words.empty() ? "" : words[0];
  const std::string second = words.size() < 2 ? "" : words[1];
  const char* const version = "penstock " PENSTOCK_VERSION_STRING;
  if (first == "--write" && !second.empty()) {
    const Status written = write_manual(line.texts(), version, second);
    return written ? exit_ok : report("help", written.error());
  }
  const bool man = first == "--man";
  const bool completes = first == "--completion";
  const bool about_help = first.starts_with("--help");
  const size_t words_max = man || completes || first == "--write" ? 2 : 1;
  if (words.size() > words_max)
    return report("help", {ErrorCode::invalid_argument, "explain this", words[words_max], 0,
                           second == "--man" ? "penstock help --man " + first
                                             : "penstock help, and one word"});
  const auto text =
      man         ? manual_page(line.texts(), second, version)
      : completes ? completion(line.texts(), second)
                  : help_text(line.texts(), about_help ? "help" : first, first == "--help-all");
  if (!text) {
    return report("help", {ErrorCode::invalid_argument,
                           completes ? "complete words in this shell" : "find this command",
                           man || completes ? second : first, 0,
                           completes ? "bash, zsh or fish" : "penstock help"});
  }
  print("{}", *text);
  return exit_ok;
}

// "penstock --version --json": the build, and the instructions used on this machine.
int print_build() {
#ifdef NDEBUG
  constexpr bool assertions = false;
#else
  constexpr bool assertions = true;
#endif
  const nlohmann::ordered_json json = {{"version", PENSTOCK_VERSION_STRING},
                                       {"compiler", __VERSION__},
                                       {"assertions", assertions},
                                       {"instructions", os::name_of(os::cpu_tier())}};
  print("{}\n", json.dump(2));
  return exit_ok;
}

bool is_called_sort(const char* name) {
  const std::string_view path = name == nullptr ? "" : name;
  return path.substr(path.rfind('/') + 1) == "sort";
}

int run_command(const Command& command) {
  if (Status apart = command.parser.refuse_shared_files(); !apart)
    return report(typed_command(), apart.error());
  return command.run();
}

// Runs the program under the name "sort", which has no subcommands.
int run_sort(int argc, char** argv) {
  call_me_sort();
  CommandLine line("sort", "sort, merge or check files, as GNU sort does",
                   "sort (Penstock) " PENSTOCK_VERSION_STRING);
  Parser program = line.parser();
  const Command sort = make_sort(program);
  std::vector<std::string> words(argv, argv + argc);
  words = with_gnu_forms(std::move(words), sort.parser);
  words.erase(words.begin());
  if (const auto code = line.parse(std::move(words))) return *code;
  return run_command(sort);
}

// PENSTOCK_CORE_DUMPS=without-memory, for users whose data must not be in core dumps.
Status limit_core_dumps() {
  const char* const text = std::getenv("PENSTOCK_CORE_DUMPS");
  if (text == nullptr || *text == 0) return {};
  if (std::string_view(text) != "without-memory")
    return misuse("dump cores in this way", std::string("PENSTOCK_CORE_DUMPS=") + text,
                  "without-memory");
  return os::keep_memory_out_of_core_dumps();
}

int run(int argc, char** argv) {
  if (Status status = limit_core_dumps(); !status) return report("", status.error());
  if (Status status = os::check_cpu_variable(); !status) return report("", status.error());
  if (is_called_sort(argv[0])) return run_sort(argc, argv);
  CommandLine line("penstock", "sort, join, group and search files larger than memory",
                   "penstock " PENSTOCK_VERSION_STRING);
  Parser program = line.parser();
  program.describe(
      {.examples = {
           {"penstock sort --key price:n orders.csv -o sorted.csv", "sort a CSV file by a column"},
           {"penstock plan big.txt -S 1G", "what a sort would cost, before it runs"},
           {"penstock trace -o run.trace -- ls -l && penstock report run.trace",
            "which files a program reads and writes, and how"}}});
  const std::vector<Command> commands = commands_for(argc > 1 ? argv[1] : "", program);
  if (argc > 1 && std::string_view(argv[1]) == "help")
    return explain(line, {argv + 2, argv + argc});
  std::vector<std::string> words = words_of(argc, argv, commands);
  // -h alone would sort what is typed on the terminal by its sizes: it asks for the help.
  if (words == std::vector<std::string>{"sort", "-h"} && ::isatty(STDIN_FILENO) == 1)
    words[1] = "--help";
  if (!words.empty() && (words[0] == "version" || words[0] == "-V")) words[0] = "--version";
  if (words == std::vector<std::string>{"--version", "--json"}) return print_build();
  if (const auto code = line.parse(std::move(words))) return *code;
  for (const Command& command : commands) {
    if (command.parser.chosen()) return run_command(command);
  }
  print_to(stderr, "{}", help_text(line.texts(), "").value_or(""));
  return exit_error;
}

}  // namespace
}  // namespace penstock::cli

namespace {

// Failures that no function returns, in any thread: the system refuses memory, or a stream cannot
// deliver a block. The process ends without unwinding, because other threads may wait for the
// failed one. Temporaries have no names, and an output none yet, so the system removes them with the
// process. (On a file system without nameless files, the next run removes them.)

const char* program_name = "penstock";
const char* command_name = "";

// Async-signal-safe enough for a fault handler: snprintf() and write() only.
[[noreturn]] void end_with(const char* what) noexcept {
  char text[1024];
  const char* gap = *program_name == 0 || *command_name == 0 ? "" : " ";
  const int length =
      std::snprintf(text, sizeof text, "%s%s%s: %s\n", program_name, gap, command_name, what);
  if (length > 0) {
    const auto bytes = std::min(static_cast<size_t>(length), sizeof text - 1);
    [[maybe_unused]] auto written = write(STDERR_FILENO, text, bytes);
  }
  _exit(penstock::cli::exit_error);
}

[[noreturn]] void end_uncaught() noexcept {
  if (std::current_exception() != nullptr) {
    try {
      throw;
    } catch (const std::bad_alloc&) {
      end_with("out of memory (try: a higher limit (ulimit -v, -d), or a smaller -S)");
    } catch (const std::exception& error) {
      end_with(error.what());
    } catch (...) {
    }
  }
  std::abort();
}

void end_for_stream(const penstock::stream::Failure& failure) noexcept {
  char text[768];
  const char* reason = failure.system_errno != 0 ? strerrordesc_np(failure.system_errno) : nullptr;
  std::snprintf(text, sizeof text, "%s: cannot %s%s%s", failure.subject, failure.attempted,
                reason != nullptr ? ": " : "", reason != nullptr ? reason : "");
  end_with(text);
}

}  // namespace

int main(int argc, char** argv) {
  if (penstock::cli::is_called_sort(argv[0])) {
    program_name = "sort";
  } else if (argc > 1) {
    command_name = argv[1];
  }
  std::set_terminate(end_uncaught);
  penstock::stream::set_stopping(end_for_stream);
  penstock::fault::unblock_faults();  // the inherited signal mask may block them
  penstock::os::keep_heap_trimmed();
  penstock::os::occupy_standard_streams();
  penstock::os::write_on_after_signals(stdout);
  penstock::cli::take_file_limits_as_errors();
  // A merge opens all of its inputs at once. A traced program keeps the limit that it would have.
  if (argc < 2 || std::string_view(argv[1]) != "trace") {
    (void)penstock::os::raise_open_files_limit();
  }
  // A failed write of the output is an error even as late as here. After one, the rest of the buffer
  // is discarded.
  int code = penstock::cli::run(argc, argv);
  const bool written = std::ferror(stdout) == 0 && std::fflush(stdout) == 0;
  if (!written) ::__fpurge(stdout);
  if (std::fclose(stdout) != 0 || !written) {
    std::fprintf(stderr, "%s: cannot write to standard output\n", program_name);
    return penstock::cli::exit_error;
  }
  return code;
}
