#pragma once

// Addresses whose pages you choose, and choose again while the data stay where they are: the
// mapping from virtual to physical pages as a tool of algorithms.
//
//   auto pool = penstock::PagePool::open({.bytes_max = 1 * penstock::GiB});
//   auto range = penstock::VirtualRange::reserve(*pool, {.bytes = 100 * penstock::GiB});
//   auto pages = pool->take(2);
//   range->map(0, *pages);                      // pages 0 and 1 of the set, in slots 0 and 1
//   range->swap({.first = 0, .count = 1}, 1);   // and now the other way round: nothing was copied
//   uint64_t* data = range->begin<uint64_t>();  // plain memory
//
// A slot is a place for one page; a slot that shows nothing faults when it is touched (SIGSEGV). A
// page may be in any number of slots of any number of ranges: what is stored through one is read
// through all. A slot keeps its page taken.
//
// The kernel keeps a mapping (vm_area_struct) for each piece of slots with neighbouring pages, and
// for each gap; a process may have vm.max_map_count of them, 65530 by default. Ranges count theirs,
// and refuse with out_of_mappings before the kernel would, with nothing changed.
//
// Source: the paper named in penstock/page_pool.h, section 3.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "penstock/error.h"
#include "penstock/page_pool.h"

namespace penstock {

namespace rewire {
class Range;
}

enum class PageAccess : uint8_t { none, read, read_write };

// Slots in a row.
struct Slots {
  uint64_t first = 0;
  uint64_t count = 0;
};

// Thread safety: a move-only value; all other members may be called from any thread at the same
// time, and inside a region's handler. For a thread that reads or writes, each slot changes in one
// moment; a call about several slots changes them one after the other.
class VirtualRange {
 public:
  struct Options {
    uint64_t bytes = 0;  // address space, rounded up to pages; costs no memory
    std::string name = "virtual range";
  };
  // Aligned to the page, and to 2 MiB. Errors: invalid_argument; out_of_memory: address space;
  // out_of_mappings.
  static Result<VirtualRange> reserve(const PagePool& pool, const Options& options);
  VirtualRange(VirtualRange&&) noexcept;
  VirtualRange& operator=(VirtualRange&&) noexcept;
  // REQUIRES: nobody uses the addresses any more.
  ~VirtualRange();

  // The pages appear in the slots from `slot` on, entered into the page table, in place of what was
  // there. REQUIRES of the three: somebody holds the pages until the call returns. Errors of all
  // calls that return Status: invalid_argument (no such slot; a page that nobody holds, or of
  // another pool), out_of_mappings, permission (a forked child).
  Status map(uint64_t slot, const PageSet& pages, PageAccess access = PageAccess::read_write);
  Status map(uint64_t slot, PageRun run, PageAccess access = PageAccess::read_write);
  // In any order, with repeats. Neighbours take one mapping together.
  Status map(uint64_t slot, std::span<const PageId> pages,
             PageAccess access = PageAccess::read_write);
  Status unmap(Slots slots);
  // Slots that show nothing are passed over.
  Status protect(Slots slots, PageAccess access);
  // `slots` and as many from `with` on change their pages (and access); they must not overlap.
  Status swap(Slots slots, uint64_t with);
  // The pages go to the slots from `to` on, in place of what was there; where they were, nothing is
  // shown. The two may overlap: this is how a gap is closed or opened.
  Status move(Slots slots, uint64_t to);
  // Enters pages into the page table that are not (after a fork, or a trim by the system).
  Status populate(Slots slots);

  template <class T = std::byte>
  T* begin() const {
    return reinterpret_cast<T*>(address(0));
  }
  std::byte* address(uint64_t slot) const;
  uint64_t bytes() const;
  uint64_t slots() const;
  size_t page_bytes() const;
  PageId page(uint64_t slot) const;  // no_page: it shows nothing
  PageAccess access(uint64_t slot) const;
  uint64_t mappings() const;

  // For the library itself.
  const std::shared_ptr<rewire::Range>& internal() const { return range_; }

 private:
  VirtualRange(std::shared_ptr<rewire::Range> range, std::string name);
  Status outcome(int error, const char* attempted, Slots slots) const;
  Status check(const char* attempted, Slots slots) const;
  Status check(const char* attempted, PageRun run) const;

  std::shared_ptr<rewire::Range> range_;
  std::string name_;
};

}  // namespace penstock
