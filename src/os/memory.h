#pragma once

// The contract for address space, with one implementation per system (memory_linux.cc). Nothing
// here keeps state. Functions that return int return 0 or an errno: they allocate nothing and may
// stand on the fault path.

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "base/run_scope.h"
#include "os/generation.h"
#include "penstock/base.h"

namespace penstock::os {

// The page size that all arithmetic assumes; reserve() refuses a kernel with another one.
inline constexpr size_t page_bytes = 4096;
// Errors: unsupported if the kernel's page size differs.
Status check_page_bytes(uint64_t kernel_page_bytes);
inline constexpr size_t huge_page_bytes = size_t{2} << 20;

// Address space of our own, inaccessible (PROT_NONE) until something is mapped into it; the
// destructor releases it, but not in a forked child (see generation.h). Thread safety: a move-only
// value.
class Reservation {
 public:
  static Result<Reservation> reserve(uint64_t bytes, size_t alignment = huge_page_bytes);
  Reservation() = default;
  Reservation(Reservation&& other) noexcept;
  Reservation& operator=(Reservation&& other) noexcept;
  ~Reservation();

  std::byte* begin() const { return begin_; }
  std::byte* end() const { return begin_ + bytes_; }
  uint64_t bytes() const { return bytes_; }
  bool contains(const void* address) const {
    return address >= begin_ && address < begin_ + bytes_;
  }
  // Charges all of it to this thread's run, until it is released.
  void charge() noexcept { charge_ = MemoryCharge(bytes_); }

 private:
  void release() noexcept;

  std::byte* begin_ = nullptr;
  uint64_t bytes_ = 0;
  Generation made_;
  MemoryCharge charge_;
};

// Reserves `bytes`, rounded up to pages, and commits all of them: zeros that take memory as they
// are touched. The strings describe the error.
Result<Reservation> zeroed(uint64_t bytes, std::string attempted, std::string subject,
                           std::string hint = {}, size_t alignment = page_bytes);

// Calls zeroed() and charges the run. If at least a huge page is used (`touched_bytes` is the upper
// bound), it lies on huge pages, where a direct request costs a sixth of the processor time.
Result<Reservation> huge_buffer(uint64_t bytes, std::string subject, std::string hint = {},
                                uint64_t touched_bytes = UINT64_MAX);

// A table of zeroed entries that take memory as they are touched. Thread safety: a move-only value.
template <class T>
class ZeroedTable {
 public:
  static Result<ZeroedTable> open(uint64_t entries, std::string attempted, std::string subject,
                                  std::string hint = {}) {
    auto memory =
        zeroed(entries * sizeof(T), std::move(attempted), std::move(subject), std::move(hint));
    if (!memory) return std::unexpected(std::move(memory.error()));
    ZeroedTable table;
    table.memory_ = std::move(*memory);
    return table;
  }

  T* begin() const { return reinterpret_cast<T*>(memory_.begin()); }  // nullptr: not opened
  // Returns the entries, including those that fill the last page.
  uint64_t size() const { return memory_.bytes() / sizeof(T); }
  T& operator[](uint64_t index) const { return begin()[index]; }

 private:
  Reservation memory_;
};

// All functions below take page-aligned ranges.

// Maps fresh zero pages, readable and writable.
[[nodiscard]] int commit(std::byte* address, size_t bytes);
// Gives pages back to the system; the range faults again.
[[nodiscard]] int decommit(std::byte* address, size_t bytes);
// Gives pages back to the system; the mapping stays, empty.
[[nodiscard]] int discard(std::byte* address, size_t bytes);
[[nodiscard]] int protect(std::byte* address, size_t bytes, Protection access);
// Moves pages to another address (mremap); the source becomes inaccessible reserved space again.
[[nodiscard]] int move_pages(std::byte* from, std::byte* to, size_t bytes);
// Moves pages, but the source stays mapped, empty: one system call less, and no split mapping.
[[nodiscard]] int move_pages_leaving_source(std::byte* from, std::byte* to, size_t bytes);
// Touches pages for writing without changing their contents.
[[nodiscard]] int populate(std::byte* address, size_t bytes);
// Touches pages for reading.
[[nodiscard]] int populate_read(std::byte* address, size_t bytes);
// Populates by a store to each page: slower, but other threads may map and unmap meanwhile.
// REQUIRES: the range is writable. It cannot fail: missing memory raises a signal.
void touch(std::byte* address, size_t bytes);
[[nodiscard]] int advise_huge(std::byte* address, size_t bytes, bool huge);
[[nodiscard]] int collapse(std::byte* address, size_t bytes);           // MADV_COLLAPSE
[[nodiscard]] int exclude_from_fork(std::byte* address, size_t bytes);  // MADV_DONTFORK
// Maps the part of a memory file that `view` shows at `to` as well, in place of the mapping there,
// with the view's rights and exclusion from forks: one system call instead of a mapping and
// exclude_from_fork(). Nothing is entered into the page table: the first touch does that.
[[nodiscard]] int show_again(std::byte* view, std::byte* to, size_t bytes);
// MADV_GUARD_INSTALL or MADV_GUARD_REMOVE; drops contents.
[[nodiscard]] int guard(std::byte* address, size_t bytes, bool on);

// Makes the heap always give freed memory back to the system. By default glibc keeps more, the
// larger the freed blocks are: after one of 10 MB, blocks of that size come from the arenas of the
// requesting threads, and up to 20 MB stay there, for each thread that ever lived. A memory budget
// loses those bytes. Call it once, before other threads start; no effect on other allocators.
void keep_heap_trimmed();

// The present and peak resident memory of this process, with every physical page counted once:
// pages of memory files (memfd.h) at most once, however many views show them. The kernel's peak,
// VmHWM, counts such a page once per view. Its excess at the peak is unknown; so the largest excess
// that a call found is subtracted, unless a call found a higher peak. If memory files have several
// views, the peak needs a call every few milliseconds; without views it is the kernel's. Thread
// safety: any thread.
struct Resident {
  uint64_t bytes;
  uint64_t peak_bytes;
};
Resident resident_memory();
// Resets the peak to the present value (/proc/self/clear_refs); false if the system refuses.
bool reset_peak_resident_memory();

}  // namespace penstock::os
