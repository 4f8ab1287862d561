#pragma once

// What the tests of tables and snapshots share.

#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <optional>
#include <string>

#include "base/random.h"
#include "penstock/page_pool.h"
#include "penstock/rewired_table.h"
#include "penstock/units.h"

namespace penstock::rewire {

// Which page is shown where is ordered by the page tables. The thread sanitizer knows only of locks
// and atomics; and its own atomic stores hold a lock of the sanitizer, which a fault handler would
// wait for. So stores to a table, and loads from it, pass it by.
#if defined(__clang__)
#define PENSTOCK_UNWATCHED __attribute__((disable_sanitizer_instrumentation))
#else
#define PENSTOCK_UNWATCHED __attribute__((no_sanitize("thread", "address")))
#endif
PENSTOCK_UNWATCHED inline uint64_t read(const uint64_t* at) {
  return __atomic_load_n(at, __ATOMIC_ACQUIRE);
}
PENSTOCK_UNWATCHED inline void write(uint64_t* at, uint64_t value) {
  __atomic_store_n(at, value, __ATOMIC_RELEASE);
}

inline PagePool open_pool(uint64_t bytes_max, size_t page_bytes = 4 * KiB,
                          uint64_t mappings_max = 0) {
  auto pool = PagePool::open(
      {.page_bytes = page_bytes, .bytes_max = bytes_max, .mappings_max = mappings_max});
  EXPECT_TRUE(pool) << pool.error().message();
  return *pool;
}

// Why this kernel does not have the detection, for GTEST_SKIP().
inline std::optional<std::string> missing(WriteDetection detection) {
  const PagePool pool = open_pool(64 * KiB);
  const auto table = RewiredTable::open(pool, {.bytes = 1, .detection = detection});
  if (!table && table.error().code == ErrorCode::unsupported) return table.error().message();
  EXPECT_TRUE(table) << table.error().message();
  return std::nullopt;
}

inline RewiredTable open_table(const PagePool& pool, const RewiredTable::Options& options) {
  auto table = RewiredTable::open(pool, options);
  EXPECT_TRUE(table) << table.error().message();
  return std::move(*table);
}

inline Snapshot take(RewiredTable& table) {
  auto snapshot = table.snapshot();
  EXPECT_TRUE(snapshot) << snapshot.error().message();
  return snapshot ? *snapshot : Snapshot();
}

// Mappings of files in memory in this process, as the kernel counts them.
inline uint64_t mappings_of_files_in_memory() {
  std::ifstream maps("/proc/self/maps");
  uint64_t count = 0;
  for (std::string line; std::getline(maps, line);)
    count += line.find("memfd:penstock") != std::string::npos;
  return count;
}

}  // namespace penstock::rewire
