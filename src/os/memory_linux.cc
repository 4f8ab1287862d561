// The contract of memory.h on Linux.
//
// Two points are less simple than they look:
//
// Moving. A plain mremap() leaves a hole, and any other thread's mmap() may fall into it before the
// reservation is put back. MREMAP_DONTUNMAP (5.7) leaves the emptied mapping instead, which one
// step then replaces by an inaccessible one: the address space is ours all the time. Between the
// two steps the source is readable and empty, so a thread that uses a block while it is being moved
// may see zeros instead of a fault.
//
// Reserving. PROT_NONE mappings are never charged against the commit limit; MAP_NORESERVE alone
// would be, under vm.overcommit_memory=2.

#include <fcntl.h>
#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "base/bits.h"
#include "base/check.h"
#include "base/keep_errno.h"
#include "base/raise_to.h"
#include "os/fd.h"
#include "os/memfd.h"
#include "os/memory.h"
#include "penstock/base.h"

// Newer than the C library of Debian 12.
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif
#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102
#define MADV_GUARD_REMOVE 103
#endif

namespace penstock::os {
namespace {

constexpr int reserve_flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;

int map_fixed(std::byte* address, size_t bytes, int protection, int flags) {
  return errno_of([&] {
    return mmap(address, bytes, protection, flags | MAP_FIXED, -1, 0) == MAP_FAILED ? -1 : 0;
  });
}

int advise(std::byte* address, size_t bytes, int advice) {
  return errno_of([&] { return madvise(address, bytes, advice); });
}

// Unmaps a range. At the limit of mappings (vm.max_map_count) the kernel refuses to cut a mapping
// in two, and a sandbox may refuse all. Then the addresses stay ours, and only their memory is
// freed.
void unmap(std::byte* address, uint64_t bytes) {
  if (bytes == 0) return;
  if (errno_of([&] { return munmap(address, bytes); }) != 0)
    (void)advise(address, bytes, MADV_DONTNEED);
}

int protection_of(Protection access) {
  switch (access) {
    case Protection::none:
      return PROT_NONE;
    case Protection::read:
      return PROT_READ;
    case Protection::read_write:
      break;
  }
  return PROT_READ | PROT_WRITE;
}

}  // namespace

Status check_page_bytes(uint64_t kernel_page_bytes) {
  if (kernel_page_bytes == page_bytes) return {};
  return failure(ErrorCode::unsupported,
                 "work on a kernel with pages of " + std::to_string(kernel_page_bytes) + " bytes",
                 "penstock", "a kernel with pages of 4096 bytes");
}

Result<Reservation> Reservation::reserve(uint64_t bytes, size_t alignment) {
  const std::string attempted = "reserve " + std::to_string(bytes) + " bytes of address space";
  constexpr uint64_t bytes_max = uint64_t{1} << 62;
  if (bytes == 0 || bytes > bytes_max || alignment > bytes_max ||
      (alignment & (alignment - 1)) != 0)
    return failure(ErrorCode::invalid_argument, attempted);
  static const auto kernel_page_bytes = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  if (Status usable = check_page_bytes(kernel_page_bytes); !usable)
    return std::unexpected(std::move(usable.error()));
  const Generation now = Generation::now();
  if (!now) return failure(ErrorCode::out_of_memory, attempted, {}, "more memory for this process");
  bytes = penstock::round_up(bytes, page_bytes);
  const uint64_t slack = alignment > page_bytes ? alignment : 0;
  void* mapped = mmap(nullptr, bytes + slack, PROT_NONE, reserve_flags, -1, 0);
  // EAGAIN: mlockall(MCL_FUTURE) locks reserved addresses, too.
  if (mapped == MAP_FAILED) {
    const int error = errno;
    return system_error(error, attempted, {},
                        error == EAGAIN ? "a higher limit on locked memory (ulimit -l), or no "
                                          "mlockall(MCL_FUTURE)"
                                        : "a smaller range, or a higher limit (ulimit -v)");
  }
  auto* first = static_cast<std::byte*>(mapped);
  std::byte* begin = slack == 0 ? first : penstock::round_up(first, alignment);
  unmap(first, static_cast<uint64_t>(begin - first));
  unmap(begin + bytes, slack - static_cast<uint64_t>(begin - first));
  Reservation reservation;
  reservation.begin_ = begin;
  reservation.bytes_ = bytes;
  reservation.made_ = now;
  return reservation;
}

Reservation::Reservation(Reservation&& other) noexcept
    : begin_(std::exchange(other.begin_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)),
      made_(other.made_),
      charge_(std::move(other.charge_)) {}

Reservation& Reservation::operator=(Reservation&& other) noexcept {
  if (this != &other) {
    release();
    begin_ = std::exchange(other.begin_, nullptr);
    bytes_ = std::exchange(other.bytes_, 0);
    made_ = other.made_;
    charge_.set(0);
    charge_ = std::move(other.charge_);
  }
  return *this;
}

Reservation::~Reservation() {
  release();
}

void Reservation::release() noexcept {
  if (!made_.is_past()) unmap(begin_, bytes_);
}

Result<Reservation> zeroed(uint64_t bytes, std::string attempted, std::string subject,
                           std::string hint, size_t alignment) {
  auto memory = Reservation::reserve(round_up(bytes, page_bytes), alignment);
  if (!memory) return memory;
  if (const int error = commit(memory->begin(), memory->bytes()))
    return system_error(error, std::move(attempted), std::move(subject), std::move(hint));
  return memory;
}

Result<Reservation> huge_buffer(uint64_t bytes, std::string subject, std::string hint,
                                uint64_t touched_bytes) {
  auto memory = zeroed(bytes, "commit " + std::to_string(bytes) + " bytes of memory",
                       std::move(subject), std::move(hint), huge_page_bytes);
  if (!memory) return memory;
  memory->charge();
  const uint64_t huge_bytes = round_down(memory->bytes(), huge_page_bytes);
  // A failure is no error: requests are only slower without huge pages.
  if (std::min(huge_bytes, touched_bytes) >= huge_page_bytes)
    (void)advise_huge(memory->begin(), huge_bytes, true);
  return memory;
}

int commit(std::byte* address, size_t bytes) {
  return map_fixed(address, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS);
}

int decommit(std::byte* address, size_t bytes) {
  const int error = map_fixed(address, bytes, PROT_NONE, reserve_flags);
  if (error == 0) return 0;
  if (error != ENOMEM) {
    // A sandbox may refuse such mappings. (A view of a file keeps its mapping, inaccessible.)
    const int hidden = protect(address, bytes, Protection::none);
    return hidden == 0 ? discard(address, bytes) : error;
  }
  // The kernel lets a process have one mapping more than vm.max_map_count, and then refuses every
  // mmap(), even those that would reduce the mappings. It does not refuse munmap(), after which the
  // reservation can be put back, unless another thread takes the place or the mapping in between;
  // then there is no way back.
  if (errno_of([&] { return munmap(address, bytes); }) != 0) return error;
  PENSTOCK_CHECK(map_fixed(address, bytes, PROT_NONE, reserve_flags | MAP_FIXED_NOREPLACE) == 0,
                 "the process ran out of mappings while one was given back (vm.max_map_count)");
  return 0;
}

int discard(std::byte* address, size_t bytes) {
  return advise(address, bytes, MADV_DONTNEED);
}

int protect(std::byte* address, size_t bytes, Protection access) {
  return errno_of([&] { return mprotect(address, bytes, protection_of(access)); });
}

int move_pages_leaving_source(std::byte* from, std::byte* to, size_t bytes) {
  return errno_of([&] {
    const int flags = MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP;
    return mremap(from, bytes, bytes, flags, to) == MAP_FAILED ? -1 : 0;
  });
}

int move_pages(std::byte* from, std::byte* to, size_t bytes) {
  if (const int error = move_pages_leaving_source(from, to, bytes)) return error;
  // mremap() refuses when fewer than four mappings are left. So decommit() finds one, unless
  // another thread has used up the last ones meanwhile; then there is no way back, because it needs
  // mappings too.
  PENSTOCK_CHECK(decommit(from, bytes) == 0,
                 "the process ran out of mappings in the middle of a move (vm.max_map_count)");
  return 0;
}

int populate(std::byte* address, size_t bytes) {
  return advise(address, bytes, MADV_POPULATE_WRITE);
}

int populate_read(std::byte* address, size_t bytes) {
  return advise(address, bytes, MADV_POPULATE_READ);
}

// A race by intent. (clang instruments atomic accesses despite no_sanitize("thread").)
#ifdef __clang__
#define PENSTOCK_UNSEEN __attribute__((disable_sanitizer_instrumentation))
#else
#define PENSTOCK_UNSEEN __attribute__((no_sanitize("thread")))
#endif

// Stores without changing anything, whatever other threads store there at the same time. (Compilers
// turn an addition of 0 into a load.)
PENSTOCK_UNSEEN void touch(std::byte* address, size_t bytes) {
  for (size_t at = 0; at < bytes; at += page_bytes) {
    auto* byte = reinterpret_cast<uint8_t*>(address + at);
    uint8_t zero = 0;
    __atomic_compare_exchange_n(byte, &zero, zero, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
  }
}

int advise_huge(std::byte* address, size_t bytes, bool huge) {
  return advise(address, bytes, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
}

int collapse(std::byte* address, size_t bytes) {
  return advise(address, bytes, MADV_COLLAPSE);
}

int exclude_from_fork(std::byte* address, size_t bytes) {
  return advise(address, bytes, MADV_DONTFORK);
}

int show_again(std::byte* view, std::byte* to, size_t bytes) {
  // mremap() with an old size of 0 duplicates a shared mapping.
  return errno_of([&] {
    return mremap(view, 0, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, to) == MAP_FAILED ? -1 : 0;
  });
}

int guard(std::byte* address, size_t bytes, bool on) {
  return advise(address, bytes, on ? MADV_GUARD_INSTALL : MADV_GUARD_REMOVE);
}

void keep_heap_trimmed() {
#ifdef __GLIBC__
  // Glibc's own initial value: setting it stops glibc from raising it, and from raising the size
  // from which blocks are mapped one by one.
  mallopt(M_TRIM_THRESHOLD, 128 << 10);
#endif
}

namespace {

// Largest values that any call found since the peak was reset.
std::atomic<uint64_t> most_found{0};
std::atomic<uint64_t> most_too_much{0};

}  // namespace

Resident resident_memory() {
  Resident resident{};
  const Fd fd(open("/proc/self/status", O_RDONLY | O_CLOEXEC));
  if (!fd) return resident;
  char text[8192];
  const ssize_t length = read(fd.get(), text, sizeof text - 1);
  text[length < 0 ? 0 : length] = 0;
  const auto field_bytes = [&](const char* name) -> uint64_t {
    const char* field = std::strstr(text, name);
    unsigned long long kib = 0;
    if (field == nullptr || std::sscanf(field + std::strlen(name), "%llu", &kib) != 1) return 0;
    return kib * KiB;
  };
  const uint64_t shared_bytes = field_bytes("RssShmem:");
  const uint64_t once_bytes = std::min(shared_bytes, memory_file_bytes());
  resident.bytes = field_bytes("RssAnon:") + field_bytes("RssFile:") + once_bytes;
  // (Other shared memory of the program counts as in the kernel.)
  if (memory_file_bytes() > 0) raise_to(most_too_much, shared_bytes - once_bytes);
  const uint64_t peak_found = raise_to(most_found, resident.bytes);
  const uint64_t high_bytes = field_bytes("VmHWM:");
  resident.peak_bytes =
      std::max(peak_found, high_bytes - std::min(high_bytes, most_too_much.load()));
  return resident;
}

bool reset_peak_resident_memory() {
  const Fd fd(open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC));
  if (!fd) return false;
  const bool done = write(fd.get(), "5", 1) == 1;
  if (done) most_found = most_too_much = 0;
  return done;
}

}  // namespace penstock::os
