#pragma once

#include <nlohmann/json_fwd.hpp>

#include "penstock/files.h"

namespace penstock::api {

// What a sort is going to do: "predicted" in what to_json() makes of what it did.
nlohmann::ordered_json plan_object(const SortPlan& plan);

}  // namespace penstock::api
