#pragma once

// Physical memory in numbered pages, to be shown at any address, any number of times, in any order:
// what rewiring works with. Ranges of addresses that show pages are made by VirtualRange
// (penstock/virtual_range.h).
//
//   auto pool = penstock::PagePool::open({.bytes_max = 1 * penstock::GiB});
//   auto pages = pool->take(10);                        // ten pages, as few runs as can be had
//   std::memset(pages->bytes(0).data(), 0, pages->bytes(0).size());  // seen at home, always
//
// A page is taken as long as anything refers to it: a PageSet, or a slot of a range that shows it.
// When the last reference goes, the page is free again, and its memory stays with the pool until
// trim(). A BlockPool (penstock/block_pool.h) differs in that each of its blocks is at one address
// at a time.
//
// Source: F. M. Schuhknecht, J. Dittrich, A. Sharma: "RUMA has it: Rewired User-space Memory Access
// is Possible!" (VLDB 2016), sections 2 and 3.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "penstock/error.h"
#include "penstock/units.h"

namespace penstock {

namespace pool {
class PageStore;
}

using PageId = uint32_t;
inline constexpr PageId no_page = ~PageId{0};

// Neighbours: the pages from `first` on. One system call maps them, and one mapping holds them.
struct PageRun {
  PageId first = no_page;
  uint32_t count = 0;

  PageId end() const { return first + count; }
  friend bool operator==(const PageRun&, const PageRun&) = default;
};

// What the pages of 2 MiB and more are made of; smaller ones are always `small`.
enum class PageKind : uint8_t {
  automatic,  // hugetlb where enough is reserved, else huge where the system has it, else small
  small,      // 4 KiB
  huge,       // transparent huge pages; a page for which the system has none is made of small ones
  hugetlb,    // pages that an administrator has reserved, all of bytes_max at once
};
const char* name_of(PageKind kind);

class PageSet;

// A handle: copies are the same pool, which lives as long as any of them, or anything that was
// opened on it or taken from it. Thread safety: all members, from any thread, also inside a
// region's handler. A forked child sees the ranges, but takes and maps nothing.
class PagePool {
 public:
  struct Options {
    size_t page_bytes = 2 * MiB;  // a power of two, at least 4 KiB
    uint64_t bytes_max = 0;       // the most that may be taken; 0: the memory of the machine
    PageKind kind = PageKind::automatic;
    uint64_t prefault_bytes = 0;  // memory that is there when open() returns
    int node = -1;                // the NUMA node to take memory of, as long as it has any; -1: any
    // The most mappings that all ranges on this pool may use together; 0: four fifths of what
    // vm.max_map_count leaves at the time of open().
    uint64_t mappings_max = 0;
    std::string name = "page pool";  // for messages
  };
  // Errors: invalid_argument; unsupported, when a kind is asked for that the system does not have;
  // out_of_memory for prefault_bytes.
  static Result<PagePool> open(const Options& options);

  // `pages` pages in as few runs as can be had, with undefined contents. All or, with
  // out_of_memory, none.
  Result<PageSet> take(uint32_t pages) const;

  size_t page_bytes() const;
  PageKind kind() const;   // what the pages are really made of; never automatic
  uint64_t limit() const;  // bytes_max, rounded up to pages
  uint32_t pages_max() const;
  uint32_t pages_free() const;       // those that never had memory included
  uint32_t pages_taken() const;      // pages_max() - pages_free()
  uint32_t pages_committed() const;  // that have memory: free or taken
  uint64_t memory_bytes() const;     // physical memory held, however often it is shown
  uint64_t mappings() const;         // in use by all ranges on this pool
  uint64_t mappings_max() const;
  const std::string& name() const;

  // Sees to it that at least so many free pages have memory. Errors: out_of_memory.
  Status prefault(uint32_t pages) const;
  // The memory of free pages goes back to the system.
  void trim() const;

  // For the library itself.
  const std::shared_ptr<pool::PageStore>& internal() const { return store_; }

 private:
  explicit PagePool(std::shared_ptr<pool::PageStore> store) : store_(std::move(store)) {}
  std::shared_ptr<pool::PageStore> store_;
};

// Pages, in an order, with one reference on each. Thread safety: a move-only value.
class PageSet {
 public:
  PageSet() = default;
  PageSet(PageSet&& other) noexcept;
  PageSet& operator=(PageSet&& other) noexcept;
  ~PageSet();

  uint32_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  std::span<const PageRun> runs() const { return runs_; }
  // REQUIRES of both: index < size(). Takes a step for each run in front.
  PageId operator[](uint32_t index) const;
  // The page at home, where it is always readable and writable, whatever ranges show it.
  std::span<std::byte> bytes(uint32_t index) const;

  // Cuts the set in two: this keeps the first `pages`, the rest is returned. REQUIRES: pages <=
  // size().
  PageSet split(uint32_t pages);
  // Puts the pages of another set of the same pool behind those of this one.
  void append(PageSet&& other);
  // All pages lose this set's reference.
  void clear();

  // For the library itself. nullptr: there never was a page in it.
  const std::shared_ptr<pool::PageStore>& internal() const { return store_; }

 private:
  friend class PagePool;
  void push_back(PageRun run);

  std::shared_ptr<pool::PageStore> store_;
  std::vector<PageRun> runs_;  // maximal: no run begins right behind its predecessor's end
  uint32_t size_ = 0;
};

}  // namespace penstock
