#pragma once

#include <string>

#include "bowtie/external_sort.h"

namespace penstock::cli {

// What a sort did, as one JSON object. Fields never change their meaning while "version" stays.
std::string stats_json(const bowtie::SortStats& stats);

}  // namespace penstock::cli
