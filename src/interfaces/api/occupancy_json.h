#pragma once

// Members of a sort's statistics that describe its memory over time: written by json.cc, read by
// the report (cli/trace/sort_report.cc).

#include <array>

#include "penstock/files.h"

namespace penstock::api {

// Names in the order of BucketStage. Each is a list of bytes, the mean over a bin of time.
inline constexpr std::array<const char*, bucket_stages> stage_keys = {
    "reading_bytes", "waiting_bytes", "sorting_bytes", "writing_bytes"};
// Names of a bucket's numbers.
inline constexpr std::array<const char*, 7> bucket_columns = {
    "offset_bytes",   "bytes",          "begin_seconds",  "read_seconds",
    "waited_seconds", "sorted_seconds", "written_seconds"};

}  // namespace penstock::api
