// How many mappings a range takes, and how running out of them is an error before anything changes.
//
// The kernel keeps a mapping (vm_area_struct) for every piece of a range that is not one piece of
// one file with one protection, and refuses at 65530 of them. With pages of 4 KiB and no order that
// is 256 MiB. A plain mmap() for each page would be refused in the middle of an operation: half of
// the slots show the new pages and half the old, and undoing may need mappings, too. Worse, any
// other mmap() of the process, an allocator's or a thread's stack, fails from then on.
//
// So the table of slots is arranged to predict what the kernel does. A slot's entry is its page's
// number with its access above it, or 0. Two neighbouring slots are in one mapping if and only if
// both show nothing (they are one piece of the reservation) or the right entry is the left one plus
// 1 (the same access, and neighbours in the file). A place where that does not hold is a seam, and
//
//   mappings() = 1 + seams within the range.
//
// A gap counts as a mapping, too. The kernel merges a new mapping with both neighbours if it can,
// so the number is exact; the tests compare it with /proc/self/maps.
//
// An operation first computes how many mappings there will be at the worst moment on its way,
// claims the missing ones from the store, then makes its system calls, and returns unused ones in
// the end:
//
//   map, unmap   one call: the number afterwards. With pages in any order: the largest number of
//                seams that "the new pieces so far, and then the old ones" has
//   protect      the sum over its stretches of what each may add
//   swap         6 more than now: it exchanges two stretches at a time that are one piece each, and
//                at both places there may be a seam in front of all, in front of the present
//                stretch and, half-way, behind it
//   move         the seams within what is moved, once more, and 4: the old place is given up in one
//                call when all is at the new one, rather than in one for each piece
//
// mappings() itself is kept by replace(), from the entries that change and their two outer
// neighbours, after each system call; so it is right whatever was refused. A table that must not
// fail in a fault claims the worst case once and for all: guarantee_mappings().
//
// Readers. mmap(MAP_FIXED) over an old mapping replaces it under the kernel's lock of the address
// space: a thread that touches a slot meanwhile reads the old page, or waits in a page fault that
// then finds the new one; never a hole. When the call returns, no core reads or writes the old page
// any more (the kernel has interrupted those that might); only then the slot drops its reference on
// it, and another owner may get it. A swap or a move makes two calls for each stretch, between
// which the page is visible at both places.
//
// Costs. A call takes about 2 us, or 30 while other cores are busy in the same process and
// something was mapped there, because they must be interrupted. With `populate` 2 MiB cost 12 us as
// a huge page, 60 as small ones; without, the same and a page fault later. The table is read once
// per slot.

#include "memory/rewire/range.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/bits.h"
#include "base/check.h"
#include "penstock/base.h"

namespace penstock::rewire {

// One change of the range, under its lock: claims the mappings of its worst moment, and returns
// those that the range does not use in the end.
class Range::Change {
 public:
  Change(Range& range, uint64_t mappings_at_worst) noexcept : range_(range) {
    // There are at most as many pieces as slots.
    const uint64_t wanted = std::min(mappings_at_worst, range.slots_);
    if (wanted <= range.claimed_) return;
    ok_ = range.store_->claim_mappings(wanted - range.claimed_);
    if (ok_) range.claimed_ = wanted;
  }
  ~Change() {
    const uint64_t used = range_.mappings();
    if (range_.guaranteed_ || range_.claimed_ <= used) return;
    range_.store_->return_mappings(range_.claimed_ - used);
    range_.claimed_ = used;
  }
  Change(const Change&) = delete;
  Change& operator=(const Change&) = delete;

  bool ok() const { return ok_; }

