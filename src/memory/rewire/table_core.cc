// How a snapshot of a table that is being written takes no time and still shows one moment.
//
// The alternatives. Copying the table takes a tenth of a second per gibibyte, and writers must stop
// for as long. fork() leaves the copying to the kernel: page tables are duplicated (1 ms per
// gibibyte of huge pages, 12 of small ones), and the first write of each page copies it, to memory
// that the kernel finds for it, 4 KiB at a time, because it splits shared huge pages: 2.8 us for
// each, 1.4 ms for 2 MiB, and from then on the table is on small pages. And the reader must be
// another process.
//
// The idea (the paper's rewired copy-on-write). The table is a range of addresses whose pages are
// counted by references. A snapshot is a second range that shows the same pages, and the table's
// become read-only: one mprotect() and one mmap(), whatever the size. The first write of a page
// then faults here; the page is copied to one from the pool, which is mapped in its place. So the
// snapshot keeps the old page, and no reader of any snapshot, in this process or in a child, is
// ever disturbed.
//
// States of a slot, given by its range's access and its page's references:
//
//   own      read_write; the page has one reference, the slot's
//   shared   read; others show the page, too: snapshots, children's, or equal slots (merged)
//   left     read, but the page has one reference: all the others have gone
//
//   own    --snapshot()-->  shared         all slots at once, behind the closed gate
//   own    --merge_equal_pages()-->  shared    an equal page in its place, the own one freed
//   shared --write fault-->  own           copied, the copy mapped in its place
//   shared --the others go-->  left        nothing is done, nor noticed
//   left   --write fault-->  own           the protection is lifted
//   left   --the last snapshot ends-->  own    all of them, behind the closed gate
//   any    --apply()-->  own               another page in its place
//
// The reference on a left slot's page is the slot's own, so nobody else can come to share the page:
// a thread that adds a reference to a page holds one already, or is snapshot() or merge, which keep
// handlers out. Therefore "references == 1" is no race. It is read with acquire after the other
// holder's release, which came after that holder had unmapped the page from its range: the reader's
// last load is done before the writer's first store.
//
// ---- Why the cut is consistent
//
// snapshot() closes a gate, protects all slots, notes their pages, and opens it. A fault handler
// passes the gate before it does anything, and close() returns when none is inside. mprotect() is
// not one moment: it changes one page-table entry after the other, and other cores go on using
// their TLBs until it has interrupted them. So at some time a store to page 1 may already fault
// while a store to page 2 still goes through. Let a store be *in* if it went to a page that the
// snapshot shows, *out* if it did not. Claim: if a store is in, and another one happened before it
// (by program order, or because some thread had seen it), then that one is in, too. Proof:
//
//   1. An out-store has faulted. Until its slot was protected and all TLBs flushed, any store went
//      through to the very page that the snapshot shows, hence was in. (That the snapshot shows the
//      page which was in the slot then is because no slot changes its page behind a closed gate,
//      but by apply(), for which snapshot() waits.)
//   2. So its thread waited at the gate, or came when it was open again; the store took place after
//      open(), for its handler must first make the slot writable.
//   3. An in-store took place before open(): when mprotect() has returned, the page is in nobody's
//      TLB as writable, and stays so for as long as the snapshot has it, for a slot becomes
//      writable only with a page of which nobody else has a reference. Nor can such a store be
//      under way: a core that is interrupted to flush its TLB has completed its stores, the
//      non-temporal ones included; and on its own core snapshot() issues a fence.
//   4. By 2 and 3 all in-stores precede all out-stores in real time, and what happens before
//      something cannot come after it. So nothing out happened before something in.
//
// In particular the stores of one thread are cut at one place of its program, and a thread that has
// returned from snapshot() finds nothing in it that was stored later. A handler that was inside
// when close() was called finishes its copy first: then the slot is own, is protected with the
// others, and its store faults again and is out. Transactions are unknown here: a cut between two
// stores of one is consistent in the sense above.
//
// The other half: no thread of the table itself sees a store and then its absence. When a slot's
// page is replaced, mmap() returns after the old page has been taken out of all TLBs, and only then
// does the handler let the writer store to the new one. Before that, both pages hold the same.
// Handlers for one slot exclude each other by a stripe; a second one finds the slot own, and
// retries.
//
// ---- Resources that can run out
//
// Mappings. Copies come from anywhere in the pool, so in the worst case each slot is a mapping of
// its own. That many are claimed when the table is opened (guarantee_mappings): afterwards no write
// fault can be refused for them. A snapshot claims its mappings before anything is done. Pages.
// With guarantee_copies snapshot() first reserves as many pages as there will be read-only slots. A
// copy takes one of these pages and leaves one slot less of this kind, so that there are always
// enough (one that the system would not map is put back). Otherwise a write that finds the pool
// empty follows the policy, and its slot is as it was.
//
// Memory and fork. The table's own slots are not inherited (MADV_DONTFORK), because a child's
// stores to them would reach the parent's table; it gets a message. Snapshots are inherited, and a
// fork is cheap: no page table of shared memory is duplicated. Snapshot::keep_while() counts
// references for the child. A child that destroys its copy of these objects changes nothing.
//
// Costs of a table of 1 GiB on huge pages: snapshot() 0.1 to 0.2 ms, of which the protection, for
// which writers wait, is 30 us; a first write 240 us, of which copying 2 MiB is 190 (copy_page.h);
// the end of the last snapshot, with the lifting of all protection, 40 us; a fork of the process
// 0.2 ms. Small pages cost more than they save: with pages of 64 KiB snapshot() takes 20 ms for the
// same table and a first write 32 us, with pages of 4 KiB (of which a table has 200 MiB at most,
// for want of mappings) a first write takes 15 us.
//
// A note for race detection: the thread sanitizer's atomic stores hold a lock of the sanitizer, and
// the handler, in the same thread, would wait for it. Under it, store to a table through code that
// is not instrumented.
//
// Fault path: make_writable() and what it calls. Allocates nothing; its locks are semaphores that
// are never held while anything here faults or waits for user code.

