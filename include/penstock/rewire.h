#pragma once

// Memory whose pages are chosen, and exchanged while the data stay in place: pools of pages,
// address ranges that show them, tables with snapshots, and views. penstock/containers.h has
// containers on it.
//
// Source: F. M. Schuhknecht, J. Dittrich, A. Sharma: "RUMA has it: Rewired User-space Memory Access
// is Possible!" (VLDB 2016).

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "penstock/base.h"

namespace penstock {

namespace pool {
class PageStore;
}
namespace rewire {
class ChangesCore;
class Range;
class SnapshotCore;
class TableCore;
class VectorMemory;
class ViewCore;
}  // namespace rewire
template <class T>
class RewiredVector;

using PageId = uint32_t;
inline constexpr PageId no_page = ~PageId{0};

// Neighbouring pages, from `first` on. One system call maps them, and one mapping holds them.
struct PageRun {
  PageId first = no_page;
  uint32_t count = 0;

  PageId end() const { return first + count; }
  friend bool operator==(const PageRun&, const PageRun&) = default;
};

// The memory behind pages of 2 MiB and more; smaller ones are always `small`.
enum class PageKind : uint8_t {
  automatic,  // hugetlb if enough is reserved, else huge if the system has it, else small
  small,      // 4 KiB
  huge,       // transparent huge pages; a page that finds none is made of small ones
  hugetlb,    // pages that an administrator has reserved, all of bytes_max at once
};
const char* name_of(PageKind kind);

class PageSet;

// Physical memory in numbered pages, which can be shown at any address, any number of times, in any
// order. VirtualRange makes the address ranges that show them.
//
//   auto pool = penstock::PagePool::open({.bytes_max = 1 * penstock::GiB});
//   auto pages = pool->take(10);                        // ten pages, as few runs as can be had
//   std::memset(pages->bytes(0).data(), 0, pages->bytes(0).size());  // seen at home, always
//
// A page is taken as long as anything refers to it: a PageSet, or a slot of a range that shows it.
// When the last reference goes, the page is free again, and its memory stays with the pool until
// trim(). In contrast, each block of a BlockPool (penstock/region.h) is at one address at a time.
//
// Source: sections 2 and 3 of the paper.
//
// A handle: copies are the same pool, which lives as long as any of them, or anything that was
// opened on it or taken from it. Thread safety: all members, from any thread, also inside a
// region's handler. A forked child sees the ranges, but can neither take nor map pages.
class PagePool {
 public:
  struct Options {
    size_t page_bytes = 2 * MiB;  // a power of two, at least 4 KiB
    uint64_t bytes_max = 0;       // the most that may be taken; 0: the memory of the machine
    PageKind kind = PageKind::automatic;
    uint64_t prefault_bytes = 0;  // memory allocated by open()
    int node = -1;                // preferred NUMA node of the memory; -1: any
    // The most mappings that all ranges on this pool may use together; 0: four fifths of the rest
    // of vm.max_map_count at the time of open().
    uint64_t mappings_max = 0;
    std::string name = "page pool";  // for messages
  };
  // Opens a pool. Errors: invalid_argument; unsupported if the system does not have the kind;
  // out_of_memory for prefault_bytes.
  static Result<PagePool> open(const Options& options);

  // Takes `pages` pages in as few runs as possible, with undefined contents. Takes none if it
  // returns out_of_memory.
  Result<PageSet> take(uint32_t pages) const;

  size_t page_bytes() const;
  PageKind kind() const;   // the actual kind of the pages; never automatic
  uint64_t limit() const;  // bytes_max, rounded up to pages
  uint32_t pages_max() const;
  uint32_t pages_free() const;       // including those that never had memory
  uint32_t pages_taken() const;      // pages_max() - pages_free()
  uint32_t pages_committed() const;  // pages with memory: free or taken
  uint64_t memory_bytes() const;     // physical memory held, however often it is shown
  uint64_t mappings() const;         // mappings of all ranges on this pool
  uint64_t mappings_max() const;
  const std::string& name() const;

  // Ensures that at least `pages` free pages have memory. Errors: out_of_memory.
  Status prefault(uint32_t pages) const;
  // Gives the memory of free pages back to the system.
  void trim() const;

