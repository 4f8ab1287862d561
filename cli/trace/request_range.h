#pragma once

// The option --requests FROM..TO: a part of a trace.

#include <cstdint>
#include <string_view>

#include "penstock/base.h"

namespace penstock::cli {

struct RequestRange {
  uint64_t first = 0;
  uint64_t count = ~uint64_t{0};
};

// Parses "FROM..TO": the requests from FROM on, in front of TO. Either may be left out.
Result<RequestRange> parse_request_range(std::string_view text);

}  // namespace penstock::cli
