#pragma once

// Addresses in slots of a page each, and the page that each slot shows. See range.cc for how
// mappings are counted, and what a reader sees meanwhile.
//
// Functions that return int return 0 or an errno. ENOMEM: out of mappings, of the store's (claimed
// before anything changes) or the kernel's; EPERM: in a forked child, which must not rewire (the
// counts of pages would not see it).

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "memory/pool/page_store.h"
#include "os/memory.h"
#include "os/semaphore.h"
#include "penstock/base.h"

namespace penstock::rewire {

using penstock::no_page;
using penstock::PageId;
using penstock::PageRun;

// Returns the code of an errno of a failed mapping of pages: ENOMEM means out of mappings.
ErrorCode code_of_mapping(int error);

// Thread safety: all members, from any thread and on the fault path; nothing allocates but
// reserve(). The range's one lock is held across system calls, never across anything that can
// fault; the store's lock is taken inside of it. page(), access() and mappings() take none. Loads
// and stores through mapped slots need nothing. Invariants: a slot holds one reference on the page
// that it shows. mappings() is the number of mappings that the kernel needs for the range: its
// maximal pieces of slots that show neighbours with the same access, and of slots that show
// nothing; that many are claimed from the store.
class Range {
 public:
  // REQUIRES: slots > 0. Errors: address space; out_of_mappings.
  static Result<std::unique_ptr<Range>> reserve(std::shared_ptr<pool::PageStore> store,
                                                uint64_t slots);
  // Drops all slots' references. REQUIRES: nobody uses the addresses any more.
  ~Range();

  // Claims the most mappings that the range can need: from then on no change of it is refused for
  // want of them. ENOMEM: the store has not that many left.
  [[nodiscard]] int guarantee_mappings() noexcept;

  std::byte* begin() const { return range_.begin(); }
  std::byte* end() const { return range_.begin() + slots_ * page_bytes_; }
  uint64_t slots() const { return slots_; }
  uint64_t bytes() const { return slots_ * page_bytes_; }
  size_t page_bytes() const { return page_bytes_; }
  std::byte* address(uint64_t slot) const { return range_.begin() + slot * page_bytes_; }
  uint64_t slot_of(const void* address) const {
    return static_cast<uint64_t>(static_cast<const std::byte*>(address) - range_.begin()) /
           page_bytes_;
  }
  bool contains(const void* address) const { return address >= begin() && address < end(); }
  pool::PageStore& store() const { return *store_; }
  const std::shared_ptr<pool::PageStore>& shared_store() const { return store_; }

  // REQUIRES of all: the slots exist; someone holds a reference on each page until map() returns.
  // If the kernel refused (rather than the store, when claiming), some slots may have changed;
  // page() shows which.

  // Shows the pages in the slots from `slot` on, in place of what was there. For a reader each slot
  // changes in one moment. With `populate` they are entered into the page table at once, so that no
  // access faults.
  [[nodiscard]] int map(uint64_t slot, PageRun run, Protection access,
                        bool populate = true) noexcept;
  // Pages in any order, with repeats; neighbours go in one call, and pages already shown in none.
  // They may be the pages of these slots in another order, without another reference.
  [[nodiscard]] int map(uint64_t slot, std::span<const PageId> pages, Protection access,
                        bool populate = true) noexcept;
  // Shows one page in `count` slots, each `step` behind the one before. REQUIRES: step > 1.
  [[nodiscard]] int map_every(uint64_t slot, uint64_t count, uint64_t step, PageId page,
                              Protection access) noexcept;
  // Shows nothing. An access faults after the return (SIGSEGV).
  [[nodiscard]] int unmap(uint64_t slot, uint64_t count) noexcept;
  // Changes the access; slots that show nothing are skipped.
  [[nodiscard]] int protect(uint64_t slot, uint64_t count, Protection access) noexcept;
  // Exchanges the pages and accesses of [a, a + count) and [b, b + count), including slots that
  // show nothing. Meanwhile both may show the same page. REQUIRES: the two do not overlap.
  [[nodiscard]] int swap(uint64_t a, uint64_t b, uint64_t count) noexcept;
  // Moves the pages and accesses of [from, from + count) to [to, to + count), in place of what was
  // there; the slots left show nothing. Meanwhile both may show the same page. The two may overlap.
  [[nodiscard]] int move(uint64_t from, uint64_t to, uint64_t count) noexcept;
  // Enters the pages into the page table.
  [[nodiscard]] int populate(uint64_t slot, uint64_t count) noexcept;

