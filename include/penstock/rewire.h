#pragma once

// Memory whose pages are chosen, and chosen again while the data stay where they are: pools of pages, ranges of
// addresses that show them, tables with snapshots, views. Containers on it: penstock/containers.h.
//
// Source: F. M. Schuhknecht, J. Dittrich, A. Sharma: "RUMA has it: Rewired User-space Memory Access is Possible!"
// (VLDB 2016).

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

// Physical memory in numbered pages, to be shown at any address, any number of times, in any order:
// what rewiring works with. VirtualRange makes ranges of addresses that show them.
//
//   auto pool = penstock::PagePool::open({.bytes_max = 1 * penstock::GiB});
//   auto pages = pool->take(10);                        // ten pages, as few runs as can be had
//   std::memset(pages->bytes(0).data(), 0, pages->bytes(0).size());  // seen at home, always
//
// A page is taken as long as anything refers to it: a PageSet, or a slot of a range that shows it.
// When the last reference goes, the page is free again, and its memory stays with the pool until
// trim(). A BlockPool (penstock/region.h) differs in that each of its blocks is at one address
// at a time.
//
// Source: sections 2 and 3 of the paper.
//
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

 private:
  friend struct internal::Access;
  explicit PagePool(std::shared_ptr<pool::PageStore> core) : core_(std::move(core)) {}
  std::shared_ptr<pool::PageStore> core_;
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

 private:
  friend struct internal::Access;
  friend class PagePool;
  void push_back(PageRun run);

  std::shared_ptr<pool::PageStore> core_;  // nullptr: there never was a page in it
  std::vector<PageRun> runs_;  // maximal: no run begins right behind its predecessor's end
  uint32_t size_ = 0;
};

// Slots in a row.
struct Slots {
  uint64_t first = 0;
  uint64_t count = 0;
};

// Addresses whose pages you choose, and choose again while the data stay where they are: the
// mapping from virtual to physical pages as a tool of algorithms.
//
//   auto pool = penstock::PagePool::open({.bytes_max = 1 * penstock::GiB});
//   auto range = penstock::VirtualRange::open(*pool, {.bytes = 100 * penstock::GiB});
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
// Source: section 3 of the paper.
//
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
  static Result<VirtualRange> open(const PagePool& pool, const Options& options);
  VirtualRange(VirtualRange&&) noexcept = default;
  // REQUIRES: nobody uses the addresses of the range that ends here any more.
  VirtualRange& operator=(VirtualRange&&) noexcept = default;

  // The pages appear in the slots from `slot` on, entered into the page table, in place of what was
  // there. REQUIRES of the three: somebody holds the pages until the call returns. Errors of all
  // calls that return Status: invalid_argument (no such slot; a page that nobody holds, or of
  // another pool), out_of_mappings, permission (a forked child).
  Status map(uint64_t slot, const PageSet& pages, Protection protection = Protection::read_write);
  Status map(uint64_t slot, PageRun run, Protection protection = Protection::read_write);
  // In any order, with repeats. Neighbours take one mapping together.
  Status map(uint64_t slot, std::span<const PageId> pages,
             Protection protection = Protection::read_write);
  Status unmap(Slots slots);
  // Slots that show nothing are passed over.
  Status protect(Slots slots, Protection protection);
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

// How a table finds out which pages were written since a snapshot.
enum class WriteDetection : uint8_t {
  // The pages are made read-only: the first write of each faults, and copies it. A snapshot takes
  // no time, a first write takes a signal and the copy.
  signal,
  // The kernel notes what is written (userfaultfd, Linux 6.7), no signal is raised, and snapshot()
  // copies what was written since the last one. Twice the memory from the first snapshot on. For
  // many writes between few snapshots.
  asynchronous,
};

// What a table held at one moment. A handle: copies are the same snapshot, which lives as long as
// any of them, also longer than the table; then its pages go back to the pool, as far as nothing
// else shows them. Thread safety: a value, whose copies any threads may use at the same time.
class Snapshot {
 public:
  Snapshot() = default;  // none: nothing but operator bool and assignment may be used
  explicit operator bool() const { return core_ != nullptr; }

  // A write through this pointer is what the table's ErrorPolicy says: an end with a clear message,
  // or a jump to the recovery point.
  template <class T = std::byte>
  const T* begin() const {
    return reinterpret_cast<const T*>(address());
  }
  uint64_t bytes() const;
  uint64_t pages() const;
  size_t page_bytes() const;
  uint64_t epoch() const;  // of the table: its first snapshot is of epoch 1, its next of 2
  // The page that is shown in a place. The same one in two snapshots: nothing was written there
  // between them. REQUIRES: index < pages().
  PageId page(uint64_t index) const;

