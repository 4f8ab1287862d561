#pragma once

// What the benches of rewiring share: memory to compare with, pages in an order, and samples that
// are gathered by name over interleaved runs.

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

// Anonymous memory, on huge pages if asked for; `touched`: it is there before anybody uses it.
Result<os::Reservation> anonymous_memory(uint64_t bytes, bool huge, bool touched);

// Fresh memory for whole arrays, as an allocator would get it at best: aligned to huge pages and
// asking for them. The caller's to munmap(). Throws std::bad_alloc. REQUIRES: whole huge pages.
std::byte* map_huge(uint64_t bytes);

// Has the machine find so much memory once: a virtual machine's first touch is the host's business
// and ten times slower than any later one. Memory that lies free for some seconds may be the host's
// again, so this stands right before what is measured on fresh memory. By small pages, for huge ones
// would leave out what lies in pieces, which is what files and page tables get first.
Status touch_machine(uint64_t bytes);
// The same for a program about to be measured, which works with so much memory on this file: for
// the memory, and for what page cache its input, temporaries and output can take, as far as the
// machine has it. What others left to the page cache is written before.
Status prepare_machine(uint64_t memory_bytes, const std::string& input);

enum class Order { sequential, random };
const char* name_of(Order order);

// The pages of a set, as they are, or shuffled in pieces of `piece_pages`. The shuffle is always
// the same.
std::vector<PageId> pages_of(const PageSet& set, Order order, uint32_t piece_pages = 1);

// Samples of all rows, in the order in which their names first came.
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
