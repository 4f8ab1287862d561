#pragma once

// Shared parts of the tests of tables and snapshots.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <optional>
#include <string>
#include <utility>

#include "base/random.h"
#include "os/memory.h"
#include "os/sanitizer.h"
#include "penstock/base.h"
#include "penstock/rewire.h"

namespace penstock::rewire {

// The page tables order which page is shown in which slot. The thread sanitizer knows only locks
// and atomics; and its own atomic stores hold a lock of the sanitizer, for which a fault handler
// would wait. So stores to a table, and loads from it, bypass it.
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

// Returns why this kernel lacks the detection, for GTEST_SKIP().
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

// Number of mappings of memory files in this process, as the kernel counts them.
inline uint64_t mappings_of_files_in_memory() {
  std::ifstream maps("/proc/self/maps");
  uint64_t count = 0;
  for (std::string line; std::getline(maps, line);)
    count += line.find("memfd:penstock") != std::string::npos;
  return count;
}

// Uses up all but a given number of the kernel's mappings for as long as it lives, as other code of
// a process may.
class MappingsUsedUp {
 public:
  // Returns why a test has to be skipped.
  static std::optional<std::string> impossible() {
    if (os::shadowed) return "a sanitizer needs mappings of its own";
    if (limit() == 0 || limit() > 200'000) return "vm.max_map_count is " + std::to_string(limit());
    return std::nullopt;
  }
  explicit MappingsUsedUp(uint64_t left) {
    auto memory = os::Reservation::reserve(2 * limit() * os::page_bytes);
    EXPECT_TRUE(memory);
    memory_ = std::move(*memory);
    // Each call splits the last piece in two.
    uint64_t pieces = 1;
    while (protect_from(pieces, pieces % 2) == 0) ++pieces;
    left = std::min(left, pieces - 1);
    if (left > 0) {
      EXPECT_EQ(protect_from(pieces - left, (pieces - left - 1) % 2), 0);
    }
  }

 private:
  static uint64_t limit() {
    uint64_t value = 0;
    std::ifstream("/proc/sys/vm/max_map_count") >> value;
    return value;
  }
  int protect_from(uint64_t page, bool readable) {
    std::byte* const begin = memory_.begin() + page * os::page_bytes;
    return os::protect(begin, static_cast<size_t>(memory_.begin() + memory_.bytes() - begin),
                       readable ? Protection::read : Protection::none);
  }

  os::Reservation memory_;
};

}  // namespace penstock::rewire