  // A child that was forked while the snapshot was alive sees it, too, at the same address. The
  // pages then stay as they are until that process has ended, even if all handles here go before.
  // (Whoever forks without it keeps a handle until the child is done.) `child` is any process that
  // runs, or that its parent has not waited for. Errors: not_found; unsupported in a forked child,
  // which cannot keep what is its parent's.
  Status keep_while(pid_t child) const;

 private:
  friend struct internal::Access;
  friend class RewiredTable;
  explicit Snapshot(std::shared_ptr<rewire::SnapshotCore> core) : core_(std::move(core)) {}
  const std::byte* address() const;

  std::shared_ptr<rewire::SnapshotCore> core_;
};

// Updates that are collected aside, on copies of the pages that they touch, and appear in the table
// in one go (differential updates). Snapshots that exist see nothing of them.
// Thread safety: a move-only value, whose end forgets the changes that were not applied. REQUIRES: the table outlives it,
// or it is not used any more.
class Changes {
 public:
  // The copy of a page, to be written; made at the first call for this page. REQUIRES: index <
  // the table's pages. Errors: out_of_memory, when the pool has no page.
  Result<std::byte*> page(uint64_t index);
  template <class T>
  Result<T*> page_of(uint64_t index) {
    const auto bytes = page(index);
    if (!bytes) return std::unexpected(bytes.error());
    return reinterpret_cast<T*>(*bytes);
  }
  uint64_t size() const;  // pages copied
  // The copies take the place of the table's pages: runs of neighbours in one system call each. A
  // snapshot shows all of it or nothing; for a thread that reads the table itself, each page
  // changes in one moment. Afterwards there are no changes, and the pointers that page() gave must
  // not be used any more: the pages are the table's.
  // Errors: cancelled, when the changes began with a snapshot and a page of them was written in the
  // table since: then nothing is applied (apply_anyway() would). out_of_mappings, from the kernel:
  // what was not applied is kept.
  Status apply();
  // What the table's writers stored in these pages meanwhile is lost.
  Status apply_anyway();
  void clear();

 private:
  friend class RewiredTable;
  explicit Changes(internal::Owner<rewire::ChangesCore> core) : core_(std::move(core)) {}
  internal::Owner<rewire::ChangesCore> core_;
};

// A table of plain memory of which snapshots can be taken while threads go on writing it.
//
//   auto pool = penstock::PagePool::open({.bytes_max = 3 * penstock::GiB});
//   auto table = penstock::RewiredTable::open(*pool, {.bytes = 1 * penstock::GiB});
//   uint64_t* live = table->begin<uint64_t>();       // zeros; for any number of writers
//
//   auto snapshot = table->snapshot();               // microseconds, whatever the size
//   report(snapshot->begin<uint64_t>());             // stays as it was at that moment
//   live[7] = 1;                                     // meanwhile: copies the page, once
//
// Bad: a lock of your own that is held over both a store to the table and snapshot() (the store may
// wait for the snapshot), a system call that is handed the table's pointer without prepare_write()
// (it gets EFAULT), a signal handler that stores to it (the thread may be inside such a store
// already), a child of fork() that uses the table's own pointer (it gets a message; its snapshots
// are there).
//
// A snapshot is consistent: when it shows what some thread stored, it shows all that this thread
// had stored before, and all that it had seen. Transactions that must be seen whole or not at all
// are the caller's: take the snapshot between them.
//
// How it works, and what it costs: src/memory/rewire/table_core.cc. Source: sections 5.3 (snapshots) and
// 6 (merge-on-write, differential updates) of the paper.
//
// Thread safety: a move-only value. The pointer may be written and read by any number of threads at
// any time; all members but the move may be called from any thread at the same time, outside of
// signal handlers.
class RewiredTable {
 public:
  struct Options {
    uint64_t bytes = 0;  // rounded up to pages
    WriteDetection detection = WriteDetection::signal;
    // For a write that cannot be served, the pool being empty, and for writes to a snapshot: stop
    // or recover. No zeros.
    ErrorPolicy policy = ErrorPolicy::stop;
    // snapshot() takes the pages for all copies that writers can come to need, or fails: then no
    // write ever finds the pool empty. As long as a snapshot is alive, that is twice the memory.
    // (With asynchronous detection no write needs a page.)
    bool guarantee_copies = false;
    std::string name = "rewired table";  // for messages
  };
  // Filled with zeros. Errors: invalid_argument; out_of_memory; out_of_mappings, when the pool
  // could not map as many pieces as the table has pages (the worst that writers can bring about):
  // larger pages help; unsupported: the detection.
  static Result<RewiredTable> open(const PagePool& pool, const Options& options);
  RewiredTable(RewiredTable&&) noexcept;
  RewiredTable& operator=(RewiredTable&&) noexcept;
  // REQUIRES: nobody uses the pointer any more. Snapshots go on.
  ~RewiredTable();