 private:
  Range& range_;
  bool ok_ = true;
};

// ---- the beginning and the end

Range::Range(std::shared_ptr<pool::PageStore> store, uint64_t slots)
    : store_(std::move(store)), page_bytes_(store_->page_bytes()), slots_(slots) {}

Result<std::unique_ptr<Range>> Range::reserve(std::shared_ptr<pool::PageStore> store,
                                              uint64_t slots) {
  const size_t page_bytes = store->page_bytes();
  const std::string& name = store->name();
  if (slots == 0 || slots > 128 * TiB / page_bytes)
    return failure(ErrorCode::invalid_argument, fmt::format("reserve addresses of {} pages", slots),
                   name, "1 page to 128 TiB");
  std::unique_ptr<Range> range(new Range(std::move(store), slots));
  auto addresses =
      os::Reservation::reserve(slots * page_bytes, std::max(page_bytes, os::huge_page_bytes));
  if (!addresses) return std::unexpected(std::move(addresses.error()));
  auto table = os::ZeroedTable<std::atomic<Entry>>::open(
      slots, fmt::format("commit the table of {} slots", slots), name,
      "larger pages, or fewer addresses");
  if (!table) return std::unexpected(std::move(table.error()));
  if (!range->store_->claim_mappings(1))
    return failure(ErrorCode::out_of_mappings, "reserve one more range of addresses", name,
                   "larger pages, or a larger vm.max_map_count");
  range->range_ = std::move(*addresses);
  range->table_ = std::move(*table);
  range->claimed_ = 1;
  range->mappings_.store(1, std::memory_order_relaxed);
  return range;
}

ErrorCode code_of_mapping(int error) {
  return error == ENOMEM ? ErrorCode::out_of_mappings : code_of_errno(error);
}

std::unexpected<Error> Range::mapping_error(int error, const std::string& attempted,
                                            const std::string& subject, const char* hint) const {
  if (error != ENOMEM) return system_error(error, attempted, subject);
  return std::unexpected(
      Error{ErrorCode::out_of_mappings,
            fmt::format("{}: the pool's ranges use {} of {} mappings, this one {}", attempted,
                        store_->mappings(), store_->mappings_max(), mappings()),
            subject, error, hint});
}

Range::~Range() {
  if (claimed_ == 0) return;  // it was never fully opened
  range_ = {};                // so that no page is visible here when it gets another owner
  if (store_->is_inherited()) return;
  for (uint64_t slot = used_begin_; slot < used_end_;) {
    const PageRun run = run_at(slot, used_end_ - slot);
    if (run.count != 0) store_->release(run);
    slot += std::max(run.count, 1u);
  }
  store_->return_mappings(claimed_);
}

int Range::guarantee_mappings() noexcept {
  if (store_->is_inherited()) return EPERM;
  const os::SemaphoreLock lock = locked();
  if (guaranteed_) return 0;
  if (slots_ > claimed_ && !store_->claim_mappings(slots_ - claimed_)) return ENOMEM;
  claimed_ = std::max(claimed_, slots_);
  guaranteed_ = true;
  return 0;
}

// ---- looking

void Range::require(uint64_t slot, uint64_t count) const noexcept {
  PENSTOCK_CHECK(slot <= slots_ && count <= slots_ - slot, "a slot that the range does not have");
}

// Returns how many slots from `slot` on are one piece, 1 to `count_max`.
uint64_t Range::piece_at(uint64_t slot, uint64_t count_max) const noexcept {
  uint64_t count = 1;
  for (Entry last = entry(slot); count < count_max; ++count) {
    const Entry next = entry(slot + count);
    if (!continues(last, next)) break;
    last = next;
  }
  return count;
}

PageRun Range::run_at(uint64_t slot, uint64_t count_max) const noexcept {
  const Entry first = count_max == 0 ? 0 : entry(slot);
  if (first == 0) return {};
  return {page_of(first), static_cast<uint32_t>(piece_at(slot, count_max))};
}

void Range::pages(uint64_t slot, std::span<PageId> out) const noexcept {
  require(slot, out.size());
  const os::SemaphoreLock lock = locked();
  for (size_t i = 0; i < out.size(); ++i) out[i] = page(slot + i);
}

int Range::share(std::span<const uint64_t> slots, std::span<PageId> out) const noexcept {
  PENSTOCK_CHECK(out.size() == slots.size(), "a page for each slot");
  if (store_->is_inherited()) return EPERM;
  const os::SemaphoreLock lock = locked();
  for (size_t i = 0; i < slots.size(); ++i) {
    out[i] = slots[i] < slots_ ? page(slots[i]) : no_page;
    if (out[i] == no_page) {
      store_->release(out.first(i));
      return ENOENT;
    }
    store_->retain(PageRun{out[i], 1});
  }
  return 0;
}

// Counts the seams between the slots from `first` - 1 to `last`, both included.
uint64_t Range::seams(uint64_t first, uint64_t last) const noexcept {
  uint64_t count = 0;
  first = std::max<uint64_t>(first, 1);
  if (first > last || first >= slots_) return 0;
  Entry left = entry(first - 1);
  for (uint64_t slot = first; slot <= last && slot < slots_; ++slot) {
    const Entry right = entry(slot);
    count += !continues(left, right);
    left = right;
  }
  return count;
}

// Counts the seams around `count` slots from `slot` on if they showed one piece that begins with
// entry `first`.
uint64_t Range::seams_around(uint64_t slot, uint64_t count, Entry first) const noexcept {
  const Entry last = first == 0 ? 0 : first + static_cast<uint32_t>(count - 1);
  uint64_t around = 0;
  if (slot > 0) around += !continues(entry(slot - 1), first);
  if (slot + count < slots_) around += !continues(last, entry(slot + count));
  return around;
}

// ---- one piece, one system call

// Sets the entries of a piece after the kernel has mapped it. Pages shown before lose the slots'
// references.
void Range::replace(uint64_t slot, uint64_t count, Entry first) noexcept {
  const uint64_t seams_before = seams(slot, slot + count);
  const uint64_t seams_after = seams_around(slot, count, first);
  PageRun old;
  for (uint64_t i = 0; i < count; ++i) {
    std::atomic<Entry>& here = cell(slot + i);
    const PageId page = page_of(here.load(std::memory_order_relaxed));
    here.store(first == 0 ? 0 : first + static_cast<uint32_t>(i), std::memory_order_release);
    if (page == no_page) continue;
    if (old.count == 0 || page != old.end()) {
      store_->release(old);
      old = {page, 0};
    }
    ++old.count;
  }
  store_->release(old);
  mappings_.store(mappings() - seams_before + seams_after, std::memory_order_relaxed);
  if (first == 0) return;
  used_begin_ = std::min(used_begin_, slot);
  used_end_ = std::max(used_end_, slot + count);
}

int Range::show(uint64_t slot, PageRun run, Protection access, bool populate) noexcept {
  store_->retain(run);
  const int error = show_retained(slot, run, access, populate);
  if (error != 0) store_->release(run);
  return error;
}

// Shows pages; the slots take over the caller's references.
int Range::show_retained(uint64_t slot, PageRun run, Protection access, bool populate) noexcept {
  const int error = store_->map(address(slot), run, access, populate);
  if (error == 0) replace(slot, run.count, entry_of(run.first, access));
  return error;
}

int Range::hide(uint64_t slot, uint64_t count) noexcept {
  const int error = os::decommit(address(slot), count * page_bytes_);
  if (error == 0) replace(slot, count, 0);
  return error;
}

// Shows the pages of a piece that begins with entry `first`, or nothing.
int Range::show_or_hide(uint64_t slot, uint64_t count, Entry first) noexcept {
  if (first == 0) return hide(slot, count);
  return show(slot, {page_of(first), static_cast<uint32_t>(count)}, access_of(first), true);
}

// ---- changes

int Range::map(uint64_t slot, PageRun run, Protection access, bool populate) noexcept {
  require(slot, run.count);
  if (run.count == 0) return 0;
  if (store_->is_inherited()) return EPERM;
  const os::SemaphoreLock lock = locked();
  const uint64_t after = mappings() - seams(slot, slot + run.count) +
                         seams_around(slot, run.count, entry_of(run.first, access));
  const Change change(*this, after);
  return change.ok() ? show(slot, run, access, populate) : ENOMEM;
}

int Range::map(uint64_t slot, std::span<const PageId> pages, Protection access,
               bool populate) noexcept {
  require(slot, pages.size());
  if (pages.empty()) return 0;
  if (store_->is_inherited()) return EPERM;
  const auto piece_of = [&](size_t at) {
    size_t end = at + 1;
    while (end < pages.size() && pages[end] == pages[end - 1] + 1) ++end;
    return PageRun{pages[at], static_cast<uint32_t>(end - at)};
  };
  const uint64_t end = slot + pages.size();

  const os::SemaphoreLock lock = locked();
  uint64_t old_seams = seams(slot, end);
  const uint64_t elsewhere = mappings() - old_seams;
  uint64_t new_seams =
      slot > 0 && !continues(entry(slot - 1), entry_of(pages.front(), access)) ? 1 : 0;
  uint64_t worst = 0;
  old_seams -= seams(slot, slot);
  for (size_t at = 0; at < pages.size();) {
    const PageRun piece = piece_of(at);
    // The seams that this piece covers, and the one at its end.
    old_seams -= seams(slot + at + 1, slot + at + piece.count);
    at += piece.count;
    const bool seam_to_old =
        slot + at < slots_ && !continues(entry_of(piece.end() - 1, access), entry(slot + at));
    worst = std::max(worst, elsewhere + new_seams + old_seams + (seam_to_old ? 1 : 0));
    new_seams += 1;  // between this piece and the next
  }
  const Change change(*this, worst);
  if (!change.ok()) return ENOMEM;
  // Retain all first: they may be pages of these very slots, in another order, without another
  // reference.
  store_->retain(pages);
  const auto is_shown = [&](size_t at) { return entry(slot + at) == entry_of(pages[at], access); };
  for (size_t at = 0; at < pages.size();) {
    const size_t piece_end = at + piece_of(at).count;
    size_t first = at, last = piece_end;  // the part of the piece that has to change
    while (first < last && is_shown(first)) ++first;
    while (first < last && is_shown(last - 1)) --last;
    store_->release(pages.subspan(at, first - at));
    if (first < last) {
      const PageRun changed{pages[first], static_cast<uint32_t>(last - first)};
      if (const int error = show_retained(slot + first, changed, access, populate)) {
        store_->release(pages.subspan(first));
        return error;
      }
    }
    store_->release(pages.subspan(last, piece_end - last));
    at = piece_end;
  }
  return 0;
}

int Range::map_every(uint64_t slot, uint64_t count, uint64_t step, PageId page,
                     Protection access) noexcept {
  PENSTOCK_CHECK(step > 1, "slots in a row are mapped by map()");
  if (count == 0) return 0;
  require(slot, (count - 1) * step + 1);
  if (store_->is_inherited()) return EPERM;
  const os::SemaphoreLock lock = locked();
  // The slots are not neighbours, so each adds what it would add alone.
  const Entry shown = entry_of(page, access);
  uint64_t worst = mappings();
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t at = slot + i * step;
    const uint64_t before = seams(at, at + 1), after = seams_around(at, 1, shown);
    if (after > before) worst += after - before;
  }
  const Change change(*this, worst);
  if (!change.ok()) return ENOMEM;
  for (uint64_t i = 0; i < count; ++i) {
    if (const int error = show(slot + i * step, {page, 1}, access, true)) return error;
  }
  return 0;
}

