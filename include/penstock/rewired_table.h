#pragma once

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
// How it works, and what it costs: src/rewire/table_core.cc. Source: the paper named in
// penstock/page_pool.h, sections 5.3 (snapshots) and 6 (merge-on-write, differential updates).

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "penstock/error.h"
#include "penstock/error_policy.h"
#include "penstock/page_pool.h"

namespace penstock {

namespace rewire {
class ChangesCore;
class SnapshotCore;
class TableCore;
}  // namespace rewire

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

  // For the library itself.
  const std::shared_ptr<rewire::SnapshotCore>& internal() const { return core_; }

 private:
  friend class RewiredTable;
  explicit Snapshot(std::shared_ptr<rewire::SnapshotCore> core) : core_(std::move(core)) {}
  const std::byte* address() const;

  std::shared_ptr<rewire::SnapshotCore> core_;
};

// Updates that are collected aside, on copies of the pages that they touch, and appear in the table
// in one go (differential updates). Snapshots that exist see nothing of them.
// Thread safety: a move-only value. REQUIRES: the table outlives it, or it is not used any more.
class Changes {
 public:
  Changes(Changes&&) noexcept;
  Changes& operator=(Changes&&) noexcept;
  ~Changes();  // what was not applied is forgotten

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
  explicit Changes(std::unique_ptr<rewire::ChangesCore> core);
  std::unique_ptr<rewire::ChangesCore> core_;
};

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

  // For the library itself.
  const std::shared_ptr<rewire::TableCore>& internal() const { return core_; }

 private:
  explicit RewiredTable(std::shared_ptr<rewire::TableCore> core);
  std::byte* address() const;

  std::shared_ptr<rewire::TableCore> core_;
};

}  // namespace penstock
