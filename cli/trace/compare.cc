// penstock compare: tables I, II and III of Tuxedo for programs of the user's choice. Each is run
// under trace with the same input and memory; then all traces are replayed on one device.
//
// The comparison is of the programs' requests, not of their computation. So a replay joins requests
// that begin where the last one ended (as a page cache did), keeps the order of the trace, and
// keeps the device busy: bytes and seeks remain.

#include <fmt/core.h>
#include <signal.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/wrapped.h"
#include "cli/common/command.h"
#include "cli/common/print.h"
#include "cli/common/size.h"
#include "cli/common/stop_signals.h"
#include "cli/common/write_file.h"
#include "cli/trace/compare_programs.h"
#include "cli/trace/replay_stage.h"
#include "cli/trace/sort_page.h"
#include "io/temporaries.h"
#include "os/limits.h"
#include "os/memory_group.h"
#include "penstock/base.h"
#include "penstock/trace.h"
#include "penstock/version.h"
#include "trace/replay/replay.h"
#include "trace/report/page.h"
#include "trace/report/summary.h"
#include "trace/report/terminal_text.h"
#include "trace/report/text.h"

namespace penstock::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using report::bytes_text;
using report::counted;
using report::duration_text;
using report::grouped;
using report::printable;
using report::rate_text;
using trace::ReplayFigures;

// Returns the size of a program's memory group: its memory option, and room for its code, its
// stacks, and the page cache of its buffered files.
constexpr uint64_t group_bytes(uint64_t memory_bytes) {
  return memory_bytes + memory_bytes / 4 + 64 * MiB;
}

// Returns the signal that stopped the run: SIGHUP, SIGINT or SIGTERM that ended the program, or
// that we got while it ran, whatever the program did with it. Returns 0 without one.
int stopping_signal(const trace::Captured& captured) {
  if (captured.handed_signal != 0) return captured.handed_signal;
  const int signal = captured.totals.exit_code - 128;
  return signal == SIGHUP || signal == SIGINT || signal == SIGTERM ? signal : 0;
}

struct CompareArguments {
  std::string input;
  std::string memory;
  std::string format = "lines";
  std::string work;
  std::string limit = "auto";
  std::string traces;
  std::string page;
  std::vector<std::string> names;
  std::vector<std::string> commands;
  StageWords stage;
  unsigned threads = 2;
  unsigned ahead = 16;
  bool no_join = false;
  bool phases = false;
  bool json = false;
};

// The replay of a program's whole trace, or of one phase.
struct PhaseReplay {
  std::string name;  // empty for the whole trace
  trace::ReplayOptions options;
  trace::ReplayPlan plan;
  std::optional<trace::ReplayResult> result;
};

// One program, from its name to its line of the table.
struct Row {
  ComparedProgram program;
  std::string problem;  // why figures are missing; empty if they are not
  std::string folder;
  std::string trace;
  double run_seconds = 0;  // time of the run under trace
  uint64_t peak_bytes = 0;
  bool limited = false;  // the system enforced the memory limit
  uint64_t input_bytes = 0;
  std::vector<std::string> notes;
  trace::ReplayOptions options;
  std::vector<PhaseReplay> phases;  // the whole trace first; empty if there is a problem

  // Tuxedo's d: 1 is one reading and one writing of the input.
  double passes(const PhaseReplay& phase) const {
    return static_cast<double>(phase.plan.bytes) / static_cast<double>(2 * input_bytes);
  }
  // Tuxedo's lambda: input and output over the time that it takes.
  double rate(const PhaseReplay& phase) const {
    return static_cast<double>(2 * input_bytes) / phase.result->seconds;
  }
};

// A folder that the destructor removes. It contains sorted copies of the input, which may be
// private: only its owner can read it, and nobody can create it, or a link in its place, before us.
class WorkFolder {
 public:
  static Result<WorkFolder> make(const std::string& parent) {
    std::error_code error;
    const fs::path real = fs::canonical(parent, error);
    if (error) return system_error(error.value(), "work in", parent, "--work DIRECTORY");
    std::string folder = (real / "penstock-compare-XXXXXX").string();
    if (::mkdtemp(folder.data()) == nullptr) {
      return system_error(errno, "make a folder in", parent, "--work DIRECTORY");
    }
    return WorkFolder(folder);
  }
  WorkFolder(WorkFolder&& other) noexcept : folder_(std::exchange(other.folder_, {})) {}
  WorkFolder& operator=(WorkFolder&&) = delete;
  ~WorkFolder() {
    std::error_code ignored;
    if (!folder_.empty()) fs::remove_all(folder_, ignored);
  }
  std::string operator/(const std::string& name) const { return (folder_ / name).string(); }

