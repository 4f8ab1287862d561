#pragma once

// Partitioning into one array without holes, of items that nobody counted beforehand: the pages
// that buckets were written to are brought into a row.
//
//   auto pool = penstock::PagePool::open({.bytes_max = 12 * penstock::GiB});
//   auto parts = penstock::rewired_partition<uint64_t>(
//       *pool, keys, {.by = penstock::ByHighBits{10}});
//   for (uint32_t i = 0; i < parts->buckets(); ++i) {
//     if (auto status = penstock::sort(parts->bucket(i)); !status) return status.error();
//   }
//   // Now all of parts->items is in order: it is one array.
//
// Two passes, of which the first counts, read the input twice. One pass into chained blocks leaves
// buckets that no plain loop can walk through, and partition() (penstock/partition.h) leaves each
// bucket contiguous by itself. Here a bucket's last page is filled up with items from the end of
// the next bucket, so that all pages are full, and then they are shown in a row, bucket after
// bucket. What is copied for that is half a page per bucket on average (a third, where buckets are
// longer than a few pages), and at most everything once, where they are shorter than a page: then
// take smaller pages.
//
// Source: the paper named in penstock/page_pool.h, section 5.2.4.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "penstock/error.h"
#include "penstock/item.h"
#include "penstock/page_pool.h"
#include "penstock/partition.h"
#include "penstock/rewired_vector.h"

namespace penstock {

struct RewiredPartitionOptions {
  PartitionBy by = ByLowBits{};
  unsigned threads = 1;
  // Items of a bucket keep their order, with one thread alone. Costs a copy of nearly everything:
  // filling up a page moves the end of the next bucket to its front.
  bool stable = false;
  std::string name = "rewired partition";  // for messages
};

struct RewiredPartitionStats {
  uint64_t distribute_ns = 0;  // reading the input and writing the buckets' pages
  uint64_t complete_ns = 0;    // filling up pages
  uint64_t rewire_ns = 0;      // bringing them into a row
  uint64_t copied_bytes = 0;   // to fill up pages
  uint32_t pages_peak = 0;     // held when the input was read
  uint32_t pages = 0;          // held afterwards
};

// Thread safety: a value; different buckets may be used by different threads.
template <class T>
struct RewiredPartitions {
  RewiredVector<T> items;               // all of them, bucket after bucket
  std::vector<uint64_t> offsets = {0};  // where each begins, and the end: buckets() + 1 of them
  RewiredPartitionStats stats;

  uint32_t buckets() const { return static_cast<uint32_t>(offsets.size() - 1); }
  std::span<T> bucket(uint32_t index) {
    return {items.data() + offsets[index], offsets[index + 1] - offsets[index]};
  }
  std::span<const T> bucket(uint32_t index) const {
    return {items.data() + offsets[index], offsets[index + 1] - offsets[index]};
  }
};

// T is uint32_t, uint64_t, KeyValue32 or KeyValue64. The input stays as it is.
//
// Pages: those that the items fill, and up to one per bucket; with several threads at most an
// eighth more per bucket, or 256 bytes per bucket and thread if that is more. Those that are left
// over are back in the pool in the end. Mappings: one per page at most, and one more.
//
// Errors, after which all pages are back: invalid_argument; out_of_memory, when the pool has not
// enough pages; out_of_mappings.
template <class T>
Result<RewiredPartitions<T>> rewired_partition(const PagePool& pool, std::span<const T> items,
                                               const RewiredPartitionOptions& options = {});

}  // namespace penstock
