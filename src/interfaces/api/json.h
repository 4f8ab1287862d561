#pragma once

#include <nlohmann/json_fwd.hpp>

#include "penstock/files.h"

namespace penstock::api {

// The plan of a sort: "predicted" in the JSON of its statistics.
nlohmann::ordered_json plan_object(const SortPlan& plan);

}  // namespace penstock::api
