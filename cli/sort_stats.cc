#include "cli/sort_stats.h"

#include <nlohmann/json.hpp>

namespace penstock::cli {
namespace {

using Json = nlohmann::ordered_json;

}  // namespace

Json plan_object(const external::SortPlan& plan) {
  return {{"method", external::name_of(plan.method)},
          {"why", plan.why},
          // null: not predicted.
          {"seconds", plan.seconds > 0 ? Json(plan.seconds) : Json(nullptr)},
          {"passes", plan.passes},
          {"seeks", plan.seeks},
          {"buckets", plan.buckets},
          {"input_bytes", plan.input_bytes},
          {"bytes_read", plan.bytes_read},
          {"bytes_written", plan.bytes_written},
          {"temp_bytes", plan.temp_bytes},
          {"memory_bytes", plan.memory_bytes}};
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
                 {"bytes_read", stats.bytes_read},
                 {"bytes_written", stats.bytes_written},
                 {"temp_bytes", stats.temp_bytes},
                 {"kept_bytes", stats.kept_bytes},
                 {"pool", stats.pool},
                 {"engine", stats.engine},
                 {"phase_seconds", Json::object()},
                 {"predicted", plan_object(stats.predicted)}};
  for (const auto& [phase, seconds] : stats.phase_seconds) object["phase_seconds"][phase] = seconds;
  // A path in "why" may hold bytes that are no UTF-8.
  return object.dump(2, ' ', false, Json::error_handler_t::replace);
}

}  // namespace penstock::cli
