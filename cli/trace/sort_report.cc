#include "cli/trace/sort_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "interfaces/api/occupancy_json.h"

namespace penstock::cli {
namespace {

using Statistics = nlohmann::json;  // not ordered_json, which needs stack for each level
using report::SortRun;

// Limits on the lists of an untrusted file, so that a page stays readable.
constexpr size_t phases_max = 64;
constexpr size_t rows_max = 64;
constexpr size_t staircases_max = 16;

// Values of the file are never copied: a copy takes a call for each level of nesting, and an
// untrusted file may have more levels than the stack has room for.

std::optional<double> number_of(const Statistics& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number()) return std::nullopt;
  const auto value = found->get<double>();
  return std::isfinite(value) ? std::optional(value) : std::nullopt;
}

std::string text_in(const Statistics& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

const Statistics* list_of(const Statistics& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_array() ? &*found : nullptr;
}

SortRun::PhaseFigures figures_of(const Statistics& phase) {
  return {.seconds = number_of(phase, "seconds"),
          .read_bytes = number_of(phase, "bytes_read"),
          .written_bytes = number_of(phase, "bytes_written"),
          .seeks = number_of(phase, "seeks"),
          .run_bytes = number_of(phase, "run_bytes"),
          .processor_seconds = number_of(phase, "processor_seconds"),
          .disk_seconds = number_of(phase, "disk_seconds")};
}

// Adds each phase with its measured and predicted figures, also phases that were planned and did not
// run; then the times of threads within the phases.
void add_phases(const Statistics& object, const Statistics& predicted, SortRun& run) {
  auto named = [&](const std::string& name) -> SortRun::Phase* {
    const auto found = std::ranges::find(run.phases, name, &SortRun::Phase::name);
    if (found != run.phases.end()) return &*found;
    if (run.phases.size() == phases_max) return nullptr;
    return &run.phases.emplace_back(SortRun::Phase{.name = name, .predicted = {}, .measured = {}});
  };
  for (const bool planned : {false, true}) {
    const Statistics* phases = list_of(planned ? predicted : object, "phases");
    if (phases == nullptr) continue;
    for (const Statistics& one : *phases) {
      if (!one.is_object()) continue;
      if (SortRun::Phase* phase = named(text_in(one, "phase")))
        (planned ? phase->predicted : phase->measured) = figures_of(one);
    }
  }
  const auto seconds = object.find("phase_seconds");
  if (seconds == object.end() || !seconds->is_object()) return;
  for (const auto& [name, value] : seconds->items()) {
    const auto shown = std::ranges::find(run.phases, name, &SortRun::Phase::name);
    if (!value.is_number() || shown != run.phases.end() || run.rows.size() == rows_max) continue;
    run.rows.push_back({.what = "All threads: " + name,
                        .unit = SortRun::Unit::seconds,
                        .predicted = std::nullopt,
                        .measured = value.get<double>()});
  }
}

// Makes a value fit for a picture: finite, and not below 0.
double drawable(const Statistics& value) {
  constexpr double most = 1e18;
  return value.is_number() ? std::clamp(value.get<double>(), 0.0, most) : 0;
}

std::vector<double> numbers_of(const Statistics& object, const char* key) {
  std::vector<double> numbers;
  const Statistics* found = list_of(object, key);
  if (found == nullptr) return numbers;
  for (const Statistics& one : *found) {
    if (one.is_number()) numbers.push_back(drawable(one));
  }
  return numbers;
}

double drawable_of(const Statistics& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() ? drawable(*found) : 0;
}

// Reads a bucket from a row of numbers; nullopt if their number is wrong.
std::optional<Occupancy::Bucket> bucket_of(const Statistics& row) {
  if (!row.is_array() || row.size() != api::bucket_columns.size()) return std::nullopt;
  Occupancy::Bucket bucket;
  bucket.offset_bytes = static_cast<uint64_t>(drawable(row[0]));
  bucket.bytes = static_cast<uint64_t>(drawable(row[1]));
  bucket.begin_s = drawable(row[2]);
  // Each stage ends when the next one begins.
  bucket.read_s = std::max(bucket.begin_s, drawable(row[3]));
  bucket.waited_s = std::max(bucket.read_s, drawable(row[4]));
  bucket.sorted_s = std::max(bucket.waited_s, drawable(row[5]));
  bucket.written_s = std::max(bucket.sorted_s, drawable(row[6]));
  return bucket;
}

std::vector<Staircase> staircases_of(const Statistics& object) {
  std::vector<Staircase> staircases;
  const Statistics* const told = list_of(object, "staircases");
  if (told == nullptr) return staircases;
  for (const Statistics& one : *told) {
    if (!one.is_object() || staircases.size() == staircases_max) continue;
    staircases.push_back({.title = text_in(one, "title"),
                          .streams = static_cast<uint64_t>(drawable_of(one, "streams")),
                          .steps = static_cast<uint64_t>(drawable_of(one, "steps")),
                          .measured_bytes = numbers_of(one, "measured_bytes"),
                          .predicted_bytes = numbers_of(one, "predicted_bytes")});
  }
  return staircases;
}

Occupancy occupancy_of(const Statistics& object) {
  Occupancy occupancy;
  const auto found = object.find("occupancy");
  if (found == object.end() || !found->is_object()) return occupancy;
  const Statistics& told = *found;
  occupancy.start_s = drawable_of(told, "start_seconds");
  occupancy.bin_s = drawable_of(told, "bin_seconds");
  occupancy.memory_bytes = static_cast<uint64_t>(drawable_of(told, "memory_bytes"));
  size_t bins = 0;
  for (size_t stage = 0; stage < bucket_stages; ++stage) {
    occupancy.stage_bytes[stage] = numbers_of(told, api::stage_keys[stage]);
    bins = std::max(bins, occupancy.stage_bytes[stage].size());
  }
  for (std::vector<double>& bytes : occupancy.stage_bytes) bytes.resize(bins);
  if (const Statistics* buckets = list_of(told, "buckets")) {
    for (const Statistics& row : *buckets) {
      if (const auto bucket = bucket_of(row)) occupancy.buckets.push_back(*bucket);
    }
  }
  std::ranges::stable_sort(occupancy.buckets, {}, &Occupancy::Bucket::offset_bytes);
  occupancy.buckets_seen = std::max<uint64_t>(
      occupancy.buckets.size(), static_cast<uint64_t>(drawable_of(told, "buckets_seen")));
  return occupancy;
}

}  // namespace

Result<SortRun> sort_run_of(const std::string& json, const std::string& name) {
  auto refuse = [&](const char* why) {
    return failure(ErrorCode::corrupt, std::string("read the statistics: ") + why, name,
                   "a file that penstock sort --stats wrote");
  };
  const Statistics object = Statistics::parse(json, nullptr, false);
  if (object.is_discarded()) return refuse("this is no JSON");
  if (!object.is_object()) return refuse("this is no JSON object");
  // Version 1 did not name the command.
  const auto version = number_of(object, "version");
  if (version != 1.0 && version != 2.0) return refuse("it is not version 1 or 2 of them");

  SortRun run{.name = name, .method = text_in(object, "method")};
  const auto found = object.find("predicted");
  static const Statistics none = Statistics::object();
  const Statistics& predicted = found != object.end() && found->is_object() ? *found : none;
  run.why = text_in(predicted, "why");

  // The names of a figure; the peak of memory has two.
  struct Field {
    const char* what;
    SortRun::Unit unit;
    const char* predicted;
    const char* measured;
    bool of_seeks = false;
  };
  static constexpr std::array<Field, 9> fields = {{
      {"Time", SortRun::Unit::seconds, "seconds", "seconds"},
      {"Passes", SortRun::Unit::count, "passes", "passes"},
      {"Seeks", SortRun::Unit::count, "seeks", "seeks", true},
      {"Bytes between two seeks", SortRun::Unit::bytes, "run_bytes", "run_bytes", true},
      {"Read", SortRun::Unit::bytes, "bytes_read", "bytes_read"},
      {"Written", SortRun::Unit::bytes, "bytes_written", "bytes_written"},
      {"Temporary disk space", SortRun::Unit::bytes, "temp_bytes", "temp_bytes"},
      {"Of it in memory (tmpfs), besides the budget", SortRun::Unit::bytes, "temp_memory_bytes",
       "temp_memory_bytes"},
      {"Memory", SortRun::Unit::bytes, "memory_bytes", "peak_rss_bytes"},
  }};
  for (const Field& field : fields) {
    // Temporaries in memory are rare: no row without them.
    const bool is_usual = std::string_view(field.measured) != "temp_memory_bytes";
    if (!is_usual && number_of(object, field.measured).value_or(0) == 0) continue;
    run.rows.push_back({.what = field.what,
                        .unit = field.unit,
                        .predicted = number_of(predicted, field.predicted),
                        .measured = number_of(object, field.measured),
                        .of_seeks = field.of_seeks});
  }
  add_phases(object, predicted, run);
  run.emulated = text_in(object, "emulated");
  run.items = number_of(object, "items");
  run.bytes = number_of(object, "bytes");
  run.seconds = number_of(object, "seconds");
  run.peak_bytes = number_of(object, "peak_rss_bytes");
  run.budget_bytes = number_of(object, "budget_bytes");
  run.passes = number_of(object, "passes");
  run.seeks = number_of(object, "seeks");
  run.run_bytes = number_of(object, "run_bytes");
  run.temp_bytes = number_of(object, "temp_bytes");
  run.predicted_s = number_of(predicted, "seconds");
  run.fewer_passes_bytes = number_of(predicted, "fewer_passes_memory_bytes");
  if (const auto threads = object.find("phase_seconds");
      threads != object.end() && threads->is_object()) {
    run.sorters_s = number_of(*threads, "sorters at work");
    run.wait_read_s = number_of(*threads, "sorters wait for reads");
  }
  if (const auto device = predicted.find("device");
      device != predicted.end() && device->is_object()) {
    run.device_source = text_in(*device, "source");
    run.seek_s = number_of(*device, "switch_seconds");
  }
  if (!run.seeks_cost()) {
    std::erase_if(run.rows, [](const SortRun::Row& row) { return row.of_seeks; });
  }
  run.occupancy = occupancy_of(object);
  run.staircases = staircases_of(object);
  return run;
}

}  // namespace penstock::cli
