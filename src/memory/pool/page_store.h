#pragma once

// Pages of one memory file, seen at any number of addresses and counted by references: the paper's
// physical pages. See page_store.cc for how free pages are kept together.
//
//   PageRun run = store.take_run(10);       // up to ten neighbours, one reference on each
//   store.map(address, run, Protection::read_write, true);
//   ...
//   store.release(run);                     // whoever drops the last reference frees the page
//
// Addresses are given out by rewire::Range, which does the mapping and the counting of it; nobody
// else needs map() and claim_mappings().

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

// Thread safety: all members, from any thread, and on the fault path: nothing but open() and name()
// allocates. The lock is the store's own and guards the free pages; it is held across the
// discarding of free pages, never across anything that can fault, nor while memory is committed. A
// second one keeps takers from overlooking the free pages that prefault() has in hand. References
// are counted without either. Invariants: a page is free when and only when its count is 0 and no
// taker has it in hand; every page that is taken has memory. mappings_ <= mappings_max_.
class PageStore {
 public:
  struct Options {
    size_t page_bytes = 2 * MiB;  // a power of two, at least 4 KiB
    uint64_t bytes_max = 0;       // 0: the memory of the machine
    PageKind pages = PageKind::automatic;
    uint64_t prefault_bytes = 0;
    int node = -1;              // NUMA; -1: any
    uint64_t mappings_max = 0;  // 0: four fifths of what vm.max_map_count leaves
    std::string name = "page pool";
  };
  // More pages than this cannot be told apart by a range's table.
  static constexpr uint64_t pages_limit = uint64_t{1} << 30;

  static Result<std::unique_ptr<PageStore>> open(const Options& options);

  size_t page_bytes() const { return page_bytes_; }
  uint32_t pages_max() const { return pages_max_; }
  PageKind pages() const { return pages_; }  // what they are really made of; never `automatic`
  const std::string& name() const { return name_; }

  // The longest run of free pages up to `count` that can be had, with memory, each page with one
  // reference, which is the caller's. Right behind `after`, if that is free and no memory lies idle
  // elsewhere. Contents are undefined. count == 0: none left, or the system has no memory (or this
  // is a forked child).
  [[nodiscard]] PageRun take_run(uint32_t count, PageId after = no_page) noexcept;
  // REQUIRES of all four: the caller holds, or keeps others from dropping, a reference on each
  // page.
  void retain(PageRun run) noexcept;
  void release(PageRun run) noexcept;
  void retain(std::span<const PageId> pages) noexcept;
  void release(std::span<const PageId> pages) noexcept;
  // 0: free. Exact while nobody retains or releases; when it is 1 and that one is the caller's, it
  // stays 1 until the caller shares the page; and what was done through the other references before
  // they were dropped is over (acquire, the partner of release()).
  uint32_t references(PageId page) const noexcept;

  // Each page is always readable and writable there. Not inherited by a forked child.
  std::byte* home(PageId page) const noexcept {
    return home_.begin() + uint64_t{page} * page_bytes_;
  }
  // One mmap(): the run's pages appear at `to`, in place of what is mapped there. 0 or an errno.
  [[nodiscard]] int map(std::byte* to, PageRun run, Protection access, bool populate) noexcept;

  // Mappings in use by ranges on this store. False: that would be more than mappings_max().
  [[nodiscard]] bool claim_mappings(uint64_t more) noexcept;
  void return_mappings(uint64_t fewer) noexcept;

  // At least so many free pages have memory afterwards: 0, or ENOMEM.
  [[nodiscard]] int prefault(uint32_t pages) noexcept;
  // The memory of free pages goes back to the system.
  void trim() noexcept;

  // True in a process that was forked off the one that opened the store: there the ranges are still
  // seen, but nothing is taken, mapped or given back, for the original knows nothing of it.
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
  uint32_t commit(PageRun run) noexcept;  // how many of them, from the first, got memory
  void give_back(PageRun run, bool has_memory) noexcept;

  std::atomic<uint32_t>& count_of(PageId page) const noexcept { return counts_[page]; }

  const size_t page_bytes_;
  const uint32_t pages_max_;
  const PageKind pages_;
  const std::string name_;
  uint64_t mappings_max_ = 0;
  const os::MemoryFile file_;
  os::Reservation home_;
  os::ZeroedTable<std::atomic<uint32_t>> counts_;  // of every page
  const os::Generation made_ = os::Generation::now();

  os::Semaphore prefaulting_{1};  // held by prefault() while it has pages in hand; before mutex_
  os::Semaphore mutex_{1};        // a lock that may stand on the fault path; guards the next two
  PageBitmap ready_;              // free, with memory
  PageBitmap blank_;              // free, without
  std::atomic<uint32_t> free_{0};
  std::atomic<uint32_t> committed_{0};
  std::atomic<uint64_t> mappings_{0};
};

}  // namespace penstock::pool
