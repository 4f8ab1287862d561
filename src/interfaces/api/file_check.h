#pragma once

// The public result of a check.

#include "files/run/memory_plan.h"
#include "items/checker.h"
#include "os/memory.h"
#include "penstock/files.h"

namespace penstock::api {

// The result with the present memory, without `seconds`.
inline FileCheck file_check_of(const items::CheckResult& done) {
  return {.count = done.count,
          .duplicates = done.duplicates,
          .first_unsorted = done.first_unsorted,
          .checksum = done.checksum_hex(),
          .first = done.first,
          .last = done.last,
          .memory_scope = files::memory_scope(),
          .peak_bytes = files::peak_memory(),
          .peak_rss_bytes = os::resident_memory().peak_bytes};
}

}  // namespace penstock::api