int Range::unmap(uint64_t slot, uint64_t count) noexcept {
  require(slot, count);
  if (count == 0) return 0;
  if (store_->is_inherited()) return EPERM;
  const os::SemaphoreLock lock = locked();
  const uint64_t after = mappings() - seams(slot, slot + count) + seams_around(slot, count, 0);
  const Change change(*this, after);
  return change.ok() ? hide(slot, count) : ENOMEM;
}

// Protects each stretch between two gaps in one call, however many pieces it has.
int Range::protect(uint64_t slot, uint64_t count, Protection access) noexcept {
  require(slot, count);
  if (store_->is_inherited()) return EPERM;
  const os::SemaphoreLock lock = locked();
  const uint64_t end = slot + count;
  const auto stretch_at = [&](uint64_t at) {
    uint64_t stretch_end = at;
    while (stretch_end < end && entry(stretch_end) != 0) ++stretch_end;
    return stretch_end - at;
  };
  const auto with_access = [&](Entry entry) { return entry_of(page_of(entry), access); };

  uint64_t worst = mappings();
  for (uint64_t at = slot; at < end; ++at) {
    const uint64_t length = stretch_at(at);
    if (length == 0) continue;
    uint64_t before = seams(at, at + length), after = 0, pieces = 1;
    const Entry first = with_access(entry(at));
    if (at > 0) after += !continues(entry(at - 1), first);
    for (uint64_t i = 1; i < length; ++i) {
      after += page(at + i) != page(at + i - 1) + 1;
      pieces += !continues(entry(at + i - 1), entry(at + i));
    }
    const Entry last = with_access(entry(at + length - 1));
    if (at + length < slots_) after += !continues(last, entry(at + length));
    if (after > before) worst += after - before;
    if (pieces > 1) worst += 2;  // the kernel may stop between two pieces
    at += length;
  }
  const Change change(*this, worst);
  if (!change.ok()) return ENOMEM;

  for (uint64_t at = slot; at < end; ++at) {
    const uint64_t length = stretch_at(at);
    if (length == 0) continue;
    int error = os::protect(address(at), length * page_bytes_, access);
    if (error == 0) {
      set_access(at, length, access);
    } else {
      // The kernel does not report how far it came; a call for each piece does.
      for (uint64_t done = 0; done < length;) {
        const uint64_t piece = piece_at(at + done, length - done);
        error = os::protect(address(at + done), piece * page_bytes_, access);
        if (error != 0) return error;
        set_access(at + done, piece, access);
        done += piece;
      }
    }
    at += length;
  }
  return 0;
}

