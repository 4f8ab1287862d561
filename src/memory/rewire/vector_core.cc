// How an array grows without moving, and moves without copying.
//
// A plain vector allocates twice the memory when it is full, and copies: every element is copied
// once on average, the system finds and clears twice the pages, and for a moment three times the
// data's memory is held. mremap() saves the copy, but the pages still come from the system, one
// hard fault each, and a pool is of no use. A directory of blocks uses pooled memory, but then
// there is no array any more, only a lookup for each element.
//
// The paper maps the pages of the old array into the first half of a new range of twice the length.
// Address space costs nothing, so here the range has the vector's greatest length from the
// beginning; to grow, pages are taken from the pool and mapped behind the last one, in one call if
// they are neighbours, and entered into the page table at once (MAP_POPULATE). Existing pages are
// untouched, so pointers to them stay valid.
//
// Populating against faulting, for pool pages that have memory, until all of them were touched: in
// runs of 2 MiB and more, a page of 4 KiB takes 0.2 us when it is entered with the mapping and 1 to
// 2 us when it faults; a page of 2 MiB 1.3 us against 1.7. A run of one page takes 4 us either way.
// So all mapping uses MAP_POPULATE, even ahead of use. Only with pages of 2 MiB does its cost
// vanish beside the filling, which takes 0.2 us for 4 KiB, too.
//
// The append window. A loop needs only a pointer to end(), if memory appears at its stores. The
// first store behind the last page faults, and the handler grows the vector as push_back would, a
// batch at a time. A batch begins with 2 MiB and doubles up to 32 MiB, which are mapped in 25 us,
// the fault included, and filled in 1.3 ms. Several threads may fault at once; the first one maps,
// the others find it done.
//
// Moving. If whole pages are inserted, the elements behind keep their place within their pages, and
// only the pages change their slots: a rotation of slots, for which the table is read, rotated and
// mapped again in one call of Range::map(). A page that is cut by the place of the insertion is
// needed twice; its smaller part is copied. Erasing is the inverse. Both keep the capacity: a gap's
// pages come from the end, and return there.
//
//   insert 2 pages at x:    [A][B x C][D][E]           before, o bytes of the second page before x
//                           [A][B - -][- - C][D][E]... C copied to the end of the gap's last page;
//                           or, where B is the smaller, B to the gap's first one, which then
//                           precedes the old page
//
// All or nothing. Range::map() claims mappings before it changes anything; the kernel could still
// refuse, if code outside of the store's ranges has used up its mappings. Then the slots that were
// changed are shown as before, and a move between two vectors claims beforehand what its undo would
// need; if even that is refused, the program stops, because data would be lost. Before that, every
// move of pages falls back on copying.
//
// References. A permutation drops a slot's reference on a page before another slot has taken one;
// Holding keeps all pages meanwhile.
//
// Costs: growing, one call per run of pages; insert and erase by pages, one call per run behind the
// place, so that a badly fragmented table is left to memmove (pays()).

#include "memory/rewire/vector_core.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "base/bits.h"
#include "base/check.h"
#include "memory/stream/recovery.h"
#include "penstock/base.h"

namespace penstock::rewire {
namespace {

constexpr uint64_t window_bytes_first = 2 * MiB;
constexpr uint64_t window_bytes_max = 32 * MiB;
// Bytes that are copied in the time that mapping a run of pages takes.
constexpr uint64_t copied_per_run_bytes = 32 * KiB;
// Fewer bytes are copied without counting runs.
constexpr uint64_t rewired_bytes_min = 128 * KiB;

constexpr const char* out_of_mappings_midway =
    "the process ran out of mappings in the middle of a move (vm.max_map_count)";

// Number of runs of neighbours.
uint64_t count_runs(std::span<const PageId> pages) {
  uint64_t runs = 0;
  for (size_t i = 0; i < pages.size(); ++i) runs += i == 0 || pages[i] != pages[i - 1] + 1;
  return runs;
}

}  // namespace

// One more reference on each of some pages, for the lifetime of this object.
class VectorCore::Holding {
 public:
  Holding(pool::PageStore& store, std::span<const PageId> pages) noexcept
      : store_(store), pages_(pages) {
    store_.retain(pages_);
  }
  ~Holding() { store_.release(pages_); }
  Holding(const Holding&) = delete;
  Holding& operator=(const Holding&) = delete;

