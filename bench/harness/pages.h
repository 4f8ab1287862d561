#pragma once

// Common parts of the rewiring benches: memory to compare with, pages in an order, and samples that
// are collected by name over interleaved runs.

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "bench/harness/bench.h"
#include "os/memory.h"
#include "penstock/base.h"
#include "penstock/rewire.h"

namespace penstock::bench {

// Anonymous memory, on huge pages if asked for; `touched`: all pages are present from the start.
Result<os::Reservation> anonymous_memory(uint64_t bytes, bool huge, bool touched);

// Fresh memory for whole arrays, at an allocator's best: aligned to huge pages and asking for them.
// The caller has to munmap() it. Throws std::bad_alloc. REQUIRES: whole huge pages.
std::byte* map_huge(uint64_t bytes);

// Makes the machine provide this much memory once: in a virtual machine the host serves the first
// touch, ten times slower than any later one. The host may take memory back that is free for some
// seconds, so the call belongs right before a measurement on fresh memory. It touches small pages,
// because huge ones would leave out fragmented memory, which files and page tables get first.
Status touch_machine(uint64_t bytes);
// Prepares the machine for a program to be measured that works with this much memory on this file:
// memory for itself, and for the page cache of its input, temporaries and output, if the machine
// has as much. Dirty pages of other programs are written first.
Status prepare_machine(uint64_t memory_bytes, const std::string& input);

enum class Order { sequential, random };
const char* name_of(Order order);

// The pages of a set, in order or shuffled (always alike) in pieces of `piece_pages`.
std::vector<PageId> pages_of(const PageSet& set, Order order, uint32_t piece_pages = 1);

// Samples of all rows, in the order in which their names first appeared.
class Samples {
 public:
  void add(const std::string& what, const std::string& unit, double value);
  double median_of(const std::string& what) const;  // REQUIRES: there is one
  void report(Report& report) const;

 private:
  struct Row {
    std::string what, unit;
    std::vector<double> samples;
  };
  std::vector<Row> rows_;
  std::map<std::string, size_t> places_;
};

}  // namespace penstock::bench