  template <class T = std::byte>
  T* begin() const {
    return reinterpret_cast<T*>(address());
  }
  uint64_t bytes() const;
  uint64_t pages() const;
  size_t page_bytes() const;

  // Writers go on meanwhile; those that store to a page which has just been frozen wait until the
  // snapshot is complete. Errors, with the table as it was: out_of_mappings, out_of_memory (with
  // guarantee_copies or asynchronous detection), unsupported in a forked child.
  Result<Snapshot> snapshot();
  // The last one that was taken, if anybody still has it: for readers that need not have the newest
  // data. (None in a forked child.)
  Snapshot latest() const;
  uint64_t epoch() const;  // of the last snapshot; 0: none was taken

  struct Merged {
    uint64_t pages_equal = 0;  // that are now shown by a page with the same contents
    uint64_t pages_freed = 0;  // that went back to the pool; other snapshots may hold the rest
  };
  // Merge-on-write: pages with equal contents are stored once; a write copies them apart again.
  // Writers go on meanwhile, as for a snapshot. Errors: as snapshot(); unsupported with
  // asynchronous detection.
  Result<Merged> merge_equal_pages();

  // Changes to what the table holds when each page is first asked for. Errors: unsupported with
  // asynchronous detection, or in a forked child.
  Result<Changes> changes();
  // Changes to what a snapshot of this table holds; apply() then refuses when the table has moved
  // on in one of the pages.
  Result<Changes> changes(const Snapshot& base);

  // As if each page of [address, address + bytes) were written once: for system calls that store
  // there. Holds until the next snapshot, merge or apply, none of which may begin before the call
  // has ended: it could fail half-way, or, where devices store by themselves (O_DIRECT), store into
  // the snapshot. Errors: what a write would have met; unsupported in a forked child.
  Status prepare_write(void* address, size_t bytes) const;

  // Counted since open().
  struct Counts {
    uint64_t pages_copied = 0;     // because a snapshot or an equal page needed the old contents
    uint64_t pages_unshared = 0;   // made writable without a copy: nobody else had them any more
    uint64_t writes_waited = 0;    // that came while a snapshot was being taken
    uint64_t snapshots = 0;        // alive now
    uint64_t pages_read_only = 0;  // of the table, now: the next write to them faults
  };
  Counts counts() const;

 private:
  friend struct internal::Access;
  explicit RewiredTable(std::shared_ptr<rewire::TableCore> core);
  std::byte* address() const;

  std::shared_ptr<rewire::TableCore> core_;
};

// Chosen pages of a range, a vector or a snapshot, in any order, with repeats, as one array that
// can only be read. Nothing is copied.
//
//   std::vector<uint64_t> hits;  // the pages that can have rows of the year 2016, by a zone map
//   auto view = penstock::PageView::open(table, hits);
//   sum = total(view->begin<Row>(), view->bytes() / sizeof(Row));  // code that knows of no pages
//
// When it pays. Made and scanned once, a view of pages of 2 MiB takes about half the time of
// copying them and scanning the copy; at 64 KiB the two are even, or the view somewhat ahead; of
// single pages of 4 KiB a view takes twice as long as the copy. It is ahead in every case where the
// same pages are scanned often and must stay live, or do not fit into memory twice. A loop of one's
// own over the list of pages is as fast as one over the view and needs none: a view is for code
// that wants an array. (`bench rewire-view`.) Each piece of neighbouring pages takes a mapping
// (see VirtualRange).
//
// Source: section 6 of the paper (multiple views on the same memory).
//
// Thread safety: a move-only value; the pointer may be used by any number of threads until the view ends.
class PageView {
 public:
  struct Options {
    // What a write through the pointer is: stop or recover. No zeros.
    ErrorPolicy policy = ErrorPolicy::stop;
    std::string name = "page view";  // for messages
  };

  // The pages that the slots show now, side by side. They stay the same ones, and taken, whatever
  // becomes of the source: of a range or a vector (whose pages are counted from data() on), what is
  // stored to these pages later is seen; of a snapshot nothing ever changes. No slots make an empty
  // view. Errors: invalid_argument, when a slot shows nothing or does not exist; out_of_mappings;
  // out_of_memory: address space.
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
