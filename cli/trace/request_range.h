#pragma once

// The options --requests FROM..TO and --under PATH: a part of a trace.

#include <cstdint>
#include <string>
#include <string_view>

#include "penstock/base.h"

namespace penstock::cli {

struct RequestRange {
  uint64_t first = 0;
  uint64_t count = ~uint64_t{0};
};

// Parses "FROM..TO": the requests from FROM on, in front of TO. Either may be left out.
Result<RequestRange> parse_request_range(std::string_view text);

// Returns the beginning of paths that --under names. Names in a trace are absolute: the relative name of
// a file or folder that exists is made so. Others stay, as a log of strace may have relative names.
std::string absolute_under(const std::string& path);

// Refuses a part of the trace in `file` without any request, which --under `under` or --requests
// chose. Both are empty: the whole trace.
Status check_part(uint64_t requests, const std::string& under, const std::string& range,
                  const std::string& file);

}  // namespace penstock::cli
