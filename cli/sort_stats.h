#pragma once

#include <string>

#include "external/external_sort.h"

namespace penstock::cli {

// What a sort did, as one JSON object. Fields never change their meaning while "version" stays.
std::string stats_json(const external::SortStats& stats);

}  // namespace penstock::cli
