#pragma once

// Logs in memory and their conversion, for tests.

#include <fmt/format.h>

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "penstock/trace.h"
#include "trace/import/import.h"

namespace penstock::trace {

// The conversion of a log.
struct Converted {
  Conversion conversion;
  std::vector<Request> requests;
  Error error{};  // empty without an error

  // Returns "path read 0+10" for each request.
  std::vector<std::string> request_texts() const {
    std::vector<std::string> lines;
    for (const Request& r : requests) {
      lines.push_back(fmt::format("{} {} {}+{}", conversion.files[r.file].first_path,
                                  r.access == Access::read ? "read" : "write", r.offset, r.bytes));
    }
    return lines;
  }
};

inline Converted convert_log(std::string_view text, LogKind kind = LogKind::detect) {
  Converted converted;
  auto trace = trace_of_text(text, kind);
  if (!trace) {
    converted.error = trace.error();
    return converted;
  }
  auto conversion = convert(*trace, {}, [&](std::span<const Request> batch) -> Status {
    converted.requests.insert(converted.requests.end(), batch.begin(), batch.end());
    return {};
  });
  if (conversion) {
    converted.conversion = std::move(*conversion);
  } else {
    converted.error = conversion.error();
  }
  return converted;
}

}  // namespace penstock::trace