void Range::set_access(uint64_t slot, uint64_t count, Protection access) noexcept {
  const uint64_t seams_before = seams(slot, slot + count);
  for (uint64_t i = slot; i < slot + count; ++i)
    cell(i).store(entry_of(page(i), access), std::memory_order_release);
  mappings_.store(mappings() - seams_before + seams(slot, slot + count), std::memory_order_relaxed);
}

int Range::swap(uint64_t a, uint64_t b, uint64_t count) noexcept {
  require(a, count);
  require(b, count);
  PENSTOCK_CHECK(a + count <= b || b + count <= a || a == b, "slots were swapped that overlap");
  if (count == 0 || a == b) return 0;
  if (store_->is_inherited()) return EPERM;
  const os::SemaphoreLock lock = locked();
  const Change change(*this, mappings() + 6);
  if (!change.ok()) return ENOMEM;
  for (uint64_t done = 0; done < count;) {
    const Entry at_a = entry(a + done), at_b = entry(b + done);
    const uint64_t length = piece_at(b + done, piece_at(a + done, count - done));
    if (const int error = exchange(a + done, at_a, b + done, at_b, length)) return error;
    done += length;
  }
  return 0;
}

int Range::exchange(uint64_t a, Entry at_a, uint64_t b, Entry at_b, uint64_t length) noexcept {
  if (at_a == 0 && at_b == 0) return 0;
  // This page is in no slot for a moment, and must not be freed.
  const PageRun held =
      at_a == 0 ? PageRun{} : PageRun{page_of(at_a), static_cast<uint32_t>(length)};
  store_->retain(held);
  int error = show_or_hide(a, length, at_b);
  if (error == 0) {
    error = show_or_hide(b, length, at_a);
    if (error != 0) {
      // The undo needs no mapping that was not there a moment ago.
      PENSTOCK_CHECK(show_or_hide(a, length, at_a) == 0,
                     "the process ran out of mappings in the middle of a swap (vm.max_map_count)");
    }
  }
  store_->release(held);
  return error;
}

