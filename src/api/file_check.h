#pragma once

// What users are told of a check.

#include "files/memory_plan.h"
#include "os/memory.h"
#include "penstock/files.h"
#include "record/checker.h"

namespace penstock::api {

// With the memory as it is now, and no seconds.
inline FileCheck file_check_of(const record::CheckResult& done) {
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
