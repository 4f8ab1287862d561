#include "cli/sort/sort_stats.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "cli/common/json_text.h"
#include "cli/sort/occupancy_json.h"

namespace penstock::cli {
namespace {

using Json = nlohmann::ordered_json;

// What both a planned phase and one that was carried out have.
Json phase_object(const external::SortPhase& phase) {
  return {{"phase", phase.name},
          {"seconds", phase.seconds},
          {"bytes_read", phase.bytes_read},
          {"bytes_written", phase.bytes_written},
          {"seeks", phase.seeks},
          {"run_bytes", phase.run_bytes()}};
}

uint64_t whole(double bytes) {
  return static_cast<uint64_t>(std::llround(bytes));
}

// To the microsecond.
double rounded(double seconds) {
  return std::round(seconds * 1e6) / 1e6;
}

Json whole_list(const std::vector<double>& values) {
  Json list = Json::array();
  for (const double value : values) list.push_back(whole(value));
  return list;
}

Json occupancy_object(const external::Occupancy& occupancy) {
  Json object = {{"memory_bytes", occupancy.memory_bytes},
                 {"start_seconds", rounded(occupancy.start_s)},
                 {"bin_seconds", occupancy.bin_s}};
  for (size_t stage = 0; stage < external::bucket_stages; ++stage)
    object[stage_keys[stage]] = whole_list(occupancy.stage_bytes[stage]);
  object["buckets_seen"] = occupancy.buckets_seen;
  object["bucket_columns"] = bucket_columns;
  object["buckets"] = Json::array();
  for (const external::Occupancy::Bucket& bucket : occupancy.buckets) {
    object["buckets"].push_back(Json::array(
        {bucket.offset_bytes, bucket.bytes, rounded(bucket.begin_s), rounded(bucket.read_s),
         rounded(bucket.waited_s), rounded(bucket.sorted_s), rounded(bucket.written_s)}));
  }
  return object;
}

Json staircase_object(const external::Staircase& stairs) {
  return {{"title", stairs.title},
          {"streams", stairs.streams},
          {"steps", stairs.steps},
          {"measured_bytes", whole_list(stairs.measured_bytes)},
          {"predicted_bytes", whole_list(stairs.predicted_bytes)}};
}

}  // namespace

Json plan_object(const external::SortPlan& plan) {
  Json phases = Json::array();
  for (const external::SortPhase& phase : plan.phases) {
    phases.push_back(phase_object(phase));
    if (!plan.device) phases.back()["seconds"] = nullptr;
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
  return {{"method", external::name_of(plan.method)},
          {"why", plan.why},
          // null: not predicted.
          {"seconds", plan.seconds > 0 ? Json(plan.seconds) : Json(nullptr)},
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
          {"phases", std::move(phases)}};
}

std::string stats_json(const external::SortStats& stats) {
  Json object = {{"version", 1},
                 {"method", external::name_of(stats.method)},
                 {"items", stats.items},
                 {"bytes", stats.bytes},
                 {"seconds", stats.seconds},
                 {"peak_rss_bytes", stats.peak_rss_bytes},
                 {"budget_bytes", stats.budget_bytes},
                 {"passes", stats.passes},
                 {"seeks", stats.seeks},
                 {"run_bytes", stats.run_bytes()},
                 {"bytes_read", stats.bytes_read},
                 {"bytes_written", stats.bytes_written},
                 {"temp_bytes", stats.temp_bytes},
                 {"temp_memory_bytes", stats.temp_memory_bytes},
                 {"spilled_bytes", stats.spilled_bytes},
                 {"kept_bytes", stats.kept_bytes},
                 {"pool", stats.pool},
                 {"engine", stats.engine},
                 {"emulated", stats.emulated.empty() ? Json(nullptr) : Json(stats.emulated)},
                 {"phases", Json::array()},
                 {"phase_seconds", Json::object()},
                 {"predicted", plan_object(stats.predicted)}};
  for (const external::SortPhase& phase : stats.phases)
    object["phases"].push_back(phase_object(phase));
  for (const auto& [phase, seconds] : stats.phase_seconds) object["phase_seconds"][phase] = seconds;
  if (stats.occupancy.buckets_seen > 0) object["occupancy"] = occupancy_object(stats.occupancy);
  if (!stats.occupancy.staircases.empty()) {
    object["staircases"] = Json::array();
    for (const external::Staircase& stairs : stats.occupancy.staircases)
      object["staircases"].push_back(staircase_object(stairs));
  }
  return json_text(object);
}

}  // namespace penstock::cli