int Range::move(uint64_t from, uint64_t to, uint64_t count) noexcept {
  require(from, count);
  require(to, count);
  if (count == 0 || from == to) return 0;
  if (store_->is_inherited()) return EPERM;
  const os::SemaphoreLock lock = locked();
  const Change change(*this, mappings() + seams(from + 1, from + count - 1) + 4);
  if (!change.ok()) return ENOMEM;
  // Works, like memmove(), from the end at which nothing is overwritten unread.
  if (to < from) {
    for (uint64_t done = 0; done < count;) {
      const uint64_t length = piece_at(from + done, count - done);
      if (const int error = show_or_hide(to + done, length, entry(from + done))) return error;
      done += length;
    }
  } else {
    for (uint64_t left = count; left > 0;) {
      const uint64_t length = piece_before(from + left, left);
      left -= length;
      if (const int error = show_or_hide(to + left, length, entry(from + left))) return error;
    }
  }
  const uint64_t left_begin = to < from ? std::max(from, to + count) : from;
  const uint64_t left_end = to < from ? from + count : std::min(from + count, to);
  return hide(left_begin, left_end - left_begin);
}

// Returns how many slots in front of `end` are one piece, 1 to `count_max`.
uint64_t Range::piece_before(uint64_t end, uint64_t count_max) const noexcept {
  uint64_t count = 1;
  while (count < count_max && continues(entry(end - count - 1), entry(end - count))) ++count;
  return count;
}

int Range::populate(uint64_t slot, uint64_t count) noexcept {
  require(slot, count);
  const os::SemaphoreLock lock = locked();
  const uint64_t end = slot + count;
  const auto shown = [&](uint64_t at) { return entry(at) == 0 ? Protection::none : access(at); };
  for (uint64_t at = slot; at < end;) {
    const Protection here = shown(at);
    const uint64_t first = at;
    while (at < end && shown(at) == here) ++at;
    if (here == Protection::none) continue;
    const uint64_t bytes = (at - first) * page_bytes_;
    const int error = here == Protection::read ? os::populate_read(address(first), bytes)
                                               : os::populate(address(first), bytes);
    if (error != 0) return error;
  }
  return 0;
}

}  // namespace penstock::rewire