#include "memory/rewire/table_core.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "base/bits.h"
#include "base/check.h"
#include "memory/rewire/copy_page.h"
#include "memory/rewire/snapshot.h"
#include "memory/rewire/snapshot_image.h"
#include "memory/stream/recovery.h"
#include "os/memory.h"

namespace penstock::rewire {

// ---- pages for copies

CopyReserve::CopyReserve(pool::PageStore& store, uint64_t pages_max)
    : store_(store), pages_max_(pages_max), pages_(std::make_unique<PageId[]>(pages_max)) {}

CopyReserve::~CopyReserve() {
  shrink(0);
}

// Takes pages without the lock, because the store may have to find memory for them; if pages are
// put back meanwhile, the surplus is released.
bool CopyReserve::fill(uint64_t pages) noexcept {
  uint64_t added = 0;
  while (const uint64_t missing = missing_to(pages)) {
    const PageRun run = store_.take_run(static_cast<uint32_t>(missing));
    const os::SemaphoreLock lock(mutex_);
    if (run.count == 0) {
      for (; added > 0 && count_ > 0; --added) store_.release({pages_[--count_], 1});
      return false;
    }
    for (PageId page = run.first; page < run.end(); ++page) {
      if (count_ == pages_max_) {
        store_.release({page, 1});
      } else {
        pages_[count_++] = page;
        ++added;
      }
    }
  }
  const os::SemaphoreLock lock(mutex_);
  if (added > 0) std::sort(pages_.get(), pages_.get() + count_, std::greater<>());
  return true;
}

uint64_t CopyReserve::missing_to(uint64_t pages) noexcept {
  const os::SemaphoreLock lock(mutex_);
  return pages > count_ ? pages - count_ : 0;
}

void CopyReserve::shrink(uint64_t pages) noexcept {
  if (store_.is_inherited()) return;  // a thread that held the lock at the fork does not exist here
  const os::SemaphoreLock lock(mutex_);
  while (count_ > pages) store_.release({pages_[--count_], 1});
}

PageId CopyReserve::take() noexcept {
  const os::SemaphoreLock lock(mutex_);
  return count_ == 0 ? no_page : pages_[--count_];
}

void CopyReserve::put_back(PageId page) noexcept {
  const os::SemaphoreLock lock(mutex_);
  if (count_ == pages_max_) return store_.release({page, 1});
  pages_[count_++] = page;
}

// ---- opening and closing

TableCore::TableCore(std::shared_ptr<pool::PageStore> store, const Options& options, uint64_t slots)
    : options_(options), store_(std::move(store)), slots_(slots) {
  for (os::Semaphore& stripe : stripes_) stripe.release();
}

Result<std::shared_ptr<TableCore>> TableCore::open(const std::shared_ptr<pool::PageStore>& store,
                                                   const Options& options) {
  const auto refuse = [&](std::string hint) {
    return failure(ErrorCode::invalid_argument, "open a table", options.name, std::move(hint));
  };
  if (options.bytes == 0) return refuse("bytes: 1 or more");
  if (options.bytes > uint64_t{store->pages_max()} * store->page_bytes())
    return refuse(fmt::format("bytes: {} at most, which is the pool's limit",
                              uint64_t{store->pages_max()} * store->page_bytes()));
  if (options.policy == ErrorPolicy::zeros) return refuse("policy: stop or recover");

  const uint64_t slots = ceil_div(options.bytes, store->page_bytes());
  std::shared_ptr<TableCore> core(new TableCore(store, options, slots));
  if (Status status = core->check_owned("open a table"); !status)
    return std::unexpected(std::move(status.error()));
  auto live = Range::reserve(store, slots);
  if (!live) return std::unexpected(std::move(live.error()));
  core->live_ = std::move(*live);
  core->begin_ = core->live_->begin();
  if (const int error = core->live_->guarantee_mappings())
    return core->live_->mapping_error(
        error,
        fmt::format(
            "open a table of {} pages of {} bytes, of which each can come to need a mapping", slots,
            store->page_bytes()),
        options.name);
  if (Status status = core->fill(); !status) return std::unexpected(std::move(status.error()));

  if (options.detection == WriteDetection::asynchronous) {
    auto image = TableImage::open(*core->live_, options.name);
    if (!image) return std::unexpected(std::move(image.error()));
    core->image_ = std::move(*image);
  }
  if (options.guarantee_copies && !core->image_)
    core->reserve_ = std::make_unique<CopyReserve>(*store, slots);
  if (Status status = core->watch(core->begin_, core->live_->bytes()); !status)
    return std::unexpected(std::move(status.error()));
  return core;
}

Status TableCore::fill() {
  std::vector<PageId> pages;
  pages.reserve(slots_);
  while (pages.size() < slots_) {
    const PageRun run = store_->take_run(static_cast<uint32_t>(slots_ - pages.size()));
    if (run.count == 0) break;
    for (PageId page = run.first; page < run.end(); ++page) pages.push_back(page);
  }
  int error = 0;
  const bool all = pages.size() == slots_;
  if (all) error = show(0, pages, Protection::read_write);
  store_->release(pages);
  if (!all)
    return failure(ErrorCode::out_of_memory,
                   fmt::format("take {} pages of {} bytes, of which {} are free", slots_,
                               page_bytes(), store_->pages_free()),
                   options_.name, "a larger pool, or a smaller table");
  if (error != 0) return system_error(error, fmt::format("map {} pages", slots_), options_.name);
  std::memset(begin_, 0, bytes());
  return {};
}

void TableCore::close() {
  stop_watching();
  if (store_->is_inherited())
    return;  // a thread that held the lock at the fork does not exist
             // here
  MutexLock lock(mutex_);
  image_.reset();
  live_.reset();
  reserve_.reset();
}

TableCore::~TableCore() {
  if (live_) close();
}

Status TableCore::check_owned(const char* attempted) const {
  if (!store_->is_inherited()) return {};
  return failure(ErrorCode::unsupported, attempted, options_.name,
                 "a forked child can read snapshots, and nothing else");
}

int TableCore::show(uint64_t slot, std::span<const PageId> pages, Protection access) noexcept {
  const int error = live_->map(slot, pages, access, access == Protection::read_write);
  // If the system refuses, a child sees pages that it must not write.
  if (error == 0) (void)os::exclude_from_fork(live_->address(slot), pages.size() * page_bytes());
  return error;
}

// ---- serving a write

// Fault path.
fault::Outcome TableCore::on_fault(const fault::Fault& fault) noexcept {
  // All slots show a readable page: a read that faults is not this handler's to mend.
  if (fault.access != fault::Access::write) return fault::Outcome::decline;
  const uint64_t slot = live_->slot_of(fault.address);
  const auto touched = static_cast<size_t>(fault.address - live_->address(slot));
  const Served served = make_writable(slot, touched);
  if (served.verdict != Served::writable) give_up(refusal_of(served, slot), fault.context);
  return fault::Outcome::retry;
}

TableCore::Served TableCore::make_writable(uint64_t slot, size_t touched) noexcept {
  const Gate::Visit visit(gate_);
  if (visit.has_waited()) writes_waited_.fetch_add(1, std::memory_order_relaxed);
  const os::SemaphoreLock lock(stripe_of(slot));
  if (live_->access(slot) == Protection::read_write) return {};
  const PageId page = live_->page(slot);
  if (store_->references(page) != 1) return copy_apart(slot, page, touched);
  if (const int error = live_->protect(slot, 1, Protection::read_write))
    return {Served::unmapped, error};
  pages_unshared_.fetch_add(1, std::memory_order_relaxed);
  return {};
}

TableCore::Served TableCore::copy_apart(uint64_t slot, PageId shared, size_t touched) noexcept {
  // A page right behind its neighbour's needs no mapping of its own.
  const PageId own = take_page(slot > 0 ? live_->page(slot - 1) : no_page);
  if (own == no_page) return {Served::pool_empty};
  copy_page(store_->home(own), store_->home(shared), page_bytes(), touched);
  if (const int error = show(slot, {&own, 1}, Protection::read_write)) {
    // The slot is still read-only, and still needs its reserved page.
    reserve_ ? reserve_->put_back(own) : store_->release({own, 1});
    return {Served::unmapped, error};
  }
  store_->release({own, 1});  // the slot has its own reference
  pages_copied_.fetch_add(1, std::memory_order_relaxed);
  return {};
}

PageId TableCore::take_page(PageId after) noexcept {
  if (reserve_) {
    const PageId page = reserve_->take();
    PENSTOCK_CHECK(page != no_page, "fewer pages were put aside than there are read-only slots");
    return page;
  }
  return store_->take_run(1, after).first;
}

stream::WrittenFailure TableCore::refusal_of(const Served& served, uint64_t slot) const noexcept {
  const auto number = [](uint64_t value) { return static_cast<unsigned long long>(value); };
  stream::WrittenFailure failure(options_.name.c_str());
  failure.system_errno = served.error;
  if (served.verdict == Served::pool_empty) {
    failure.write(ErrorCode::out_of_memory,
                  "write page %llu: a snapshot or an equal page needs the old contents, and none "
                  "of the pool's %llu pages is free (try guarantee_copies, or a larger pool)",
                  number(slot), number(store_->pages_max()));
  } else {
    failure.write(code_of_mapping(served.error),
                  "write page %llu: it cannot be mapped (try larger pages, or a larger "
                  "vm.max_map_count)",
                  number(slot));
  }
  return failure;
}

Result<size_t> TableCore::prepare(std::byte* address, size_t bytes, fault::Access access) {
  const uint64_t slot = live_->slot_of(address);
  std::byte* const slot_end = live_->address(slot) + page_bytes();
  const size_t ready = std::min<size_t>(bytes, static_cast<size_t>(slot_end - address));
  if (access == fault::Access::read) return ready;
  const Served served = make_writable(slot, static_cast<size_t>(address - live_->address(slot)));
  if (served.verdict == Served::writable) return ready;
  return std::unexpected(refusal_of(served, slot).error());
}

Status TableCore::prepare_write(void* address, size_t bytes) const {
  auto* at = static_cast<std::byte*>(address);
  if (Status status = check_owned("prepare memory of a table"); !status) return status;
  if (bytes == 0) return {};
  if (!live_->contains(address) || bytes > static_cast<size_t>(live_->end() - at))
    return failure(ErrorCode::invalid_argument, "prepare memory of a table", options_.name,
                   "a piece of its pointer");
  while (bytes > 0) {
    const Result<size_t> ready =
        const_cast<TableCore*>(this)->prepare(at, bytes, fault::Access::write);
    if (!ready) return std::unexpected(ready.error());
    at += *ready;
    bytes -= *ready;
  }
  return {};
}

// ---- taking a snapshot

Result<std::shared_ptr<SnapshotCore>> TableCore::take_snapshot(bool published) {
  if (Status status = check_owned("take a snapshot"); !status)
    return std::unexpected(std::move(status.error()));
  MutexLock lock(mutex_);
  auto range = Range::reserve(store_, slots_);
  if (!range) return std::unexpected(std::move(range.error()));
  std::vector<PageId> pages(slots_);
  if (Status status = freeze(pages); !status) {
    if (alive_ == 0) lift_protection();
    return std::unexpected(std::move(status.error()));
  }

  // Writers go on from here: freeze()'s references hold the pages that they replace. The kernel
  // fills the page table when it is read.
  const int error = (*range)->map(0, pages, Protection::read, false);
  store_->release(pages);
  Status status;
  if (error != 0)
    status = (*range)->mapping_error(
        error, fmt::format("map a snapshot of a table in {} pieces", live_->mappings()),
        options_.name, "fewer snapshots at a time, larger pages, or a larger vm.max_map_count");
  Result<std::shared_ptr<SnapshotCore>> core = nullptr;
  if (status) core = SnapshotCore::open(shared_from_this(), std::move(*range), epoch_ + 1);
  if (!status || !core) {
    range->reset();
    if (alive_ == 0) lift_protection();
    return std::unexpected(status ? std::move(core.error()) : std::move(status.error()));
  }
  ++alive_;
  (*core)->count();
  if (published) {
    ++epoch_;
    latest_ = *core;
  }
  return core;
}

// Returns the pages that the table shows at one moment, with a reference on each.
Status TableCore::freeze(std::span<PageId> pages) {
  return image_ ? freeze_image(pages) : freeze_by_signal(pages);
}

Status TableCore::freeze_by_signal(std::span<PageId> pages) {
  // Reserve before the gate closes, because the system may have to find memory. Pages that handlers
  // take meanwhile are replaced below.
  if (Status status = reserve_copies(); !status) return status;
  const Gate::Closing closing(gate_);
  if (Status status = reserve_copies(); !status) return status;
  if (Status status = make_read_only(); !status) return status;
  live_->pages(0, pages);
  store_->retain(pages);
  return {};
}

Status TableCore::make_read_only() {
  // Non-temporal stores of this thread wait in buffers that its system calls need not empty.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  void (*const pause)() = pause_in_cut_.load(std::memory_order_relaxed);
  const uint64_t step = pause == nullptr ? slots_ : 1;
  for (uint64_t slot = 0; slot < slots_; slot += step) {
    if (const int error = live_->protect(slot, step, Protection::read))
      return system_error(error, "make a table read-only", options_.name);
    if (pause != nullptr) pause();
  }
  return {};
}

Status TableCore::reserve_copies() {
  if (!reserve_ || reserve_->fill(slots_)) return {};
  return failure(
      ErrorCode::out_of_memory,
      fmt::format("put {} pages aside for copies: {} are free", slots_, store_->pages_free()),
      options_.name, "a larger pool, or no guarantee_copies");
}

// Copies what was written since the last snapshot into the image twice: first while writers go on,
// which is most of it, and then the little that they wrote meanwhile, with the gate closed and the
// table read-only. Writers wait for the second part.
Status TableCore::freeze_image(std::span<PageId> pages) {
  if (Status status = image_->update(); !status) return status;
  const Gate::Closing closing(gate_);
  if (Status status = make_read_only(); !status) return status;
  const Status status = image_->update();
  // If that fails, the slots are left, and the next write to each lifts its protection.
  (void)live_->protect(0, slots_, Protection::read_write);
  if (!status) return status;
  std::copy(image_->pages().begin(), image_->pages().end(), pages.begin());
  store_->retain(pages);
  return {};
}

std::shared_ptr<SnapshotCore> TableCore::latest() const {
  if (store_->is_inherited())
    return nullptr;  // a thread that held the lock at the fork does not
                     // exist here
  MutexLock lock(mutex_);
  return latest_.lock();
}

// ---- the end of a snapshot

void TableCore::snapshot_ended() noexcept {
  if (store_->is_inherited()) return;  // a thread that held a lock at the fork does not exist here
  MutexLock lock(mutex_);
  if (--alive_ == 0 && live_) lift_protection();
}

// Makes all slots writable whose pages nobody else shows: in one call if there are no equal pages.
// (If other snapshots stay, each slot waits for its next write.)
void TableCore::lift_protection() noexcept {
  if (image_) return;
  const Gate::Closing closing(gate_);
  uint64_t shared = 0;
  for (uint64_t slot = 0; slot < slots_;) {
    const auto is_own = [&](uint64_t at) { return store_->references(live_->page(at)) == 1; };
    const uint64_t first = slot;
    bool is_read_only = false;
    while (slot < slots_ && is_own(slot))
      is_read_only |= live_->access(slot++) != Protection::read_write;
    // Slots that the system refuses stay left; a write lifts them.
    if (is_read_only && live_->protect(first, slot - first, Protection::read_write) != 0)
      shared += slot - first;
    for (; slot < slots_ && !is_own(slot); ++slot) ++shared;
  }
  if (reserve_) reserve_->shrink(shared);
}

// ---- applying changes

TableCore::Applied TableCore::apply(std::span<const Change> changes) {
  if (Status status = check_owned("apply changes"); !status) return {0, std::move(status)};
  MutexLock lock(mutex_);
  std::vector<PageId> pages;
  const Gate::Closing closing(gate_);
  for (const Change& change : changes) {
    if (change.expected == no_page || live_->page(change.slot) == change.expected) continue;
    return {0, failure(ErrorCode::cancelled,
                       fmt::format("apply {} changed pages: page {} was written since the "
                                   "snapshot that they began with",
                                   changes.size(), change.slot),
                       options_.name, "make the changes again, or apply_anyway()")};
  }
  for (size_t done = 0; done < changes.size();) {
    const uint64_t slot = changes[done].slot;
    pages.clear();
    for (size_t i = done; i < changes.size() && changes[i].slot == slot + pages.size(); ++i)
      pages.push_back(changes[i].page);
    const int error = show(slot, pages, Protection::read_write);
    // The system may have refused in the middle; only this call can have shown these pages.
    size_t shown = error == 0 ? pages.size() : 0;
    while (shown < pages.size() && live_->page(slot + shown) == pages[shown]) ++shown;
    store_->release(std::span(pages).first(shown));
    done += shown;
    if (error != 0)
      return {done,
              live_->mapping_error(error, fmt::format("map {} changed pages", pages.size() - shown),
                                   options_.name)};
  }
  return {changes.size(), {}};
}

RewiredTable::Counts TableCore::counts() const {
  RewiredTable::Counts counts;
  counts.pages_copied =
      image_ ? image_->pages_copied() : pages_copied_.load(std::memory_order_relaxed);
  counts.pages_unshared = pages_unshared_.load(std::memory_order_relaxed);
  counts.writes_waited = writes_waited_.load(std::memory_order_relaxed);
  counts.snapshots = alive_;
  for (uint64_t slot = 0; slot < slots_; ++slot)
    counts.pages_read_only += live_->access(slot) == Protection::read;
  return counts;
}

}  // namespace penstock::rewire
