#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "external/external_sort.h"

namespace penstock::cli {

// What a sort did, as one JSON object. Fields never change their meaning while "version" stays.
std::string stats_json(const external::SortStats& stats);
// What it was going to do: "predicted" in the above.
nlohmann::ordered_json plan_object(const external::SortPlan& plan);

}  // namespace penstock::cli