 private:
  friend struct internal::Access;
  explicit PagePool(std::shared_ptr<pool::PageStore> core) : core_(std::move(core)) {}
  std::shared_ptr<pool::PageStore> core_;
};

// An ordered set of pages, with one reference on each. Thread safety: a move-only value.
class PageSet {
 public:
  PageSet() = default;
  PageSet(PageSet&& other) noexcept;
  PageSet& operator=(PageSet&& other) noexcept;
  ~PageSet();

  uint32_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  std::span<const PageRun> runs() const { return runs_; }
  // Returns a page. REQUIRES of both: index < size(). Takes a step for each run in front.
  PageId operator[](uint32_t index) const;
  // Returns the page at its home address, where it is always readable and writable.
  std::span<std::byte> bytes(uint32_t index) const;

  // Cuts off and returns all pages but the first `pages`. REQUIRES: pages <= size().
  PageSet split(uint32_t pages);
  // Appends the pages of another set of the same pool.
  void append(PageSet&& other);
  // Drops this set's reference on all pages.
  void clear();

 private:
  friend struct internal::Access;
  friend class PagePool;
  void push_back(PageRun run);

  std::shared_ptr<pool::PageStore> core_;  // nullptr: the set never had a page
  std::vector<PageRun> runs_;              // maximal: no run begins at its predecessor's end
  uint32_t size_ = 0;
};

// Consecutive slots.
struct Slots {
  uint64_t first = 0;
  uint64_t count = 0;
};

// Addresses whose pages the user chooses, and exchanges while the data stay in place: the mapping
// from virtual to physical pages as a tool for algorithms.
//
//   auto pool = penstock::PagePool::open({.bytes_max = 1 * penstock::GiB});
//   auto range = penstock::VirtualRange::open(*pool, {.bytes = 100 * penstock::GiB});
//   auto pages = pool->take(2);
//   range->map(0, *pages);                      // pages 0 and 1 of the set, in slots 0 and 1
//   range->swap({.first = 0, .count = 1}, 1);   // and now the other way round: nothing was copied
//   uint64_t* data = range->begin<uint64_t>();  // plain memory
//
// A slot is a place for one page; touching an empty slot faults (SIGSEGV). A page may be in any
// number of slots of any number of ranges: a store through one shows in all. A slot keeps its page
// taken.
//
// The kernel keeps a mapping (vm_area_struct) for each piece of slots with neighbouring pages, and
// for each gap; a process may have vm.max_map_count of them, 65530 by default. Ranges count theirs,
// and return out_of_mappings before the kernel would fail, with nothing changed.
//
// Source: section 3 of the paper.
//
// Thread safety: a move-only value; all other members may be called from any thread at the same
// time, and inside a region's handler. Each slot changes atomically for a thread that reads or
// writes; a call about several slots changes them one after the other.
class VirtualRange {
 public:
  struct Options {
    uint64_t bytes = 0;  // address space, rounded up to pages; costs no memory
    std::string name = "virtual range";
  };
  // Opens a range, aligned to the page, and to 2 MiB. Errors: invalid_argument; out_of_memory:
  // address space; out_of_mappings.
  static Result<VirtualRange> open(const PagePool& pool, const Options& options);
  VirtualRange(VirtualRange&&) noexcept = default;
  // REQUIRES: nobody uses the addresses of the range that is replaced.
  VirtualRange& operator=(VirtualRange&&) noexcept = default;

  // Shows the pages in the slots from `slot` on, entered into the page table, and replaces those
  // that were there. REQUIRES of the three map(): somebody holds the pages until the call returns.
  // Errors of all calls that return Status: invalid_argument (no such slot; a page that nobody
  // holds, or of another pool), out_of_mappings, permission (a forked child).
  Status map(uint64_t slot, const PageSet& pages, Protection protection = Protection::read_write);
  Status map(uint64_t slot, PageRun run, Protection protection = Protection::read_write);
  // Shows pages in any order, with repeats. Neighbours share a mapping.
  Status map(uint64_t slot, std::span<const PageId> pages,
             Protection protection = Protection::read_write);
  Status unmap(Slots slots);
  // Changes the protection; skips slots that show nothing.
  Status protect(Slots slots, Protection protection);
  // Exchanges the pages (and access) of `slots` and as many from `with` on, without overlap.
  Status swap(Slots slots, uint64_t with);
  // Moves the pages to the slots from `to` on, and replaces those that were there; the old slots
  // show nothing. The two may overlap, which closes or opens a gap.
  Status move(Slots slots, uint64_t to);
  // Enters missing pages into the page table (after a fork, or a trim by the system).
  Status populate(Slots slots);

