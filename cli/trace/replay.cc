// penstock replay: makes the requests of a trace again, on a disk, an emulated one, or a model of
// one.

#include "trace/replay/replay.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/wrapped.h"
#include "cli/common/command.h"
#include "cli/common/print.h"
#include "cli/common/stop_signals.h"
#include "cli/trace/replay_stage.h"
#include "cli/trace/request_range.h"
#include "cli/trace/trace_summary.h"
#include "trace/report/terminal_text.h"
#include "trace/report/text.h"

namespace penstock::cli {
namespace {

using Json = nlohmann::ordered_json;
using report::bytes_text;
using report::counted;
using report::duration_text;
using report::grouped;
using report::printable;
using report::rate_text;
using trace::Concurrency;
using trace::ReplayFigures;
using trace::ReplayOptions;
using trace::ReplayPlan;
using trace::ReplayResult;

constexpr size_t replay_files_shown = 12;
constexpr size_t replay_name_columns = 26;

struct ReplayArguments {
  std::string trace;
  StageWords stage;
  std::string pace = "fast";
  bool serial = false;
  std::optional<unsigned> ahead;
  bool join = false;
  std::vector<std::string> under;
  std::string requests;
  bool json = false;
};

Result<ReplayOptions> options_of(const ReplayArguments& arguments, const Stage& stage) {
  ReplayOptions options{
      .under = {},
      .room = stage.room(),
      .pace = arguments.pace == "original" ? trace::Pace::original : trace::Pace::fast,
      .join = arguments.join,
      .sync = stage.sync(),
      .buffered = stage.buffered()};
  for (const std::string& path : arguments.under) options.under.push_back(absolute_under(path));
  if (arguments.serial && arguments.ahead) {
    return failure(ErrorCode::invalid_argument, "use both", "--serial and --ahead",
                   "one of them; --ahead 1 is serial, too");
  }
  if (arguments.serial) options.concurrency = Concurrency::serial;
  if (arguments.ahead) {
    options.concurrency = Concurrency::ahead;
    options.depth = *arguments.ahead;
  }
  if (!arguments.requests.empty()) {
    const auto range = parse_request_range(arguments.requests);
    if (!range) return std::unexpected(range.error());
    options.first_request = range->first;
    options.requests = range->count;
  }
  return options;
}

std::string how_text(const ReplayOptions& options, const Stage& stage) {
  std::string text = options.pace == trace::Pace::fast ? "as fast as it goes" : "at its own pace";
  if (!stage.simulated()) {
    text += options.concurrency == Concurrency::serial ? ", one request at a time"
            : options.concurrency == Concurrency::original
                ? ", as many at a time as in the trace"
                : fmt::format(", {} in flight", options.depth);
  }
  if (options.join) text += ", requests that go on joined";
  return text;
}

// Returns the files of the replay, sorted by moved bytes in descending order.
std::vector<size_t> busiest(const ReplayResult& result) {
  std::vector<size_t> files;
  for (size_t i = 0; i < result.files.size(); ++i) {
    if (result.files[i].requests() != 0) files.push_back(i);
  }
  std::ranges::stable_sort(files, std::ranges::greater{},
                           [&](size_t i) { return result.files[i].bytes(); });
  return files;
}

void print_row(const char* what, const std::string& read, const std::string& written,
               const std::string& all) {
  print("  {:<12}{:>14}{:>14}{:>14}\n", what, read, written, all);
}

void print_text(const ReplayArguments& arguments, const ReplayPlan& plan,
                const ReplayResult& result, const ReplayOptions& options, const Stage& stage) {
  const ReplayFigures& all = result.totals;
  const auto line = [](const std::string& sentence, size_t indent = 2) {
    print("{}\n", wrapped(sentence, indent, 0));
  };
  line(fmt::format("{}: {} on {}, {}", printable(arguments.trace),
                   counted(all.requests(), "request"), counted(plan.layout.files, "file"),
                   how_text(options, stage)));
  line("on " + result.device);
  if (const std::string where = stage.description(); !where.empty()) line(where);
  print("\n  {:<12}{:>14}{:>14}{:>14}\n", "", "read", "written", "all");
  print_row("requests", grouped(all.reads), grouped(all.writes), grouped(all.requests()));
  print_row("asked", bytes_text(all.read_bytes), bytes_text(all.written_bytes),
            bytes_text(all.bytes()));
  print_row("moved", bytes_text(all.moved_read_bytes), bytes_text(all.moved_written_bytes),
            bytes_text(all.moved_bytes()));
  print("\n  {}, {}\n", duration_text(result.seconds), rate_text(result.bytes_per_s()));
  line(fmt::format("  {} ({} in the trace), {} in a run between two of them",
                   counted(all.seeks, "seek"), grouped(all.trace_seeks),
                   bytes_text(all.mean_run_bytes())),
       4);
  if (const std::string runs = runs_text(result.runs); !runs.empty()) line("  " + runs, 4);
  if (all.syncs != 0) {
    if (all.syncs == 1)
      line("  1 sync of " + duration_text(all.sync_seconds));
    else
      print("  {}, {} each in the mean, the slowest {}\n", counted(all.syncs, "sync"),
            duration_text(all.sync_seconds / static_cast<double>(all.syncs)),
            duration_text(all.slowest_sync_seconds));
  }

  const std::vector<size_t> files = busiest(result);
  print("\n  {:>9} {:>9} {:>10} {:>9} {:>9}\n", "read", "written", "seeks", "run", "busy at");
  for (size_t i = 0; i < std::min(files.size(), replay_files_shown); ++i) {
    const ReplayFigures& file = result.files[files[i]];
    const double rate =
        file.busy_seconds > 0 ? static_cast<double>(file.moved_bytes()) / file.busy_seconds : 0;
    print("  {:>9} {:>9} {:>10} {:>9} {:>9}  {}\n", bytes_text(file.read_bytes),
          bytes_text(file.written_bytes), grouped(file.seeks), bytes_text(file.mean_run_bytes()),
          rate_text(rate),
          report::fitted(plan.conversion.files[files[i]].path, replay_name_columns,
                         terminal_has_unicode()));
  }
  if (files.size() > replay_files_shown) {
    print("  ... and {} (all of them: --json)\n",
          counted(files.size() - replay_files_shown, "more file"));
  }
  for (const std::string& note : replay_notes(plan, result, options)) line("note: " + note);
}

void print_json(const ReplayArguments& arguments, const ReplayPlan& plan,
                const ReplayResult& result, const ReplayOptions& options, const Stage& stage) {
  Json json = {{"trace", arguments.trace},
               {"how", how_text(options, stage)},
               {"simulated", stage.simulated()},
               {"requests", result.totals.requests()}};
  json.update(result_json(result));
  if (!stage.simulated()) {
    json["region_bytes"] = stage.region_bytes();
    const auto pieces = stage.pieces();
    json["region_pieces"] = pieces ? Json(*pieces) : Json(nullptr);
  }
  Json files = Json::array();
  for (const size_t i : busiest(result)) {
    const trace::FileExtent& extent = plan.layout.extents[i];
    Json file = {{"path", plan.conversion.files[i].path},
                 {"region_offset", extent.base},
                 {"file_offset", extent.skipped_bytes},
                 {"bytes", extent.bytes}};
    file.update(figures_json(result.files[i]));
    files.push_back(std::move(file));
  }
  json["files"] = std::move(files);
  json["notes"] = replay_notes(plan, result, options);
  // A path need not be UTF-8.
  print("{}\n", json.dump(2, ' ', false, Json::error_handler_t::replace));
}

int run_replay(const ReplayArguments& arguments) {
  StageWords words = arguments.stage;
  words.smaller_hint = "--under FOLDER or --requests FROM..TO for a part";
  auto stage = Stage::choose(words);
  if (!stage) return report("replay", stage.error());
  auto options = options_of(arguments, *stage);
  if (!options) return report("replay", options.error());

  const StopSignals signals({.command = "replay", .outcome = "the region is gone"});
  auto end = [&](const Error& error) {
    if (error.code == ErrorCode::interrupted && signals.caught() != 0) return signals.die();
    return report("replay", error);
  };
  options->cancel = &signals.flag();
  const auto plan = trace::plan_replay(arguments.trace, *options);
  if (!plan) return end(plan.error());
  stage->make_room_for(*plan);
  if (Status prepared = stage->prepare(options->cancel); !prepared) {
    return end(prepared.error());
  }
  const auto result = stage->replay(arguments.trace, *plan, *options);
  if (!result) return end(result.error());
  if (arguments.json) {
    print_json(arguments, *plan, *result, *options, *stage);
  } else {
    print_text(arguments, *plan, *result, *options, *stage);
  }
  // The text output has a note instead.
  if (!plan->conversion.complete && arguments.json) {
    print_to(stderr, "penstock replay: {}; the part in front of it was replayed\n",
             plan->conversion.cut_off.message());
  }
  return plan->conversion.complete ? exit_ok : exit_incomplete;
}

}  // namespace

Command add_replay(Parser& program) {
  auto arguments = std::make_shared<ReplayArguments>();
  ReplayArguments& a = *arguments;
  Parser parser =
      program.add_subcommand("replay", "repeat the requests of a trace on a disk or a model");
  parser.add_option("TRACE", a.trace, "a file of penstock trace").required("run.trace");
  add_stage_options(parser, a.stage);
  parser
      .add_option("--pace", a.pace,
                  "fast (default): as fast as the device goes; original: no request before its "
                  "time in the trace")
      .one_of({"fast", "original"});
  parser.add_flag("--serial", a.serial, "one request at a time (default: as many as in the trace)");
  parser.add_option("--ahead", a.ahead,
                    "this number of requests in flight, in the order of the trace (1 to 64)");
  parser.add_flag("--join", a.join,
                  "join requests that begin where the last one ended, up to 2 MiB, as the page "
                  "cache does");
  parser.add_option(
      "--under", a.under,
      "only files whose path begins with this (may be given again); the relative name "
      "of a file or folder will do");
  parser.add_option("--requests", a.requests,
                    "only this part of the trace: FROM..TO, counted from 0");
  parser.add_flag("--json", a.json, "print the result as JSON, with all files");
  parser.describe(
      {.examples = {{"penstock replay run.trace --simulate hdd",
                     "how long the requests would take on a hard disk"},
                    {"penstock replay run.trace --on .", "repeat the requests on this disk"}},
       .notes =
           {"The files that the trace names are never opened. Their requests go to one region, "
            "reserved in a directory, which has space for the peak size of each file. It is "
            "written completely first. docs/replay.md explains the figures."},
       .exit_codes = {{0, "done"},
                      {1, "the trace was cut off (the part before the cut was replayed)"},
                      {2, "any error"}}});
  return {parser, [arguments] { return run_replay(*arguments); }};
}

}  // namespace penstock::cli
