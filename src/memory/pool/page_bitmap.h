#pragma once

#include <cstdint>

#include "os/memory.h"
#include "penstock/base.h"
#include "penstock/rewire.h"

namespace penstock::pool {

// A set of pages that finds runs of neighbours: a bit for each page, and above it a bit for each
// word of 64 that is not empty, so that gaps are skipped.
//
// Thread safety: none; its owner's lock guards it. Only open() allocates.
class PageBitmap {
 public:
  // Most runs that a search visits, because it holds a lock on the fault path.
  static constexpr uint32_t runs_searched_max = 4096;

  static Result<PageBitmap> open(uint32_t pages);
  PageBitmap() = default;

  uint32_t size() const { return size_; }
  bool contains(PageId page) const;
  // REQUIRES: insert(): no page of the run is in the set; erase(): all are.
  void insert(PageRun run);
  void erase(PageRun run);

  // Returns the pages from `first` on that are in the set, up to `count_max`; possibly none.
  PageRun run_at(PageId first, uint32_t count_max) const;
  // Returns the first run at or behind `first`, up to `count_max` pages of it.
  PageRun next_run(PageId first, uint32_t count_max) const;
  // Returns a run of `count` pages, or the longest one found. Takes the lowest run that fits,
  // unless the search gives up at runs_searched_max shorter ones; then the next search continues
  // there. count == 0: the set is empty.
  PageRun find(uint32_t count);

 private:
  uint64_t* words() const { return words_.begin(); }
  uint64_t* summary() const { return summary_.begin(); }
  PageId next_member(PageId from) const;  // returns pages_ if there is none

  uint32_t pages_ = 0;  // largest set
  uint32_t size_ = 0;
  PageId search_from_ = 0;
  os::ZeroedTable<uint64_t> words_;
  os::ZeroedTable<uint64_t> summary_;
};

}  // namespace penstock::pool