  template <class T = std::byte>
  T* begin() const {
    return reinterpret_cast<T*>(address(0));
  }
  std::byte* address(uint64_t slot) const;
  uint64_t bytes() const;
  uint64_t slots() const;
  size_t page_bytes() const;
  PageId page(uint64_t slot) const;  // no_page: the slot is empty
  Protection protection(uint64_t slot) const;
  uint64_t mappings() const;

 private:
  friend struct internal::Access;
  VirtualRange(std::shared_ptr<rewire::Range> core, std::string name);
  Status outcome(int error, const char* attempted, Slots slots) const;
  Status check(const char* attempted, Slots slots) const;
  Status check(const char* attempted, PageRun run) const;

  std::shared_ptr<rewire::Range> core_;
  std::string name_;
};

// The method by which a table finds out which pages were written since a snapshot.
enum class WriteDetection : uint8_t {
  // Makes the pages read-only: the first write of each faults and copies it. A snapshot takes no
  // time, a first write takes a signal and the copy.
  signal,
  // Lets the kernel note writes (userfaultfd, Linux 6.7) without signals; snapshot() copies the
  // pages that were written since the last one. Takes twice the memory from the first snapshot on.
  // For many writes between few snapshots.
  asynchronous,
};

// A table's contents at one moment. A handle: copies are the same snapshot, which lives as long as
// any of them, even longer than the table; then pages that nothing else shows go back to the pool.
// Thread safety: a value, whose copies any threads may use at the same time.
class Snapshot {
 public:
  Snapshot() = default;  // none: only operator bool and assignment may be used
  explicit operator bool() const { return core_ != nullptr; }

  // A write through this pointer is handled by the table's ErrorPolicy: an end with a clear
  // message, or a jump to the recovery point.
  template <class T = std::byte>
  const T* begin() const {
    return reinterpret_cast<const T*>(address());
  }
  uint64_t bytes() const;
  uint64_t pages() const;
  size_t page_bytes() const;
  uint64_t epoch() const;  // the table's first snapshot has epoch 1, its next one 2
  // Returns the page that a place shows. If two snapshots have the same page, nothing was written
  // there between them. REQUIRES: index < pages().
  PageId page(uint64_t index) const;

  // Keeps the pages unchanged for a child that was forked while the snapshot was alive, and which
  // sees it at the same address, until that process has ended, even if all handles here go before.
  // (Without it, keep a handle until the child is done.) `child` is any process that runs, or that
  // its parent has not waited for. Errors: not_found; unsupported in a forked child, which cannot
  // keep its parent's pages.
  Status keep_while(pid_t child) const;

 private:
  friend struct internal::Access;
  friend class RewiredTable;
  explicit Snapshot(std::shared_ptr<rewire::SnapshotCore> core) : core_(std::move(core)) {}
  const std::byte* address() const;

  std::shared_ptr<rewire::SnapshotCore> core_;
};

// Updates that are collected aside, on copies of the touched pages, and appear in the table in one
// go (differential updates). Existing snapshots do not see them. Thread safety: a move-only value,
// whose destructor drops changes that were not applied. REQUIRES: the table outlives it, or it is
// not used any more.
class Changes {
 public:
  // Returns the writable copy of a page, made at the first call for this page. REQUIRES: index is
  // below the table's pages(). Errors: out_of_memory if the pool has no page.
  Result<std::byte*> page(uint64_t index);
  template <class T>
  Result<T*> page_of(uint64_t index) {
    const auto bytes = page(index);
    if (!bytes) return std::unexpected(bytes.error());
    return reinterpret_cast<T*>(*bytes);
  }
  uint64_t size() const;  // copied pages
  // Puts the copies in place of the table's pages: runs of neighbours in one system call each. A
  // snapshot shows all changes or none; for a thread that reads the table itself, each page changes
  // atomically. Afterwards there are no changes, and the pointers from page() must not be used any
  // more: the pages are the table's. Errors: cancelled if the changes began with a snapshot and one
  // of their pages was written in the table since: then nothing is applied (apply_anyway() would).
  // out_of_mappings, from the kernel: changes that were not applied are kept.
  Status apply();
  // Applies the changes; the writers' stores in these pages meanwhile are lost.
  Status apply_anyway();
  void clear();