 private:
  explicit WorkFolder(fs::path folder) : folder_(std::move(folder)) {}
  fs::path folder_;
};

// Returns the last line of a program's output, for its row; only the end of a long line.
std::string last_line(const std::string& path) {
  constexpr std::streamoff tail_bytes = 4096;  // bytes read from the end
  std::ifstream file(path, std::ios::binary);
  file.seekg(0, std::ios::end);
  const std::streamoff bytes = file.tellg();
  if (bytes <= 0) return {};
  file.seekg(std::max<std::streamoff>(0, bytes - tail_bytes));
  std::string text(static_cast<size_t>(std::min(bytes, tail_bytes)), '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(file.gcount()));
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
  return printable(text.substr(text.rfind('\n') + 1), 100);
}

// Returns the command of a shell that joins the memory group, redirects its output to a file, and
// becomes the program. Files that the program creates are readable by their owner alone.
std::vector<std::string> with_log(const std::vector<std::string>& words, const std::string& log,
                                  const std::string& processes_file) {
  constexpr const char* script =
      "umask 077; log=$1; group=$2; shift 2; [ -z \"$group\" ] || echo 0 >\"$group\" || exit 97; "
      "exec \"$@\" >\"$log\" 2>&1 </dev/null";
  std::vector<std::string> all = {"sh", "-c", script, "sh", log, processes_file};
  all.insert(all.end(), words.begin(), words.end());
  return all;
}

// Runs a program under trace. Its errors go to its row. Fails if a signal stopped it, and sets
// `stopped_by`: signals of the terminal reach the program, and are meant for the whole comparison.
Status run_program(Row& row, const CompareArguments& arguments, uint64_t memory_bytes,
                   int& stopped_by) {
  const std::string log = row.folder + ".log";
  auto fail = [&](std::string problem) -> Status {
    const std::string said = last_line(log);
    row.problem = said.empty() ? std::move(problem) : problem + ": " + said;
    return {};
  };
  auto exit_text = [](int code) {
    return code > 128 ? fmt::format("it was ended by signal {}", code - 128)
                      : fmt::format("it ended with exit code {}", code);
  };
  if (!row.program.prepare.empty()) {
    const auto prepared = trace::capture({.output = "/dev/null",
                                          .backend = trace::Backend::ptrace,
                                          .command = with_log(row.program.prepare, log, "")});
    if (!prepared) return fail(prepared.error().message());
    stopped_by = stopping_signal(*prepared);
    if (stopped_by != 0) return failure(ErrorCode::interrupted, "compare", row.program.name);
    if (prepared->totals.exit_code != 0) {
      return fail("its input could not be made: " + exit_text(prepared->totals.exit_code));
    }
  }
  const std::optional<os::MemoryGroup> group =
      arguments.limit == "own" ? std::nullopt : os::MemoryGroup::make(group_bytes(memory_bytes));
  if (!group && arguments.limit == "cgroup") {
    return fail("no memory cgroup can be made here (--limit own)");
  }
  const auto begin = std::chrono::steady_clock::now();
  const auto captured = trace::capture(
      {.output = row.trace,
       .backend = trace::Backend::ptrace,  // loses no events, even on a busy machine
       .command = with_log(row.program.words, log, group ? group->processes_file() : "")});
  row.run_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (!captured) return fail(captured.error().message());
  if (group) {
    row.limited = true;
    row.peak_bytes = group->peak_bytes();
  }
  stopped_by = stopping_signal(*captured);
  if (stopped_by != 0) return failure(ErrorCode::interrupted, "compare", row.program.name);
  if (captured->totals.exit_code != 0) return fail(exit_text(captured->totals.exit_code));
  std::error_code error;
  row.input_bytes = fs::file_size(row.program.input, error);
  const uint64_t output_bytes = fs::file_size(row.program.output, error);
  if (!row.program.same_bytes && (error || output_bytes == 0))
    row.notes.push_back("it wrote nothing to {output}: its figures are those of reading alone");
  if (row.program.same_bytes) {
    if (error || output_bytes != row.input_bytes) {
      return fail(error ? "it wrote no output"
                        : fmt::format("its output has {} bytes, its input {}",
                                      grouped(output_bytes), grouped(row.input_bytes)));
    }
  }
  return {};
}

// Plans the replay of a row's trace, and adds notes about calls that the trace lacks.
Status plan_row(Row& row, bool phases) {
  auto plan = trace::plan_replay(row.trace, row.options);
  if (!plan) {
    if (plan.error().code == ErrorCode::interrupted) return std::unexpected(plan.error());
    row.problem = plan.error().message();
    return {};
  }
  uint64_t read_bytes = 0;
  uint64_t boundary = 0;  // number behind the last request to the input
  for (size_t i = 0; i < plan->last_request_end.size(); ++i) {
    const trace::ConvertedFile& file = plan->conversion.files[i];
    if (file.first_path != row.program.input) continue;
    read_bytes += file.read_bytes;
    boundary = std::max(boundary, plan->last_request_end[i]);
  }
  if (read_bytes < row.input_bytes / 10 * 9) {
    row.notes.push_back(fmt::format(
        "the trace shows {} read of an input of {}: the rest went by ways that are not seen "
        "(mapped files, AIO)",
        bytes_text(read_bytes), bytes_text(row.input_bytes)));
  }
  // The figures miss nothing by calls that failed or moved no file's bytes, nor by mapped
  // libraries.
  if (!plan->conversion.complete) row.notes.push_back("its trace was cut off");
  for (size_t i = 0; i < plan->conversion.unseen.size(); ++i) {
    const auto what = static_cast<trace::Unseen>(i);
    if (plan->conversion.unseen[i] == 0 || what == trace::Unseen::failed_calls ||
        what == trace::Unseen::stream_calls || what == trace::Unseen::mapped_files) {
      continue;
    }
    const uint64_t number = plan->conversion.unseen[i];
    row.notes.push_back(fmt::format("{} {}", grouped(number), trace::name_of(what, number)));
  }
  const uint64_t requests = plan->requests;
  row.phases.push_back({.options = row.options, .plan = std::move(*plan)});
  if (!phases || boundary == 0 || boundary >= requests) return {};
  for (const bool after : {false, true}) {
    PhaseReplay phase{.name = after ? "after it" : "reading input", .options = row.options};
    phase.options.first_request = after ? boundary : 0;
    phase.options.requests = after ? requests - boundary : boundary;
    auto planned = trace::plan_replay(row.trace, phase.options);
    if (!planned) return std::unexpected(planned.error());
    phase.plan = std::move(*planned);
    row.phases.push_back(std::move(phase));
  }
  return {};
}

Json phase_json(const Row& row, const PhaseReplay& phase) {
  Json json = {{"requests", phase.plan.requests},
               {"files", phase.plan.layout.files},
               {"passes", row.passes(phase)},
               {"input_and_output_bytes_per_s", row.rate(phase)}};
  json.update(result_json(*phase.result));
  return json;
}

Json row_json(const Row& row) {
  Json json = {{"program", row.program.name}};
  if (!row.problem.empty()) {
    json["problem"] = row.problem;
    return json;
  }
  json["run_seconds_traced"] = row.run_seconds;
  json["limited_by"] = row.limited ? "cgroup" : "own options";
  if (row.limited) json["cgroup_peak_bytes"] = row.peak_bytes;
  json["input_bytes"] = row.input_bytes;
  json.update(phase_json(row, row.phases.front()));
  for (const PhaseReplay& phase : row.phases) {
    if (phase.name.empty()) continue;
    Json object = {{"phase", phase.name}};
    object.update(phase_json(row, phase));
    json["phases"].push_back(std::move(object));
  }
  json["notes"] = row.notes;
  return json;
}

std::string limit_text(const std::vector<Row>& rows, uint64_t memory_bytes) {
  const auto ran = [](const Row& row) { return row.problem.empty(); };
  const auto limited = [](const Row& row) { return row.problem.empty() && row.limited; };
  const auto runs = std::ranges::count_if(rows, ran);
  const std::string group = fmt::format("a memory cgroup of {} (page cache included)",
                                        bytes_text(group_bytes(memory_bytes)));
  const auto groups = std::ranges::count_if(rows, limited);
  if (groups == 0) return "their own options alone: nobody made them keep to it";
  if (groups == runs) return "their own options, and " + group;
  return fmt::format("their own options; {} of {} also by {}", groups, runs, group);
}

// Returns a ratio as text: "1.08 x", "14,066 x".
std::string times_text(double ratio) {
  return ratio < 1000 ? fmt::format("{:.3g} x", ratio)
                      : grouped(static_cast<uint64_t>(ratio)) + " x";
}

void print_table(const CompareArguments& arguments, const std::vector<Row>& rows,
                 const Stage& stage, uint64_t memory_bytes) {
  std::error_code error;
  report::Text text;
  const auto line = [&](const std::string& sentence) { text.line("{}", wrapped(sentence, 2, 0)); };
  line(fmt::format("{} ({}), {} of memory, {}", printable(arguments.input),
                   bytes_text(fs::file_size(arguments.input, error)), bytes_text(memory_bytes),
                   counted(arguments.threads, "thread")));
  line("memory limited by " + limit_text(rows, memory_bytes));
  for (const Row& row : rows) {
    if (row.phases.empty()) continue;
    line("replayed on " + row.phases.front().result->device);
    break;
  }
  if (const std::string where = stage.description(); !where.empty()) line(where);

  // The smallest number of seeks of all programs.
  uint64_t fewest = ~uint64_t{0};
  for (const Row& row : rows) {
    if (row.phases.empty()) continue;
    fewest = std::min(fewest, std::max<uint64_t>(1, row.phases.front().result->totals.seeks));
  }
  text.line("\n{:<14}{:>7}{:>11}{:>8}{:>10}{:>11}{:>9}{:>10}", "program", "passes", "seeks", "",
            "mean run", "rate", "replay", "traced");
  for (const Row& row : rows) {
    if (!row.problem.empty())
      text.line("{:<14}{}", printable(row.program.name, 12), wrapped(row.problem, 14));
    for (const PhaseReplay& phase : row.phases) {
      const bool whole = phase.name.empty();
      const ReplayFigures& all = phase.result->totals;
      text.line(
          "{:<14}{:>7.2f}{:>11}{:>8}{:>10}{:>11}{:>9}{:>10}",
          whole ? printable(row.program.name, 12) : "  " + phase.name, row.passes(phase),
          grouped(all.seeks),
          whole ? times_text(static_cast<double>(all.seeks) / static_cast<double>(fewest)) : "",
          bytes_text(all.mean_run_bytes()), rate_text(row.rate(phase)),
          duration_text(phase.result->seconds), whole ? duration_text(row.run_seconds) : "");
    }
  }
  text.line("\n{}",
            wrapped("passes: bytes moved over those of input and output. seeks: where the "
                    "device had to go elsewhere (x: of the fewest). rate: bytes of input and "
                    "output over the time of the replay. traced: the time of the traced run.",
                    0));
  for (const Row& row : rows) {
    for (const std::string& note : row.notes)
      line("note: " + printable(row.program.name) + ": " + note);
  }
  print("{}", text.take());
}

// Returns the common start of the paths of the input and the program's own folder. Libraries are
// elsewhere.
std::string common_folder(const Row& row) {
  const auto [end, other] = std::ranges::mismatch(row.program.input, row.folder);
  const std::string common(row.program.input.begin(), end);
  return common.substr(0, common.rfind('/') + 1);
}

Status write_page(const CompareArguments& arguments, const std::vector<Row>& rows) {
  const auto shown = static_cast<size_t>(
      std::ranges::count_if(rows, [](const Row& row) { return !row.phases.empty(); }));
  report::SummaryOptions options;
  options.single_requests /= std::max<size_t>(1, shown);
  if (shown > 2) options.rows /= 2;
  std::vector<report::TraceSummary> summaries;
  for (const Row& row : rows) {
    if (row.phases.empty()) continue;
    options.convert.under = common_folder(row);
    auto summary = report::summarize(row.trace, options);
    if (!summary) return std::unexpected(summary.error());
    summary->path = row.program.name;
    summaries.push_back(std::move(*summary));
  }
  if (summaries.empty()) return {};
  return write_file(arguments.page,
                    report::make_page(summaries, {}, {.version = PENSTOCK_VERSION_STRING}));
}

// Runs the comparison. `stopped_by` is that of run_program().
Result<int> compare(const CompareArguments& arguments, const StopSignals& signals,
                    int& stopped_by) {
  if (arguments.names.empty() && arguments.commands.empty()) {
    return failure(ErrorCode::invalid_argument, "compare nothing", "PROGRAM",
                   fmt::format("{}; or --run 'NAME=COMMAND {{input}} {{output}}'",
                               fmt::join(preset_names(), ", ")));
  }
  if (!arguments.page.empty()) {
    if (Status good = check_page(arguments.page); !good) return std::unexpected(good.error());
  }
  auto memory = parse_size("--memory", arguments.memory, os::machine_memory().memory_bytes);
  if (!memory) return std::unexpected(memory.error());
  auto stage = Stage::choose(arguments.stage);
  if (!stage) return std::unexpected(stage.error());
  std::error_code error;
  const fs::path input = fs::canonical(arguments.input, error);
  if (error) return system_error(error.value(), "read", arguments.input);
  const uint64_t input_bytes = fs::file_size(input, error);
  if (error || input_bytes == 0) {
    return failure(ErrorCode::invalid_argument, "compare programs on an empty input",
                   arguments.input, "a regular file");
  }

  std::string parent = arguments.work;
  if (parent.empty()) {
    const bool folder = fs::is_directory(arguments.stage.on, error);
    parent = folder ? arguments.stage.on : io::default_temp_directory();
  }
  auto work = WorkFolder::make(parent);
  if (!work) return std::unexpected(work.error());
  if (!arguments.traces.empty()) {
    fs::create_directories(arguments.traces, error);
    if (error) return system_error(error.value(), "make", arguments.traces);
  }

  const SharedWork shared{.input = input.string(),
                          .format = arguments.format,
                          .memory_bytes = *memory,
                          .threads = arguments.threads,
                          .device = arguments.stage.profile()};
  std::vector<Row> rows;
  auto add = [&](Result<ComparedProgram> program, const std::string& folder) -> Status {
    if (!program) return std::unexpected(program.error());
    const std::string name = fmt::format("{}-{}.trace", rows.size() + 1,
                                         program->name.substr(0, program->name.find('/')));
    Row row{.program = std::move(*program), .folder = folder};
    row.problem = row.program.problem;
    row.trace = arguments.traces.empty() ? *work / name : arguments.traces + "/" + name;
    row.options = {.under = {row.program.input, folder + "/"},
                   .room = stage->room(),
                   .concurrency = trace::Concurrency::ahead,
                   .depth = arguments.ahead,
                   .join = !arguments.no_join,
                   .sync = stage->sync(),
                   .buffered = stage->buffered(),
                   .cancel = &signals.flag()};
    rows.push_back(std::move(row));
    return {};
  };
  auto next_folder = [&] {
    const std::string folder = *work / fmt::format("run{}", rows.size() + 1);
    fs::create_directories(folder, error);
    return folder;
  };
  for (const std::string& name : arguments.names) {
    const std::string folder = next_folder();
    if (Status added = add(preset(name, shared, folder), folder); !added) {
      return std::unexpected(added.error());
    }
  }
  for (const std::string& command : arguments.commands) {
    const std::string folder = next_folder();
    if (Status added = add(user_program(command, shared, folder), folder); !added) {
      return std::unexpected(added.error());
    }
  }

  auto stopped = [&] {
    // Relaxed order: the flag guards no other data.
    return signals.flag().load(std::memory_order_relaxed);
  };
  for (Row& row : rows) {
    if (stopped()) return failure(ErrorCode::interrupted, "compare", arguments.input);
    if (row.problem.empty()) {
      print_to(stderr, "penstock compare: running {}\n", row.program.name);
      if (Status ran = run_program(row, arguments, *memory, stopped_by); !ran) {
        return std::unexpected(ran.error());
      }
    }
    if (row.problem.empty()) {
      if (Status planned = plan_row(row, arguments.phases); !planned) {
        return std::unexpected(planned.error());
      }
    }
    fs::remove_all(row.folder, error);  // the output; the trace is not in this folder
    for (const PhaseReplay& phase : row.phases) stage->make_room_for(phase.plan);
  }
  if (std::ranges::any_of(rows, [](const Row& row) { return !row.phases.empty(); })) {
    if (const auto room = stage->needed_room()) {
      print_to(stderr, "penstock compare: the replay takes {}\n", *room);
    }
    if (Status prepared = stage->prepare(&signals.flag()); !prepared) {
      return std::unexpected(prepared.error());
    }
  }
  for (Row& row : rows) {
    for (PhaseReplay& phase : row.phases) {
      auto result = stage->replay(row.trace, phase.plan, phase.options);
      if (!result) return std::unexpected(result.error());
      phase.result = std::move(*result);
    }
  }

  if (arguments.json) {
    Json json = {{"input", arguments.input},
                 {"input_bytes", input_bytes},
                 {"memory_bytes", *memory},
                 {"threads", arguments.threads},
                 {"programs", Json::array()}};
    for (const Row& row : rows) json["programs"].push_back(row_json(row));
    print("{}\n", json.dump(2, ' ', false, Json::error_handler_t::replace));
  } else {
    print_table(arguments, rows, *stage, *memory);
  }
  if (!arguments.page.empty()) {
    if (stopped()) return failure(ErrorCode::interrupted, "compare", arguments.input);
    if (Status written = write_page(arguments, rows); !written) {
      return std::unexpected(written.error());
    }
  }
  return std::ranges::all_of(rows, [](const Row& row) { return row.problem.empty(); })
             ? exit_ok
             : exit_incomplete;
}

int run_compare(const CompareArguments& arguments) {
  const StopSignals signals(
      {.command = "compare",
       .outcome = "its files are gone",
       .outcome_at_once = "a folder penstock-compare-* may be left in the work folder"});
  int stopped_by = 0;
  const Result<int> code = compare(arguments, signals, stopped_by);
  if (code) return *code;
  if (code.error().code == ErrorCode::interrupted) {
    if (signals.caught() != 0) return signals.die();
    if (stopped_by != 0) return signals.die(stopped_by);
  }
  return report("compare", code.error());
}

}  // namespace