  // The state at this moment: another thread may change it.
  PageId page(uint64_t slot) const noexcept { return page_of(entry(slot)); }  // no_page: nothing
  Protection access(uint64_t slot) const noexcept { return access_of(entry(slot)); }
  // Returns the longest run of neighbours with the same access from `slot` on, at most `count_max`;
  // count 0 if the slot shows nothing.
  PageRun run_at(uint64_t slot, uint64_t count_max) const noexcept;
  // Copies the pages of the slots from `slot` on, all at one moment. REQUIRES: the slots exist.
  void pages(uint64_t slot, std::span<PageId> out) const noexcept;
  // Copies the pages of any slots at one moment, with one reference on each for the caller. ENOENT,
  // and no reference, if one of the slots shows nothing or does not exist.
  [[nodiscard]] int share(std::span<const uint64_t> slots, std::span<PageId> out) const noexcept;
  uint64_t mappings() const noexcept { return mappings_.load(std::memory_order_relaxed); }
  // The error of a failed mapping, with the number of mappings in use if they have run out.
  std::unexpected<Error> mapping_error(
      int error, const std::string& attempted, const std::string& subject,
      const char* hint = "larger pages, or a larger vm.max_map_count") const;

 private:
  // A slot's page: 0 for nothing; else the page in the low 30 bits, and 1 + its access in the high
  // 2 bits. So the entries of neighbours with the same access are neighbours, too.
  using Entry = uint32_t;
  static constexpr uint32_t page_bits = 30;
  static Entry entry_of(PageId page, Protection access) noexcept {
    return (static_cast<uint32_t>(access) + 1) << page_bits | page;
  }
  static PageId page_of(Entry entry) noexcept {
    return entry == 0 ? no_page : entry & ((uint32_t{1} << page_bits) - 1);
  }
  static Protection access_of(Entry entry) noexcept {
    return entry == 0 ? Protection::none : static_cast<Protection>((entry >> page_bits) - 1);
  }
  // Whether two neighbouring slots are in one mapping.
  static bool continues(Entry left, Entry right) noexcept {
    return left == 0 ? right == 0 : right == left + 1;
  }
  class Change;

  Range(std::shared_ptr<pool::PageStore> store, uint64_t slots);

  std::atomic<Entry>& cell(uint64_t slot) const noexcept { return table_[slot]; }
  // acquire, the partner of replace(): a thread that sees a page in a slot finds it mapped there.
  Entry entry(uint64_t slot) const noexcept { return cell(slot).load(std::memory_order_acquire); }

  void require(uint64_t slot, uint64_t count) const noexcept;
  uint64_t piece_at(uint64_t slot, uint64_t count_max) const noexcept;
  uint64_t piece_before(uint64_t end, uint64_t count_max) const noexcept;
  uint64_t seams(uint64_t first, uint64_t last) const noexcept;
  uint64_t seams_around(uint64_t slot, uint64_t count, Entry first) const noexcept;

  // No lock in a forked child: it changes nothing, and lacks a thread that held it at the fork.
  os::SemaphoreLock locked() const noexcept {
    return os::SemaphoreLock(store_->is_inherited() ? nullptr : &mutex_);
  }
  // REQUIRES of the following: the lock.
  void replace(uint64_t slot, uint64_t count, Entry first) noexcept;
  void set_access(uint64_t slot, uint64_t count, Protection access) noexcept;
  int show(uint64_t slot, PageRun run, Protection access, bool populate) noexcept;
  int show_retained(uint64_t slot, PageRun run, Protection access, bool populate) noexcept;
  int hide(uint64_t slot, uint64_t count) noexcept;
  int show_or_hide(uint64_t slot, uint64_t count, Entry first) noexcept;
  int exchange(uint64_t a, Entry at_a, uint64_t b, Entry at_b, uint64_t length) noexcept;

  const std::shared_ptr<pool::PageStore> store_;
  const size_t page_bytes_;
  const uint64_t slots_;
  os::Reservation range_;
  os::ZeroedTable<std::atomic<Entry>> table_;
  mutable os::Semaphore mutex_{1};     // guards changes of the table, and the following members
  std::atomic<uint64_t> mappings_{0};  // written under the lock only
  uint64_t claimed_ = 0;  // mappings claimed from the store; between changes as many as mappings_
  bool guaranteed_ = false;             // then claimed_ is always slots_
  uint64_t used_begin_ = ~uint64_t{0};  // no slot outside of these ever showed anything
  uint64_t used_end_ = 0;
};

}  // namespace penstock::rewire
