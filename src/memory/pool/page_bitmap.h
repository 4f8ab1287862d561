#pragma once

#include <cstdint>

#include "os/memory.h"
#include "penstock/base.h"
#include "penstock/rewire.h"

namespace penstock::pool {

// A set of pages that finds runs of neighbours in it: a bit for each page, and above it a bit for
// each word of 64 that is not empty, so that what lies between the members is passed over.
//
// Thread safety: none; its owner's lock guards it. Nothing but open() allocates.
class PageBitmap {
 public:
  // How many runs a search looks at: it is made under a lock, on the fault path.
  static constexpr uint32_t runs_searched_max = 4096;

  static Result<PageBitmap> open(uint32_t pages);
  PageBitmap() = default;

  uint32_t size() const { return size_; }
  bool contains(PageId page) const;
  // REQUIRES: none of them is in the set; all of them are.
  void insert(PageRun run);
  void erase(PageRun run);

  // The pages from `first` on that are in the set, up to `count_max`. They may be none.
  PageRun run_at(PageId first, uint32_t count_max) const;
  // The first run at or behind `first`, up to `count_max` pages of it.
  PageRun next_run(PageId first, uint32_t count_max) const;
  // A run of `count` pages; the longest that was seen where there is none. The lowest that fits is
  // taken, unless so many shorter ones lie in front of it that the search gives up: then the next
  // one goes on from there. count == 0: the set is empty.
  PageRun find(uint32_t count);

 private:
  uint64_t* words() const { return words_.begin(); }
  uint64_t* summary() const { return summary_.begin(); }
  PageId next_member(PageId from) const;  // or pages_

  uint32_t pages_ = 0;  // that there can be
  uint32_t size_ = 0;
  PageId search_from_ = 0;
  os::ZeroedTable<uint64_t> words_;
  os::ZeroedTable<uint64_t> summary_;
};

}  // namespace penstock::pool