Command add_compare(Parser& program) {
  auto arguments = std::make_shared<CompareArguments>();
  CompareArguments& a = *arguments;
  Parser parser =
      program.add_subcommand("compare", "trace several programs, and replay them on one disk");
  parser.add_option("PROGRAM", a.names,
                    fmt::format("programs to compare: {}", fmt::join(preset_names(), ", ")));
  parser.add_option(
      "--run", a.commands,
      "a program of your own: 'NAME=COMMAND {input} {output} {memory} {threads} {tmp}', "
      "a line for the shell (may be given again)");
  parser.add_option("--input", a.input, "the input file of all programs").required("big.txt");
  parser.add_option("--memory", a.memory, "the memory of each program, as 512M").required("512M");
  parser.add_option("--format", a.format, "format of the input: lines (default) or u64")
      .one_of({"lines", "u64"});
  parser.add_option("--threads", a.threads, "threads of each program (default 2)").within(1, 1024);
  parser
      .add_option("--limit", a.limit,
                  "limit of the memory: cgroup (by the system), own (by the programs' options "
                  "alone), auto (default: cgroup if that is allowed)")
      .one_of({"auto", "cgroup", "own"});
  parser.add_option("--work", a.work,
                    "the folder of outputs and temporaries (default: --on, or the temporary "
                    "directory)");
  add_stage_options(parser, a.stage);
  parser.add_option("--ahead", a.ahead, "requests in flight in a replay (default 16)");
  parser.add_flag("--no-join", a.no_join, "replay each request by itself, as the trace has it");
  parser.add_flag("--phases", a.phases,
                  "also in two phases: until a program has read its input, and after that");
  parser.add_option("--traces", a.traces, "keep the traces in this folder");
  parser.add_option("--report", a.page, "a page with all traces side by side");
  parser.add_flag("--json", a.json, "print the table as JSON");
  parser.describe(
      {.examples = {{"penstock compare --input big.txt --memory 256M --on . gnu-sort penstock",
                     "run two sorts, and replay their requests on this disk"}},
       .notes = {"Programs that are missing, or fail, have rows with the reason. Numbers count a "
                 "program's requests to the input and to its own folder, and not to its libraries. "
                 "docs/replay.md explains the table."},
       .exit_codes = {{0, "done"}, {1, "a program is missing or failed"}, {2, "any error"}}});
  return {parser, [arguments] { return run_compare(*arguments); }};
}

}  // namespace penstock::cli
