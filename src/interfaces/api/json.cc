#include "interfaces/api/json.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "interfaces/api/json_text.h"
#include "interfaces/api/occupancy_json.h"
#include "interfaces/api/option_table.h"

namespace penstock::api {
namespace {

using Json = nlohmann::ordered_json;

// The members that planned and executed phases share.
Json phase_object(const SortPhase& phase) {
  return {{"phase", phase.name},
          {"seconds", phase.seconds},
          {"bytes_read", phase.bytes_read},
          {"bytes_written", phase.bytes_written},
          {"seeks", phase.seeks},
          {"processor_seconds", phase.processor_seconds},
          {"disk_seconds", phase.disk_seconds},
          {"memory_seconds", phase.memory_seconds},
          {"bound", name_of(phase.bound)},
          {"run_bytes", phase.run_bytes()}};
}

uint64_t whole(double bytes) {
  return static_cast<uint64_t>(std::llround(bytes));
}

// Rounds to microseconds.
double rounded(double seconds) {
  return std::round(seconds * 1e6) / 1e6;
}

Json whole_list(const std::vector<double>& values) {
  Json list = Json::array();
  for (const double value : values) list.push_back(whole(value));
  return list;
}

Json occupancy_object(const Occupancy& occupancy) {
  Json object = {{"memory_bytes", occupancy.memory_bytes},
                 {"start_seconds", rounded(occupancy.start_s)},
                 {"bin_seconds", occupancy.bin_s}};
  for (size_t stage = 0; stage < bucket_stages; ++stage)
    object[stage_keys[stage]] = whole_list(occupancy.stage_bytes[stage]);
  object["buckets_seen"] = occupancy.buckets_seen;
  object["bucket_columns"] = bucket_columns;
  object["buckets"] = Json::array();
  for (const Occupancy::Bucket& bucket : occupancy.buckets) {
    object["buckets"].push_back(Json::array(
        {bucket.offset_bytes, bucket.bytes, rounded(bucket.begin_s), rounded(bucket.read_s),
         rounded(bucket.waited_s), rounded(bucket.sorted_s), rounded(bucket.written_s)}));
  }
  return object;
}

Json staircase_object(const Staircase& stairs) {
  return {{"title", stairs.title},
          {"streams", stairs.streams},
          {"steps", stairs.steps},
          {"measured_bytes", whole_list(stairs.measured_bytes)},
          {"predicted_bytes", whole_list(stairs.predicted_bytes)}};
}

// The statistics of a run: the members of every command, then the command's own.
std::string run_json(const char* command, const RunStats& stats, const Json& own) {
  Json object = {{"version", 2},
                 {"command", command},
                 {"seconds", stats.seconds},
                 {"passes", stats.passes},
                 {"seeks", stats.seeks},
                 {"run_bytes", stats.run_bytes()},
                 {"bytes_read", stats.bytes_read},
                 {"bytes_written", stats.bytes_written},
                 {"temp_bytes", stats.temp_bytes},
                 {"temp_memory_bytes", stats.temp_memory_bytes},
                 {"memory_scope", name_of(stats.memory_scope)},
                 {"peak_bytes", stats.peak_bytes},
                 {"peak_rss_bytes", stats.peak_rss_bytes},
                 {"budget_bytes", stats.budget_bytes},
                 {"emulated", stats.emulated.empty() ? Json(nullptr) : Json(stats.emulated)}};
  object.update(own);
  for (const Staircase& stairs : stats.staircases)
    object["staircases"].push_back(staircase_object(stairs));
  return json_text(object);
}

}  // namespace

Json plan_object(const SortPlan& plan) {
  Json phases = Json::array();
  for (const SortPhase& phase : plan.phases) {
    phases.push_back(phase_object(phase));
    if (!plan.device) phases.back()["seconds"] = nullptr;
  }
  Json alternatives = Json::array();
  for (const SortAlternative& other : plan.alternatives) {
    alternatives.push_back({{"memory_bytes", other.memory_bytes},
                            {"method", name_of(other.method)},
                            {"passes", other.passes},
                            {"seconds", other.seconds},
                            {"temp_bytes", other.temp_bytes}});
  }
  Json device = nullptr;
  if (plan.device) {
    device = {{"name", plan.device->name},
              {"source", plan.device->source},
              {"assumed", plan.device_is_assumed},
              {"read_bytes_per_s", plan.device->read_bytes_per_s},
              {"write_bytes_per_s", plan.device->write_bytes_per_s},
              {"switch_seconds", plan.device->switch_seconds.at(1, 1)}};
  }
  return {{"method", name_of(plan.method)},
          {"why", plan.why},
          // null: not predicted.
          {"seconds", plan.seconds > 0 ? Json(plan.seconds) : Json(nullptr)},
          {"seconds_low", plan.seconds > 0 ? Json(plan.seconds_low) : Json(nullptr)},
          {"seconds_high", plan.seconds > 0 ? Json(plan.seconds_high) : Json(nullptr)},
          {"passes", plan.passes},
          {"seeks", plan.seeks},
          {"run_bytes", plan.seeks > 0 ? static_cast<double>(plan.bytes_read + plan.bytes_written) /
                                             static_cast<double>(plan.seeks)
                                       : 0},
          {"buckets", plan.buckets},
          {"input_bytes", plan.input_bytes},
          {"bytes_read", plan.bytes_read},
          {"bytes_written", plan.bytes_written},
          {"temp_bytes", plan.temp_bytes},
          {"temp_memory_bytes", plan.temp_memory_bytes},
          {"spilled_bytes", plan.spilled_bytes},
          {"compresses", plan.compresses},
          {"memory_bytes", plan.memory_bytes},
          {"fewer_passes_memory_bytes", plan.fewer_passes_memory_bytes},
          {"long_runs", plan.long_runs},
          {"device", std::move(device)},
          {"alternatives", std::move(alternatives)},
          {"phases", std::move(phases)}};
}

}  // namespace penstock::api