 private:
  friend class RewiredTable;
  explicit Changes(internal::Owner<rewire::ChangesCore> core) : core_(std::move(core)) {}
  internal::Owner<rewire::ChangesCore> core_;
};

// A table of plain memory whose snapshots can be taken while threads go on writing it.
//
//   auto pool = penstock::PagePool::open({.bytes_max = 3 * penstock::GiB});
//   auto table = penstock::RewiredTable::open(*pool, {.bytes = 1 * penstock::GiB});
//   uint64_t* live = table->begin<uint64_t>();       // zeros; for any number of writers
//
//   auto snapshot = table->snapshot();               // microseconds, whatever the size
//   report(snapshot->begin<uint64_t>());             // stays as it was at that moment
//   live[7] = 1;                                     // meanwhile: copies the page, once
//
// Not allowed: a lock that is held over both a store to the table and snapshot() (the store may
// wait for the snapshot); a system call on the table's pointer without prepare_write() (it gets
// EFAULT); a signal handler that stores to it (the thread may already be inside such a store); a
// child of fork() that uses the table's own pointer (it gets a message; its snapshots work).
//
// A snapshot is consistent: if it shows a store of some thread, it shows all earlier stores of that
// thread, and all that it had seen. The caller takes snapshots between transactions that must be
// seen whole or not at all.
//
// src/memory/rewire/table_core.cc tells how it works, and what it costs. Source: sections 5.3
// (snapshots) and 6 (merge-on-write, differential updates) of the paper.
//
// Thread safety: a move-only value. Any number of threads may read and write by the pointer at any
// time, and call all members but the move at the same time, outside of signal handlers.
class RewiredTable {
 public:
  struct Options {
    uint64_t bytes = 0;  // rounded up to pages
    WriteDetection detection = WriteDetection::signal;
    // Reaction to a write with an empty pool, or to a snapshot: stop or recover, not zeros.
    ErrorPolicy policy = ErrorPolicy::stop;
    // Makes snapshot() take the pages for all copies that writers may need, or fail: then no write
    // ever finds the pool empty. As long as a snapshot is alive, that is twice the memory. (With
    // asynchronous detection no write needs a page.)
    bool guarantee_copies = false;
    std::string name = "rewired table";  // for messages
  };
  // Opens a table of zeros. Errors: invalid_argument; out_of_memory; out_of_mappings if the pool
  // could not map as many pieces as the table has pages (the writers' worst case): larger pages
  // help; unsupported: the detection.
  static Result<RewiredTable> open(const PagePool& pool, const Options& options);
  RewiredTable(RewiredTable&&) noexcept;
  RewiredTable& operator=(RewiredTable&&) noexcept;
  // REQUIRES: nobody uses the pointer any more. Snapshots stay valid.
  ~RewiredTable();

  template <class T = std::byte>
  T* begin() const {
    return reinterpret_cast<T*>(address());
  }
  uint64_t bytes() const;
  uint64_t pages() const;
  size_t page_bytes() const;

  // Takes a snapshot while writers go on; a store to a page that has just been frozen waits until
  // the snapshot is complete. Errors, with the table unchanged: out_of_mappings, out_of_memory
  // (with guarantee_copies or asynchronous detection), unsupported in a forked child.
  Result<Snapshot> snapshot();
  // Returns the last snapshot, if anybody still has it: for readers that need not have the newest
  // data. (None in a forked child.)
  Snapshot latest() const;
  uint64_t epoch() const;  // epoch of the last snapshot; 0: none was taken

  struct Merged {
    uint64_t pages_equal = 0;  // pages replaced by one with the same contents
    uint64_t pages_freed = 0;  // pages given back to the pool; other snapshots may hold the rest
  };
  // Merge-on-write: stores pages with equal contents once; a write copies them apart again. Writers
  // go on as during snapshot(). Errors: as snapshot(); unsupported with asynchronous detection.
  Result<Merged> merge_equal_pages();

  // Begins changes to the table's contents at the time when each page is first requested. Errors:
  // unsupported with asynchronous detection, or in a forked child.
  Result<Changes> changes();
  // Begins changes to the contents of a snapshot of this table; apply() then refuses if the table
  // has moved on in one of the pages.
  Result<Changes> changes(const Snapshot& base);

