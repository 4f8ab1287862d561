#include "cli/trace/replay_stage.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/misuse.h"
#include "cli/common/option_words.h"
#include "cli/common/progress_line.h"
#include "interfaces/api/profile_json.h"
#include "io/file.h"
#include "trace/report/text.h"

namespace penstock::cli {
namespace {

using Json = nlohmann::ordered_json;
using report::bytes_text;
using report::counted;
using report::grouped;
using trace::ReplayFigures;
using trace::ReplayPlan;
using trace::ReplayResult;

}  // namespace

void add_stage_options(Parser& parser, StageWords& words) {
  parser.add_option(
      "--on", words.on,
      "replay here: a directory on the disk (one file without a name is made in it, and "
      "vanishes), or a block device, with --overwrite-device");
  parser
      .add_flag("--overwrite-device", words.overwrite_device,
                "--on names a block device, and EVERYTHING ON IT MAY BE LOST")
      .rare();
  parser
      .add_option("--simulate", words.simulate,
                  "use a model instead of a disk: array24, hdd, sata-ssd, nvme, or a file of "
                  "penstock disk")
      .offers(disk_names);
  parser
      .add_option("--emulate", words.emulate,
                  "slow the disk down to another one: the same names, or "
                  "read=BYTES_PER_S,write=BYTES_PER_S,switch=SECONDS")
      .offers(disk_names)
      .rare();
  parser.add_flag("--buffered", words.buffered,
                  "through the page cache, with every offset and length exactly as in the trace");
  parser
      .add_flag(
          "--no-fill", words.no_fill,
          "do not write the whole region first: on most file systems, reads of unwritten space "
          "do not use the disk")
      .rare();
  parser
      .add_flag(
          "--no-sync", words.no_sync,
          "leave fsync and fdatasync out (default: each in its place, after all earlier writes "
          "to its file)")
      .rare();
  parser
      .add_option(
          "--room", words.room,
          "peak (default): each file as long as its data became; touched: only from its first "
          "to its last accessed byte")
      .one_of({"peak", "touched"})
      .rare();
}

std::string StageWords::profile() const {
  const std::string& given = simulate.empty() ? emulate : simulate;
  return given.find('=') == std::string::npos ? given : "";
}

Result<Stage> Stage::choose(const StageWords& words) {
  if (words.on.empty() == words.simulate.empty()) {
    return words.on.empty() ? misuse("replay without a disk", "",
                                     "--on . for this one, or --simulate hdd for a model")
                            : misuse("replay in two places", "--on and --simulate", "one of them");
  }
  Stage stage;
  stage.on_ = words.on;
  stage.buffered_ = words.buffered;
  stage.fill_ = !words.no_fill;
  stage.sync_ = !words.no_sync;
  stage.smaller_hint_ = words.smaller_hint;
  stage.room_ = words.room == "touched" ? trace::Room::touched : trace::Room::peak;
  if (!words.simulate.empty()) {
    for (const auto& [given, name] :
         {std::pair(words.overwrite_device, "--overwrite-device"),
          std::pair(!words.emulate.empty(), "--emulate"), std::pair(words.no_fill, "--no-fill")}) {
      if (given) return misuse("simulate and use a disk", name, "without it, or --on");
    }
    auto device = api::load_device(words.simulate);
    if (!device) return std::unexpected(device.error());
    stage.profile_ = std::move(device->profile);
    return stage;
  }

  std::error_code error;
  stage.is_device_ = std::filesystem::is_block_file(words.on, error);
  if (stage.is_device_ && !words.overwrite_device) {
    return misuse("replay on a block device: what is on it would be lost", words.on,
                  "a directory; or --overwrite-device, when nothing on it is needed any more");
  }
  if (words.overwrite_device && !stage.is_device_) {
    return misuse("overwrite what is no block device", words.on, "no --overwrite-device");
  }
  if (words.emulate.empty()) {
    stage.emulated_ = io::emulated();  // a test may emulate a device
  } else if (words.emulate.find('=') != std::string::npos) {
    auto device = io::EmulatedDevice::parse(words.emulate);
    if (!device) return std::unexpected(device.error());
    stage.emulated_ = *device;
  } else {
    auto device = api::load_device(words.emulate);
    if (!device) return std::unexpected(device.error());
    stage.emulated_profile_ = std::move(device->profile);
  }
  return stage;
}

void Stage::make_room_for(const ReplayPlan& plan) {
  bytes_needed_ = std::max(bytes_needed_, plan.layout.bytes);
  touched_bytes_needed_ = std::max(touched_bytes_needed_, plan.touched_bytes);
}

std::optional<std::string> Stage::needed_room() const {
  if (simulated() || is_device_) return std::nullopt;
  std::string text = fmt::format("{} on {}", bytes_text(bytes_needed_), on_);
  if (const auto space = io::space_of(on_); space && space->free_bytes != io::unknown_free_bytes) {
    text += fmt::format(", of {} that are free", bytes_text(space->free_bytes));
  }
  return text;
}

Status Stage::prepare(const std::atomic<bool>* cancel) {
  if (simulated()) return {};
  auto region = trace::ReplayRegion::open({.directory = is_device_ ? "" : on_,
                                           .device = is_device_ ? on_ : "",
                                           .bytes = bytes_needed_,
                                           .buffered = buffered_});
  if (!region) {
    Error error = region.error();
    if (error.code == ErrorCode::out_of_space && error.hint.empty()) {
      if (room_ == trace::Room::peak && touched_bytes_needed_ < bytes_needed_) {
        error.hint =
            fmt::format("--room touched, which needs {}; ", bytes_text(touched_bytes_needed_));
      }
      if (!smaller_hint_.empty()) error.hint += smaller_hint_ + "; ";
      error.hint += "--simulate DEVICE, which needs no room";
    }
    return std::unexpected(std::move(error));
  }
  region_ = std::move(*region);
  // Only the emulated device's clock is measured, so the real disk needs no filling.
  if (!fill_ || emulated_ || emulated_profile_) return {};
  ProgressLine line;
  trace::ReplayProgress show;
  if (line.wanted()) {
    show = [&](uint64_t done, uint64_t all) { line.show({"fill", done, all}); };
  }
  const auto begin = std::chrono::steady_clock::now();
  Status filled = region_->fill(cancel, show);
  fill_seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return filled;
}

Status Stage::use_emulated_device(const ReplayPlan& plan) {
  if (emulated_profile_) {
    if (Status good = emulated_profile_->check(); !good) return good;
    emulated_ = io::EmulatedDevice{.read_bytes_per_s = emulated_profile_->read_bytes_per_s,
                                   .write_bytes_per_s = emulated_profile_->write_bytes_per_s,
                                   .switch_seconds = emulated_profile_->switch_seconds.at(
                                       plan.files_read, plan.files_written)};
  }
  if (emulated_) io::emulate(emulated_);
  return {};
}

Result<ReplayResult> Stage::replay(const std::string& trace, const ReplayPlan& plan,
                                   const trace::ReplayOptions& options) {
  ProgressLine line;
  trace::ReplayOptions shown = options;
  if (line.wanted()) {
    shown.progress = [&](uint64_t done, uint64_t all) {
      line.show({simulated() ? "simulate" : "replay", done, all});
    };
  }
  if (simulated()) return trace::simulate_replay(trace, plan, *profile_, shown);
  if (Status used = use_emulated_device(plan); !used) return std::unexpected(used.error());
  return trace::replay(trace, plan, *region_, shown);
}

std::string Stage::description() const {
  if (!region_) return "";
  std::string text =
      region_->is_device()
          ? fmt::format("the first {} of {}", bytes_text(region_->bytes()), region_->place())
          : fmt::format("region of {} on {}", bytes_text(region_->bytes()), region_->place());
  if (!region_->is_device()) {
    if (const auto& pieces = region_->pieces(); !pieces) {
      text += ", at an unknown place of the disk";
    } else if (pieces->count == 1) {
      text += ", in one piece at " + bytes_text(pieces->begin);
    } else {
      text += fmt::format(", NOT CONTIGUOUS: {}, the first at {}", counted(pieces->count, "piece"),
                          bytes_text(pieces->begin));
    }
  }
  if (region_->filled()) {
    text += fmt::format(", filled in {:.1f} s", fill_seconds_);
  } else {
    text += emulated_ || emulated_profile_ ? ", not filled (emulated)" : ", not filled";
  }
  return text;
}

std::optional<uint64_t> Stage::pieces() const {
  if (!region_ || !region_->pieces()) return std::nullopt;
  return region_->pieces()->count;
}

Json figures_json(const ReplayFigures& figures) {
  return {{"reads", figures.reads},
          {"writes", figures.writes},
          {"read_bytes", figures.read_bytes},
          {"written_bytes", figures.written_bytes},
          {"trace_seeks", figures.trace_seeks},
          {"transfers", figures.transfers},
          {"moved_read_bytes", figures.moved_read_bytes},
          {"moved_written_bytes", figures.moved_written_bytes},
          {"seeks", figures.seeks},
          {"run_bytes_mean", figures.mean_run_bytes()},
          {"busy_seconds", figures.busy_seconds},
          {"slowest_seconds", figures.slowest_seconds},
          {"syncs", figures.syncs},
          {"sync_seconds", figures.sync_seconds},
          {"slowest_sync_seconds", figures.slowest_sync_seconds}};
}

Json result_json(const ReplayResult& result) {
  Json runs = Json::array();
  for (size_t k = 0; k < result.runs.size(); ++k) {
    if (result.runs[k] == 0) continue;
    runs.push_back({{"bytes_min", uint64_t{1} << k}, {"runs", result.runs[k]}});
  }
  Json json = {{"device", result.device},
               {"seconds", result.seconds},
               {"bytes_per_s", result.bytes_per_s()},
               {"moved_bytes_per_s", result.moved_bytes_per_s()}};
  json.update(figures_json(result.totals));
  json["runs"] = runs;
  json["joined_requests"] = result.joined;
  json["widened_transfers"] = result.widened;
  json["shared_sector_requests"] = result.shared_sector;
  json["in_flight_max"] = result.in_flight_max;
  json["sync_calls"] = result.sync_calls;
  json["late_seconds_max"] = result.late_seconds_max;
  json["late_seconds_end"] = result.late_seconds_end;
  if (result.emulated_busy_seconds) json["emulated_busy_seconds"] = *result.emulated_busy_seconds;
  return json;
}

std::vector<std::string> replay_notes(const ReplayPlan& plan, const ReplayResult& result,
                                      const trace::ReplayOptions& options) {
  std::vector<std::string> notes = plan.conversion.caveats();
  uint64_t syncs = 0;
  for (const trace::ConvertedFile& file : plan.conversion.files) syncs += file.syncs;
  if (syncs > result.totals.syncs) {
    const uint64_t left_out = syncs - result.totals.syncs;
    const bool one = left_out == 1;
    std::string note = fmt::format(
        "{} not replayed", counted(left_out, "sync of the trace is", "syncs of the trace are"));
    if (options.sync) {
      note += fmt::format(": nothing of {} is, or {} before the first request or in another part",
                          one ? "its file" : "their files", one ? "it is" : "they are");
    }
    notes.push_back(note + ".");
  }
  const uint64_t asked = result.totals.bytes(), moved = result.totals.moved_bytes();
  if (result.widened + result.shared_sector != 0) {
    notes.push_back(fmt::format(
        "{} widened to whole sectors, {} in a sector that had just been moved: {} moved for {} "
        "asked.",
        counted(result.widened, "transfer was", "transfers were"),
        counted(result.shared_sector, "request lay", "requests lay"), bytes_text(moved),
        bytes_text(asked)));
  }
  if (result.joined != 0) {
    notes.push_back(counted(result.joined, "request was", "requests were") +
                    " joined to the one before.");
  }
  if (options.pace == trace::Pace::original && result.late_seconds_max > 0.001) {
    notes.push_back(fmt::format(
        "The device was slower than the program's: up to {:.3g} s late, {:.3g} s in the end.",
        result.late_seconds_max, result.late_seconds_end));
  }
  if (result.emulated_busy_seconds && options.pace == trace::Pace::fast &&
      result.seconds > 1.05 * *result.emulated_busy_seconds + 0.01) {
    notes.push_back(fmt::format(
        "The emulated device was busy for {:.3g} of {:.3g} s: the rest is the real disk's, or time "
        "in which the program that was traced had nothing in flight.",
        *result.emulated_busy_seconds, result.seconds));
  }
  return notes;
}

}  // namespace penstock::cli