namespace penstock {

std::string to_json(const SortStats& stats) {
  api::Json own = {{"method", name_of(stats.method)},
                   {"items", stats.items},
                   {"bytes", stats.bytes},
                   {"spilled_bytes", stats.spilled_bytes},
                   {"kept_bytes", stats.kept_bytes},
                   {"pool", stats.pool},
                   {"engine", stats.engine},
                   {"phases", api::Json::array()},
                   {"phase_seconds", api::Json::object()},
                   {"predicted", api::plan_object(stats.predicted)}};
  for (const SortPhase& phase : stats.phases) own["phases"].push_back(api::phase_object(phase));
  for (const auto& [phase, seconds] : stats.phase_seconds) own["phase_seconds"][phase] = seconds;
  if (stats.occupancy.buckets_seen > 0) own["occupancy"] = api::occupancy_object(stats.occupancy);
  return api::run_json("sort", stats, own);
}

std::string to_json(const SortPlan& plan) {
  api::Json object = {{"version", 2}, {"command", "plan"}};
  object.update(api::plan_object(plan));
  return api::json_text(object);
}

std::string to_json(const FileCheck& check, const std::string& file, const ItemFormat& items) {
  api::Json object = {{"version", 2},
                      {"command", "check"},
                      {"file", file},
                      {"format", items.name},
                      {"sorted", check.sorted()},
                      {"count", check.count},
                      {"duplicates", nullptr},
                      {"checksum", check.checksum},
                      {"first", check.first},
                      {"last", check.last},
                      {"first_unsorted", nullptr},
                      {"seconds", check.seconds},
                      {"memory_scope", name_of(check.memory_scope)},
                      {"peak_bytes", check.peak_bytes},
                      {"peak_rss_bytes", check.peak_rss_bytes}};
  if (check.sorted()) {
    object["duplicates"] = check.duplicates;
  } else {
    object["first_unsorted"] = *check.first_unsorted;
  }
  return api::json_text(object);
}

std::string to_json(const MergeFilesStats& stats) {
  return api::run_json(
      "merge", stats,
      {{"files", stats.planned.files},
       {"items", stats.items},
       {"bytes", stats.bytes},
       {"factors", stats.planned.factors},
       {"predicted_seconds", stats.planned.seconds},
       {"device", {{"name", stats.planned.device}, {"assumed", stats.planned.device_is_assumed}}}});
}

std::string to_json(const SliceFilesResult& result) {
  api::Json slices = api::Json::array();
  for (const Slice& slice : result.slices)
    slices.push_back(api::Json::array({slice.part, slice.offset, slice.bytes}));
  api::Json parts = api::Json::array();
  for (const SlicedPart& part : result.parts)
    parts.push_back({{"items", part.items}, {"bytes", part.bytes}, {"checksum", part.checksum}});
  return api::json_text({{"version", 2},
                         {"command", "slice"},
                         {"seconds", result.seconds},
                         {"peak_bytes", result.peak_bytes},
                         {"slices", std::move(slices)},
                         {"parts", std::move(parts)}});
}

std::string to_json(const PartitionFilesResult& result) {
  const bool ranges = result.by == PartitionFilesBy::range;
  api::Json parts = api::Json::array();
  for (size_t j = 0; j < result.parts.size(); ++j) {
    const FilePart& part = result.parts[j];
    api::Json one = {{"file", part.path},
                     {"items", part.items},
                     {"bytes", part.bytes},
                     {"checksum", part.checksum.empty() ? api::Json() : api::Json(part.checksum)}};
    // The part's items are from this bound on, and before the next part's bound.
    if (ranges) one["from"] = j > 0 ? api::Json(result.bounds[j - 1]) : api::Json();
    parts.push_back(std::move(one));
  }
  return api::run_json(
      "partition", result.stats,
      {{"by", name_of(result.by)}, {"format", result.format}, {"parts", std::move(parts)}});
}

std::string to_json(const GroupFilesStats& stats) {
  return api::run_json("group", stats,
                       {{"items", stats.items},
                        {"groups", stats.groups},
                        {"bytes", stats.bytes},
                        {"empty_values", stats.empty_values},
                        {"buckets", stats.buckets}});
}

std::string to_json(const JoinFilesStats& stats) {
  return api::run_json("join", stats, {{"items", stats.items}, {"bytes", stats.bytes}});
}

std::string to_json(const JoinLinesStats& stats) {
  return api::run_json(
      "join", stats,
      {{"items", stats.items}, {"bytes", stats.bytes}, {"sorted_inputs", stats.sorted_inputs}});
}

const char* name_of(SortMethod method) {
  switch (method) {
    case SortMethod::empty:
      return "empty";
    case SortMethod::in_memory:
      return "in_memory";
    case SortMethod::distribute:
      return "distribute";
    case SortMethod::merge:
      return "merge";
    case SortMethod::top:
      return "top";
  }
  return "?";
}

const char* name_of(PhaseBound bound) {
  switch (bound) {
    case PhaseBound::unknown:
      return "unknown";
    case PhaseBound::disk:
      return "disk";
    case PhaseBound::processor:
      return "processor";
    case PhaseBound::memory:
      return "memory";
  }
  return "?";
}

const char* name_of(PartitionFilesBy by) {
  return api::option_words<PartitionFilesBy>[static_cast<size_t>(by)];
}

}  // namespace penstock