  // Makes [address, address + bytes) writable as if each page were written once: for system calls
  // that store there. Holds until the next snapshot, merge or apply, none of which may begin before
  // the system call has ended: it could fail half-way, or, if devices store by themselves
  // (O_DIRECT), store into the snapshot. Errors: those of a write; unsupported in a forked child.
  Status prepare_write(void* address, size_t bytes) const;

  // Counts since open().
  struct Counts {
    uint64_t pages_copied = 0;     // copied: a snapshot or an equal page needed the old page
    uint64_t pages_unshared = 0;   // made writable without a copy: nobody else had them
    uint64_t writes_waited = 0;    // writes during a snapshot that had to wait
    uint64_t snapshots = 0;        // snapshots alive now
    uint64_t pages_read_only = 0;  // pages of the table whose next write faults
  };
  Counts counts() const;

 private:
  friend struct internal::Access;
  explicit RewiredTable(std::shared_ptr<rewire::TableCore> core);
  std::byte* address() const;

  std::shared_ptr<rewire::TableCore> core_;
};

// A read-only array made of chosen pages of a range, a vector or a snapshot, in any order, with
// repeats. Nothing is copied.
//
//   std::vector<uint64_t> hits;  // the pages that can have rows of the year 2016, by a zone map
//   auto view = penstock::PageView::open(table, hits);
//   sum = total(view->begin<Row>(), view->bytes() / sizeof(Row));  // code that knows of no pages
//
// When it pays. Made and scanned once, a view of pages of 2 MiB takes about half the time of
// copying them and scanning the copy; at 64 KiB the two are even, or the view somewhat ahead; with
// single pages of 4 KiB a view takes twice as long as the copy. It is always ahead if the same
// pages are scanned often and must stay live, or do not fit into memory twice. A loop over the list
// of pages is as fast as one over the view and needs none: a view is for code that wants an array.
// (`bench rewire-view`.) Each piece of neighbouring pages takes a mapping (see VirtualRange).
//
// Source: section 6 of the paper (multiple views on the same memory).
//
// Thread safety: a move-only value; any number of threads may use the pointer until the view ends.
class PageView {
 public:
  struct Options {
    // Reaction to a write through the pointer: stop or recover, not zeros.
    ErrorPolicy policy = ErrorPolicy::stop;
    std::string name = "page view";  // for messages
  };

  // Shows the slots' current pages side by side. The pages stay the same, and taken, whatever
  // becomes of the source. Later stores to the pages of a range or a vector (whose pages are
  // counted from data() on) show up; a snapshot never changes. No slots make an empty view. Errors:
  // invalid_argument if a slot is empty or does not exist; out_of_mappings; out_of_memory: address
  // space.
  static Result<PageView> open(const VirtualRange& source, std::span<const uint64_t> slots,
                               const Options& options);
  static Result<PageView> open(const VirtualRange& source, std::span<const uint64_t> slots) {
    return open(source, slots, Options());
  }
  template <class T>
  static Result<PageView> open(const RewiredVector<T>& source, std::span<const uint64_t> pages,
                               const Options& options) {
    return open(source.memory_, pages, options);
  }
  template <class T>
  static Result<PageView> open(const RewiredVector<T>& source, std::span<const uint64_t> pages) {
    return open(source, pages, Options());
  }
  static Result<PageView> open(const Snapshot& source, std::span<const uint64_t> pages,
                               const Options& options);
  static Result<PageView> open(const Snapshot& source, std::span<const uint64_t> pages) {
    return open(source, pages, Options());
  }

  template <class T = std::byte>
  const T* begin() const {
    return reinterpret_cast<const T*>(address());
  }
  uint64_t bytes() const { return pages() * page_bytes(); }
  uint64_t pages() const;
  size_t page_bytes() const;
  PageId page(uint64_t index) const;  // REQUIRES: index < pages()
  uint64_t mappings() const;

 private:
  static Result<PageView> open(const rewire::Range& source, std::span<const uint64_t> slots,
                               const Options& options);
  static Result<PageView> open(const rewire::VectorMemory& source, std::span<const uint64_t> pages,
                               const Options& options);
  friend struct internal::Access;
  explicit PageView(internal::Owner<rewire::ViewCore> core) : core_(std::move(core)) {}
  const std::byte* address() const;

  internal::Owner<rewire::ViewCore> core_;
};

}  // namespace penstock
