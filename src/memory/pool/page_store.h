#pragma once

// Pages of one memory file, mapped at any number of addresses and counted by references: the
// paper's physical pages. page_store.cc tells how free pages are kept together.
//
//   PageRun run = store.take_run(10);       // up to ten neighbours, one reference on each
//   store.map(address, run, Protection::read_write, true);
//   ...
//   store.release(run);                     // dropping the last reference frees the page
//
// rewire::Range maps pages at addresses and counts the mappings; nothing else needs map() and
// claim_mappings().

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "memory/pool/page_bitmap.h"
#include "memory/pool/pool.h"
#include "os/generation.h"
#include "os/memfd.h"
#include "os/memory.h"
#include "os/semaphore.h"
#include "penstock/base.h"
#include "penstock/rewire.h"

namespace penstock::pool {

using penstock::no_page;
using penstock::PageId;
using penstock::PageRun;

// A store of pages. Thread safety: all members, from any thread, and on the fault path: only open()
// and name() allocate. The lock is the store's own and guards the free pages; it is held across the
// discarding of free pages, never across anything that can fault, nor while memory is committed. A
// second lock keeps takers from missing the free pages that prefault() is committing. References
// are counted without either. Invariants: a page is free if and only if its count is 0 and no taker
// is handling it; every taken page has memory. mappings_ <= mappings_max_.
class PageStore {
 public:
  struct Options {
    size_t page_bytes = 2 * MiB;  // a power of two, at least 4 KiB
    uint64_t bytes_max = 0;       // 0: the memory of the machine
    PageKind pages = PageKind::automatic;
    uint64_t prefault_bytes = 0;
    int node = -1;              // NUMA node; -1: any
    uint64_t mappings_max = 0;  // 0: four fifths of the rest of vm.max_map_count
    std::string name = "page pool";
  };
  // Limit of the page numbers in a range's table.
  static constexpr uint64_t pages_limit = uint64_t{1} << 30;

  static Result<std::unique_ptr<PageStore>> open(const Options& options);

  size_t page_bytes() const { return page_bytes_; }
  uint32_t pages_max() const { return pages_max_; }
  PageKind pages() const { return pages_; }  // the actual kind; never `automatic`
  const std::string& name() const { return name_; }

  // Takes the longest free run of up to `count` pages, with memory and undefined contents; the
  // caller gets one reference on each page. Takes the pages right behind `after` if they are free
  // and no memory lies idle elsewhere. count == 0: none left, or the system has no memory (or this
  // is a forked child).
  [[nodiscard]] PageRun take_run(uint32_t count, PageId after = no_page) noexcept;
  // REQUIRES of all four: the caller holds, or keeps others from dropping, a reference on each
  // page.
  void retain(PageRun run) noexcept;
  void release(PageRun run) noexcept;
  void retain(std::span<const PageId> pages) noexcept;
  void release(std::span<const PageId> pages) noexcept;
  // Returns a page's references; 0: free. Exact while nobody retains or releases. If it is 1 and
  // the caller's, it stays 1 until the caller shares the page, and everything done through dropped
  // references is visible (acquire, pairs with release()).
  uint32_t references(PageId page) const noexcept;

  // Returns the page's home address, always readable and writable; not inherited by a fork.
  std::byte* home(PageId page) const noexcept {
    return home_.begin() + uint64_t{page} * page_bytes_;
  }
  // Maps the run's pages at `to`, in place of the mapping there: one mmap(). Returns 0 or an errno.
  [[nodiscard]] int map(std::byte* to, PageRun run, Protection access, bool populate) noexcept;

  // Counts mappings of ranges on this store. Returns false if that would exceed mappings_max().
  [[nodiscard]] bool claim_mappings(uint64_t more) noexcept;
  void return_mappings(uint64_t fewer) noexcept;

  // Ensures that at least `pages` free pages have memory: returns 0, or ENOMEM.
  [[nodiscard]] int prefault(uint32_t pages) noexcept;
  // Gives the memory of free pages back to the system.
  void trim() noexcept;

  // Returns true in a process that was forked from the one that opened the store: there the ranges
  // can be read, but nothing is taken, mapped or released: the original would not know.
  bool is_inherited() const noexcept { return made_.is_past(); }

  uint32_t pages_free() const noexcept { return free_.load(std::memory_order_relaxed); }
  uint32_t pages_taken() const noexcept { return pages_max_ - pages_free(); }
  uint32_t pages_committed() const noexcept { return committed_.load(std::memory_order_relaxed); }
  uint64_t mappings() const noexcept { return mappings_.load(std::memory_order_relaxed); }
  uint64_t mappings_max() const noexcept { return mappings_max_; }

 private:
  PageStore(const Options& options, uint32_t pages_max, PageKind pages, os::MemoryFile file,
            os::Reservation home);
  static Result<std::unique_ptr<PageStore>> open_as(const Options& options, PageKind pages);

  struct Found {
    PageRun run;
    bool has_memory = false;
  };
  Found find_locked(uint32_t count, PageId after, bool blank_too) noexcept;
  Found remove(uint32_t count, PageId after, bool blank_too) noexcept;
  Found remove_once(uint32_t count, PageId after, bool blank_too) noexcept;
  uint32_t commit(PageRun run) noexcept;  // returns how many, from the first, got memory
  void give_back(PageRun run, bool has_memory) noexcept;

  std::atomic<uint32_t>& count_of(PageId page) const noexcept { return counts_[page]; }

  const size_t page_bytes_;
  const uint32_t pages_max_;
  const PageKind pages_;
  const std::string name_;
  uint64_t mappings_max_ = 0;
  const os::MemoryFile file_;
  os::Reservation home_;
  os::ZeroedTable<std::atomic<uint32_t>> counts_;  // one for each page
  const os::Generation made_ = os::Generation::now();

  os::Semaphore prefaulting_{1};  // held by prefault() while it commits pages; taken before mutex_
  os::Semaphore mutex_{1};        // a lock that may stand on the fault path; guards the next two
  PageBitmap ready_;              // free, with memory
  PageBitmap blank_;              // free, without memory
  std::atomic<uint32_t> free_{0};
  std::atomic<uint32_t> committed_{0};
  std::atomic<uint64_t> mappings_{0};
};

}  // namespace penstock::pool
