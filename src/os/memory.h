#pragma once

// The contract for address space, one implementation per system (memory_linux.cc). Nothing here
// keeps state. Functions that return int give 0 or an errno: they allocate nothing and may stand on
// the fault path.

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "base/run_scope.h"
#include "os/generation.h"
#include "penstock/base.h"

namespace penstock::os {

// The page size that all arithmetic takes for granted; reserve() refuses a kernel with another.
inline constexpr size_t page_bytes = 4096;
// Errors: unsupported, where that is not the kernel's page size.
Status check_page_bytes(uint64_t kernel_page_bytes);
inline constexpr size_t huge_page_bytes = size_t{2} << 20;

// Address space of our own, inaccessible (PROT_NONE) until something is mapped into it; released on
// destruction, but not by a forked child (see generation.h). Thread safety: a move-only value.
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
  // All of it is memory that the run takes to which this thread belongs, until it is released.
  void charge() noexcept { charge_ = MemoryCharge(bytes_); }

 private:
  void release() noexcept;

  std::byte* begin_ = nullptr;
  uint64_t bytes_ = 0;
  Generation made_;
  MemoryCharge charge_;
};

// Reserved addresses of `bytes`, rounded up to pages, all of them committed: zeros that take memory as they are touched.
// The words are for the error.
Result<Reservation> zeroed(uint64_t bytes, std::string attempted, std::string subject,
                           std::string hint = {}, size_t alignment = page_bytes);

// zeroed(), charged to the run. `touched_bytes` is the most that is used of it: from a huge page on, it lies on huge pages,
// where a direct request costs a sixth of the processor time.
Result<Reservation> huge_buffer(uint64_t bytes, std::string subject, std::string hint = {},
                                uint64_t touched_bytes = UINT64_MAX);

// A table of T whose entries begin as zeros, which take memory as they are touched. Thread safety: a move-only value.
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
  uint64_t size() const {
    return memory_.bytes() / sizeof(T);
  }  // with those that fill the last page
  T& operator[](uint64_t index) const { return begin()[index]; }

 private:
  Reservation memory_;
};

// All take page-aligned ranges.
[[nodiscard]] int commit(std::byte* address,
                         size_t bytes);  // fresh zero pages, readable and writable
[[nodiscard]] int decommit(std::byte* address,
                           size_t bytes);  // pages go back to the system; the range faults again
[[nodiscard]] int discard(std::byte* address,
                          size_t bytes);  // pages go back to the system; the mapping stays, empty
[[nodiscard]] int protect(std::byte* address, size_t bytes, Protection access);
// Moves pages from one address to another (mremap); the source becomes inaccessible reserved space
// again.
[[nodiscard]] int move_pages(std::byte* from, std::byte* to, size_t bytes);
// The same, but the source stays mapped, empty: one system call less, and no mapping is split
// there.
[[nodiscard]] int move_pages_leaving_source(std::byte* from, std::byte* to, size_t bytes);
[[nodiscard]] int populate(std::byte* address,
                           size_t bytes);  // touch for writing without changing contents
[[nodiscard]] int populate_read(std::byte* address, size_t bytes);  // touch for reading
// As populate(), by a store to each page: slower, but other threads may map and unmap meanwhile.
// REQUIRES: the range is writable. It cannot fail: memory that is not to be had is a signal.
void touch(std::byte* address, size_t bytes);
[[nodiscard]] int advise_huge(std::byte* address, size_t bytes, bool huge);
[[nodiscard]] int collapse(std::byte* address, size_t bytes);           // MADV_COLLAPSE
[[nodiscard]] int exclude_from_fork(std::byte* address, size_t bytes);  // MADV_DONTFORK
// What a view of a file in memory shows appears at `to` as well, in place of what is mapped there,
// with the view's rights and excluded from forks if the view is: in one system call what a mapping
// and exclude_from_fork() are in two. Nothing is entered into the page table: the first touch does.
[[nodiscard]] int show_again(std::byte* view, std::byte* to, size_t bytes);
[[nodiscard]] int guard(std::byte* address, size_t bytes,
                        bool on);  // MADV_GUARD_INSTALL / _REMOVE; drops contents

// Freed memory of the heap goes back to the system, always in the same way. Left alone, glibc keeps
// more the larger the blocks are that a program frees: after one of 10 MB, blocks of that size come
// from the arenas of the threads that ask for them, and up to 20 MB stay there, of each thread that
// ever lived. To whoever has a memory budget that is lost. Once, before other threads start; where
// the system's allocator has nothing of the kind it does nothing.
void keep_heap_trimmed();

// The peak and the present resident memory of this process, every physical page counted once: of
// shared pages no more than there are memory files (memfd.h), however many views there are. The
// kernel's peak, VmHWM, counts a page of these once per view. What it counted too much at its peak
// nobody knows; so the most that a call found too much is taken off, unless a call found more.
// Where memory files have views, whoever wants the peak calls this every few milliseconds. Without
// them it is what the kernel says. Thread safety: any thread.
struct Resident {
  uint64_t bytes;
  uint64_t peak_bytes;
};
Resident resident_memory();
// Resets the peak to the present value (/proc/self/clear_refs); false where the system refuses.
bool reset_peak_resident_memory();

}  // namespace penstock::os
