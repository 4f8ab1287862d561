#pragma once

// What held the memory of a sort, in its statistics: written by json.cc, read by the
// report (cli/sort/sort_report.cc).

#include <array>

#include "penstock/files.h"

namespace penstock::api {

// In the order of BucketStage. Lists of as many numbers: bytes, mean over a bin of time.
inline constexpr std::array<const char*, bucket_stages> stage_keys = {
    "reading_bytes", "waiting_bytes", "sorting_bytes", "writing_bytes"};
// What the numbers of a bucket are.
inline constexpr std::array<const char*, 7> bucket_columns = {
    "offset_bytes",   "bytes",          "begin_seconds",  "read_seconds",
    "waited_seconds", "sorted_seconds", "written_seconds"};

}  // namespace penstock::api