 private:
  pool::PageStore& store_;
  const std::span<const PageId> pages_;
};

// Mappings reserved for an undo: nobody else may claim them until they are needed.
class VectorCore::UndoMappings {
 public:
  UndoMappings(pool::PageStore& store, uint64_t mappings) noexcept
      : store_(store), mappings_(store.claim_mappings(mappings) ? mappings : 0) {}
  ~UndoMappings() { release(); }
  UndoMappings(const UndoMappings&) = delete;
  UndoMappings& operator=(const UndoMappings&) = delete;

  explicit operator bool() const { return mappings_ != 0; }
  void release() noexcept { store_.return_mappings(std::exchange(mappings_, 0)); }

 private:
  pool::PageStore& store_;
  uint64_t mappings_;
};

// ---- opening

VectorCore::VectorCore(const Options& options, std::unique_ptr<Range> range)
    : options_(options),
      range_(std::move(range)),
      page_bytes_(range_->page_bytes()),
      slots_(range_->slots() - 1) {}

Result<std::unique_ptr<VectorCore>> VectorCore::open(std::shared_ptr<pool::PageStore> store,
                                                     const Options& options) {
  const auto refuse = [&](std::string hint) {
    return failure(ErrorCode::invalid_argument, "open a vector", options.name, std::move(hint));
  };
  if (options.policy == ErrorPolicy::zeros) return refuse("policy: stop or recover");
  if (options.bytes_max > 128 * TiB) return refuse("bytes_max: at most 128 TiB");
  if (options.growth == VectorGrowth::pages && options.grow_pages == 0)
    return refuse("grow_pages: 1 or more");
  const uint64_t slots = options.bytes_max == 0 ? store->pages_max()
                                                : ceil_div(options.bytes_max, store->page_bytes());
  // One more slot, which never shows anything: a loop that runs past the longest possible end gets
  // a message.
  auto range = Range::reserve(std::move(store), slots + 1);
  if (!range) return std::unexpected(std::move(range.error()));
  std::unique_ptr<VectorCore> core(new VectorCore(options, std::move(*range)));
  if (Status status = core->reserve(options.bytes); !status)
    return std::unexpected(std::move(status.error()));
  return core;
}

// ---- growing and shrinking

uint64_t VectorCore::slots_for(uint64_t bytes) const {
  return bytes / page_bytes_ + (bytes % page_bytes_ != 0 ? 1 : 0);
}

// Maps pages so that at least `slots_min` slots show one, and up to `slots_wanted` if the pool has
// that many; or changes nothing. Fault path. REQUIRES: the lock is held.
VectorCore::Missing VectorCore::extend(uint64_t slots_min, uint64_t slots_wanted) noexcept {
  if (slots_min > slots_) return too_long();
  pool::PageStore& store = range_->store();
  const uint64_t before = mapped_.load(std::memory_order_relaxed);
  const uint64_t wanted = std::min(std::max(slots_min, slots_wanted), slots_);
  uint64_t mapped = before;
  Missing missing = Missing::nothing;
  while (mapped < wanted) {
    const PageRun run = store.take_run(
        static_cast<uint32_t>(std::min<uint64_t>(wanted - mapped, store.pages_max())),
        mapped == 0 ? no_page : range_->page(mapped - 1));
    if (run.count == 0) {
      missing = store.is_inherited() ? Missing::parent : Missing::pages;
      break;
    }
    const int error = range_->map(mapped, run, Protection::read_write);
    store.release(run);  // the slots have their own references
    if (error != 0) {
      missing = missing_of(error);
      break;
    }
    mapped += run.count;
  }
  if (mapped < slots_min && mapped > before &&
      range_->unmap(before, mapped - before) == 0)  // otherwise they stay, as capacity
    mapped = before;
  // Relaxed: the appending thread knows what it has mapped, or takes the lock.
  mapped_.store(mapped, std::memory_order_relaxed);
  return mapped < slots_min ? missing : Missing::nothing;
}

Status VectorCore::grow(uint64_t bytes) {
  const uint64_t slots = slots_for(bytes);
  const os::SemaphoreLock lock = locked();
  const uint64_t mapped = mapped_slots();
  if (slots <= mapped) return {};
  const uint64_t wanted =
      options_.growth == VectorGrowth::doubling
          ? 2 * mapped
          : mapped + ceil_div(slots - mapped, options_.grow_pages) * options_.grow_pages;
  return status_of(extend(slots, wanted), bytes);
}

Status VectorCore::reserve(uint64_t bytes) {
  const uint64_t slots = slots_for(bytes);
  const os::SemaphoreLock lock = locked();
  if (slots <= mapped_slots()) return {};
  return status_of(extend(slots, slots), bytes);
}

// Frees pages behind `bytes`. They stay if the system refuses (mappings), and while the window is
// open, because only its owner knows their contents.
void VectorCore::shrink(uint64_t bytes) noexcept {
  const uint64_t keep = slots_for(bytes);
  const os::SemaphoreLock lock = locked();
  if (is_window_open_) return;
  const uint64_t mapped = mapped_slots();
  if (keep < mapped && range_->unmap(keep, mapped - keep) == 0)
    mapped_.store(keep, std::memory_order_relaxed);
}

Status VectorCore::append_pages(std::span<const PageId> pages) {
  const os::SemaphoreLock lock = locked();
  const uint64_t mapped = mapped_slots();
  const uint64_t bytes = (mapped + pages.size()) * page_bytes_;
  if (pages.size() > slots_ - mapped) return status_of(too_long(), bytes);
  if (pages.empty()) return {};
  if (const int error = show(mapped, pages)) {
    (void)range_->unmap(mapped, pages.size());
    return status_of(missing_of(error), bytes);
  }
  mapped_.store(mapped + pages.size(), std::memory_order_relaxed);
  return {};
}

// ---- the append window

Status VectorCore::open_window() {
  if (!is_watching()) {
    if (Status watched = watch(range_->begin(), range_->bytes()); !watched) return watched;
  }
  fault::unblock_faults();  // the thread that opens the window stores there
  const os::SemaphoreLock lock = locked();
  is_window_open_ = true;
  window_slots_ = std::max<uint64_t>(1, window_bytes_first / page_bytes_);
  return {};
}

Status VectorCore::close_window(uint64_t size) {
  if (size > bytes_max())  // a pointer in front of the vector gives such a number, too
    return failure(ErrorCode::invalid_argument, "end the append window outside of it",
                   options_.name);
  if (Status status = reserve(size); !status) return status;
  const os::SemaphoreLock lock = locked();
  is_window_open_ = false;
  return {};
}

// Maps the next batch for a store to `slot`. Fault path. REQUIRES: the lock is held.
VectorCore::Missing VectorCore::serve(uint64_t slot) noexcept {
  const uint64_t mapped = mapped_slots();
  if (slot < mapped) return Missing::nothing;  // another thread mapped it first
  const uint64_t batch = window_slots_;
  window_slots_ = std::min(2 * batch, std::max<uint64_t>(1, window_bytes_max / page_bytes_));
  return extend(slot + 1, mapped + batch);
}

// Fault path.
fault::Outcome VectorCore::on_fault(const fault::Fault& fault) noexcept {
  const uint64_t slot = range_->slot_of(fault.address);
  Missing missing;
  {
    const os::SemaphoreLock lock = locked();
    if (!is_window_open_) return fault::Outcome::decline;  // beyond the end, without a window
    missing = serve(slot);
  }
  if (missing != Missing::nothing)
    give_up(refusal_of(missing, (slot + 1) * page_bytes_), fault.context);
  return fault::Outcome::retry;
}

Result<size_t> VectorCore::prepare(std::byte* address, size_t bytes, fault::Access) {
  const uint64_t first = range_->slot_of(address);
  const uint64_t last = std::min(range_->slot_of(address + bytes - 1), slots_ - 1);
  const os::SemaphoreLock lock = locked();
  if (is_window_open_ && serve(std::max(first, last)) != Missing::nothing) {
    // Not everything: at least the beginning.
    if (const Missing missing = serve(first); missing != Missing::nothing)
      return std::unexpected(status_of(missing, (first + 1) * page_bytes_).error());
  }
  const auto ready =
      mapped_bytes() - std::min<uint64_t>(mapped_bytes(), static_cast<uint64_t>(address - begin()));
  if (ready == 0)
    return failure(ErrorCode::invalid_argument, "use memory beyond the last page", options_.name,
                   "append_window(), or reserve()");
  return std::min<size_t>(bytes, ready);
}

// ---- missing resources

// Without a bound of its own a vector may be as long as the pool.
VectorCore::Missing VectorCore::too_long() const noexcept {
  return options_.bytes_max == 0 ? Missing::pages : Missing::addresses;
}

VectorCore::Missing VectorCore::missing_of(int error) const noexcept {
  return error == EPERM ? Missing::parent : Missing::mappings;
}

// Fault path.
stream::WrittenFailure VectorCore::refusal_of(Missing missing, uint64_t bytes) const noexcept {
  const pool::PageStore& store = range_->store();
  const auto number = [](auto value) { return static_cast<unsigned long long>(value); };
  stream::WrittenFailure failure(options_.name.c_str());
  switch (missing) {
    case Missing::nothing:
      break;
    case Missing::addresses:
      failure.write(ErrorCode::out_of_memory, "grow to %llu bytes: bytes_max is %llu",
                    number(bytes), number(bytes_max()));
      return failure;
    case Missing::pages:
      failure.write(ErrorCode::out_of_memory,
                    "grow to %llu bytes: %llu of the pool's %llu pages of %llu bytes are free "
                    "(this vector has %llu)",
                    number(bytes), number(store.pages_free()), number(store.pages_max()),
                    number(page_bytes_), number(mapped_slots()));
      return failure;
    case Missing::mappings:
      failure.write(ErrorCode::out_of_mappings,
                    "grow to %llu bytes: %llu of the pool's %llu mappings are in use (try larger "
                    "pages, or a larger vm.max_map_count)",
                    number(bytes), number(store.mappings()), number(store.mappings_max()));
      return failure;
    case Missing::parent:
      failure.write(ErrorCode::unsupported, "grow to %llu bytes in a forked child, which cannot",
                    number(bytes));
      return failure;
  }
  PENSTOCK_CHECK(false, "a vector that had all it needed was refused");
}

Status VectorCore::status_of(Missing missing, uint64_t bytes) const {
  if (missing == Missing::nothing) return {};
  return std::unexpected(refusal_of(missing, bytes).error());
}

// ---- moving by pages

// Whether rewiring the slots [first, last) is faster than copying `bytes`.
bool VectorCore::pays(uint64_t first, uint64_t last, uint64_t bytes) const noexcept {
  if (bytes < rewired_bytes_min) return false;
  uint64_t worth = bytes / copied_per_run_bytes;
  for (uint64_t slot = first; slot < last && worth != 0; --worth)
    slot += range_->run_at(slot, last - slot).count;
  return worth != 0;
}

std::vector<PageId> VectorCore::pages_in(uint64_t first, uint64_t last) const {
  std::vector<PageId> pages;
  pages.reserve(last - first);
  for (uint64_t slot = first; slot < last; ++slot) pages.push_back(range_->page(slot));
  return pages;
}

// Returns 0, or an errno with no change. REQUIRES: someone holds the pages shown there now, too.
int VectorCore::show(uint64_t slot, std::span<const PageId> pages) noexcept {
  return pages.empty() ? 0 : range_->map(slot, pages, Protection::read_write);
}

// Shows the former pages again, unless they still are shown.
void VectorCore::show_again(uint64_t slot, std::span<const PageId> pages) noexcept {
  bool is_there = true;
  for (size_t i = 0; i < pages.size(); ++i) is_there &= range_->page(slot + i) == pages[i];
  if (is_there) return;
  PENSTOCK_CHECK(show(slot, pages) == 0, out_of_mappings_midway);
}

// Rotates slots: [middle, last) come to `first`, and those in front of them behind. False, and
// nothing has changed, for want of mappings or of memory for a list.
bool VectorCore::rotate(uint64_t first, uint64_t middle, uint64_t last) noexcept {
  try {
    const std::vector<PageId> before = pages_in(first, last);
    std::vector<PageId> after(before);
    std::rotate(after.begin(), after.begin() + static_cast<ptrdiff_t>(middle - first), after.end());
    const Holding holding(range_->store(), before);
    if (show(first, after) == 0) return true;
    show_again(first, before);
  } catch (const std::bad_alloc&) {
  }
  return false;
}

Result<uint64_t> VectorCore::open_gap(uint64_t at, uint64_t bytes, uint64_t size) {
  if (bytes > bytes_max() - std::min(size, bytes_max()))
    return std::unexpected(
        status_of(too_long(), bytes > ~size ? ~uint64_t{0} : size + bytes).error());
  if (Status status = grow(size + bytes); !status)
    return std::unexpected(std::move(status.error()));
  const uint64_t first = at / page_bytes_, cut = at % page_bytes_;
  const uint64_t used = slots_for(size), gap = bytes / page_bytes_;
  // The gap's pages are now those at [used, used + gap). The smaller part of the cut page is
  // copied; if that is the front part, the page itself moves with the part behind.
  const bool copies_front = cut <= page_bytes_ / 2;
  const uint64_t from = copies_front ? first : first + 1;
  if (bytes % page_bytes_ == 0 && gap != 0 && from < used && pays(from, used + gap, size - at)) {
    std::byte* const page = range_->address(first);
    uint64_t copied = cut;
    if (copies_front) {
      std::memcpy(range_->address(used), page, copied);
    } else {
      copied = std::min<uint64_t>(page_bytes_, size - first * page_bytes_) - cut;
      std::memcpy(range_->address(used + gap - 1) + cut, page + cut, copied);
    }
    if (rotate(from, used, used + gap)) return copied;
  }
  std::memmove(begin() + at + bytes, begin() + at, size - at);
  return size - at;
}

uint64_t VectorCore::close_gap(uint64_t at, uint64_t bytes, uint64_t size) noexcept {
  const uint64_t end = at + bytes;
  if (bytes == 0 || end == size) return 0;
  const uint64_t first = at / page_bytes_, cut = at % page_bytes_;
  const uint64_t used = slots_for(size), gap = bytes / page_bytes_;
  const bool copies_front = cut <= page_bytes_ / 2;
  const uint64_t from = copies_front ? first : first + 1;
  if (bytes % page_bytes_ == 0 && from + gap < used && pays(from, used, size - end)) {
    // If pages cannot be moved, the bytes written here are erased below.
    std::byte* const page = range_->address(first);
    std::byte* const behind = range_->address(first + gap);
    uint64_t copied = cut;
    if (copies_front) {
      std::memcpy(behind, page, copied);
    } else {
      copied = std::min<uint64_t>(page_bytes_, size - (first + gap) * page_bytes_) - cut;
      std::memcpy(page + cut, behind + cut, copied);
    }
    if (rotate(from, from + gap, used)) return copied;
  }
  std::memmove(begin() + at, begin() + end, size - end);
  return size - end;
}

// ---- from vector to vector

// Moves whole pages over, and closes the gap. False: nothing has changed, and the caller must copy.
Result<bool> VectorCore::transplant(uint64_t at, uint64_t size, VectorCore& other, uint64_t first,
                                    uint64_t bytes, uint64_t other_size) try {
  const uint64_t to = at / page_bytes_, from = first / page_bytes_;
  const uint64_t count = slots_for(bytes);
  const uint64_t used = slots_for(size), other_used = slots_for(other_size);
  if (count > slots_ - used) return std::unexpected(status_of(too_long(), size + bytes).error());
  const std::vector<PageId> moved = other.pages_in(from, from + count);
  const std::vector<PageId> follow = other.pages_in(from + count, other_used);
  // The slots overwritten behind `used` show unused pages, which return to the pool.
  const uint64_t end = std::max(mapped_slots(), used + count);
  const std::vector<PageId> before = pages_in(to, std::min(mapped_slots(), used + count));
  std::vector<PageId> after(moved);
  after.insert(after.end(), before.begin(), before.begin() + static_cast<ptrdiff_t>(used - to));

  pool::PageStore& store = range_->store();
  const Holding hold_moved(store, moved), hold_before(store, before), hold_follow(store, follow);
  UndoMappings undo_mappings(store,
                             2 * (count_runs(after) + count_runs(before) + count_runs(follow)) + 4);
  if (!undo_mappings) return false;
  const auto undo = [&]() noexcept {
    undo_mappings.release();
    other.show_again(from, moved);
    other.show_again(from + count, follow);
    show_again(to, before);
    const uint64_t known = to + before.size();
    PENSTOCK_CHECK(range_->unmap(known, used + count - known) == 0, out_of_mappings_midway);
  };
  if (show(to, after) != 0 || other.show(from, follow) != 0) {
    undo();
    return false;
  }
  undo_mappings.release();
  mapped_.store(end, std::memory_order_relaxed);
  // Only the end of a range is left, at which no mapping is split.
  const uint64_t kept = from + follow.size();
  PENSTOCK_CHECK(other.range_->unmap(kept, other.mapped_slots() - kept) == 0,
                 out_of_mappings_midway);
  other.mapped_.store(kept, std::memory_order_relaxed);
  return true;
} catch (const std::bad_alloc&) {  // the lists did not fit, and nothing has changed
  return false;
}

// Exchanges the pages of two vectors' slots.
bool VectorCore::exchange(uint64_t slot, VectorCore& other, uint64_t other_slot,
                          uint64_t count) noexcept {
  try {
    const std::vector<PageId> ours = pages_in(slot, slot + count);
    const std::vector<PageId> theirs = other.pages_in(other_slot, other_slot + count);
    const Holding hold_ours(range_->store(), ours), hold_theirs(range_->store(), theirs);
    UndoMappings undo_mappings(range_->store(), 2 * (count_runs(ours) + count_runs(theirs)) + 4);
    if (!undo_mappings) return false;
    if (show(slot, theirs) == 0 && other.show(other_slot, ours) == 0) return true;
    undo_mappings.release();
    show_again(slot, ours);
    other.show_again(other_slot, theirs);
  } catch (const std::bad_alloc&) {
  }
  return false;
}

Result<Spliced> VectorCore::splice(uint64_t at, uint64_t size, VectorCore& other, uint64_t first,
                                   uint64_t bytes, uint64_t other_size) {
  if (this == &other)
    return failure(ErrorCode::invalid_argument, "splice a vector into itself", options_.name,
                   "std::rotate");
  if (bytes == 0) return Spliced{};
  const uint64_t cut = at % page_bytes_;
  const bool is_alike = store() == other.store() && cut == first % page_bytes_;
  const bool fills_pages = bytes % page_bytes_ == 0 || (at == size && first + bytes == other_size);
  if (is_alike && cut == 0 && fills_pages) {
    auto done = transplant(at, size, other, first, bytes, other_size);
    if (!done) return std::unexpected(std::move(done.error()));
    if (*done) return Spliced{.pages_moved = slots_for(bytes)};
  }

  const auto opened = open_gap(at, bytes, size);
  if (!opened) return std::unexpected(opened.error());
  // The whole pages within.
  const uint64_t skipped = cut == 0 ? 0 : page_bytes_ - cut;
  const uint64_t pages = is_alike && bytes > skipped ? (bytes - skipped) / page_bytes_ : 0;
  Spliced spliced{.copied_bytes = *opened};
  std::byte* const to = begin() + at;
  const std::byte* const from = other.begin() + first;
  if (pages != 0 && pays(slots_for(at), slots_for(at) + pages, pages * page_bytes_) &&
      exchange(slots_for(at), other, other.slots_for(first), pages)) {
    spliced.pages_moved = pages;
    const uint64_t done = skipped + pages * page_bytes_;
    std::memcpy(to, from, skipped);
    std::memcpy(to + done, from + done, bytes - done);
  } else {
    std::memcpy(to, from, bytes);
  }
  spliced.copied_bytes += bytes - spliced.pages_moved * page_bytes_;
  spliced.copied_bytes += other.close_gap(first, bytes, other_size);
  return spliced;
}

}  // namespace penstock::rewire
