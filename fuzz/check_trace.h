#pragma once

// Checks of the fuzzers of src/trace.

#include "check.h"
#include "penstock/trace.h"

namespace penstock::trace {

inline void check_conversion(TraceReader& trace) {
  const auto converted = convert(trace, {.reorder_requests = 4}, [](auto batch) -> Status {
    for (const Request& request : batch) {
      require(request.bytes > 0 && request.offset <= largest_offset - request.bytes, "a request");
    }
    return {};
  });
  require(!converted || converted->requests == converted->reads + converted->writes, "the sums");
}

}  // namespace penstock::trace
