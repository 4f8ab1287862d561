#include "os/memory.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <thread>
#include <vector>

#include "os/memfd.h"
#include "os/sanitizer.h"
#include "os/userfault.h"
#include "penstock/base.h"

namespace penstock::os {
namespace {

bool readable(const std::byte* address) {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  const bool was_read = write(ends[1], address, 1) == 1;
  if (!was_read) {
    EXPECT_EQ(errno, EFAULT);
  }
  close(ends[0]);
  close(ends[1]);
  return was_read;
}

bool writable(std::byte* address) {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  EXPECT_EQ(write(ends[1], "", 1), 1);
  const bool was_written = read(ends[0], address, 1) == 1;
  close(ends[0]);
  close(ends[1]);
  return was_written;
}

bool all_are(const std::byte* at, size_t bytes, int value) {
  for (size_t i = 0; i < bytes; ++i)
    if (at[i] != static_cast<std::byte>(value)) return false;
  return true;
}

TEST(Reservation, IsAlignedInaccessibleAndAlmostFree) {
  for (const size_t alignment : {page_bytes, size_t{256} * KiB, huge_page_bytes, size_t{1} * GiB}) {
    auto range = Reservation::reserve(3 * page_bytes, alignment);
    ASSERT_TRUE(range);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(range->begin()) % alignment, 0u);
    EXPECT_EQ(range->bytes(), 3 * page_bytes);
    EXPECT_FALSE(readable(range->begin()));
    EXPECT_TRUE(range->contains(range->end() - 1));
    EXPECT_FALSE(range->contains(range->end()));
  }
  EXPECT_TRUE(Reservation::reserve(shadowed ? 256 * GiB : 16 * TiB));
}

TEST(Reservation, RefusesNonsense) {
  EXPECT_FALSE(Reservation::reserve(0));
  EXPECT_FALSE(Reservation::reserve(page_bytes, 3));
  EXPECT_FALSE(Reservation::reserve(~uint64_t{0}));
  const auto too_large = Reservation::reserve(uint64_t{1} << 60);
  ASSERT_FALSE(too_large);
  EXPECT_EQ(too_large.error().code, ErrorCode::out_of_memory);
}

TEST(Reservation, AKernelWithPagesOfAnotherSizeIsRefused) {
  EXPECT_TRUE(check_page_bytes(4096));
  for (const uint64_t bytes : {16 * KiB, 64 * KiB}) {
    const Status refused = check_page_bytes(bytes);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::unsupported);
    EXPECT_EQ(refused.error().message(), "penstock: cannot work on a kernel with pages of " +
                                             std::to_string(bytes) +
                                             " bytes (try: a kernel with pages of 4096 bytes)");
  }
}

TEST(Reservation, MovesItsOwnership) {
  auto first = Reservation::reserve(page_bytes).value();
  std::byte* const begin = first.begin();
  ASSERT_EQ(commit(begin, page_bytes), 0);
  Reservation second = std::move(first);
  EXPECT_EQ(second.begin(), begin);
  EXPECT_EQ(first.bytes(), 0u);
  first = std::move(second);
  EXPECT_TRUE(readable(begin));
  first = Reservation();
  EXPECT_FALSE(readable(begin));
}

TEST(Memory, CommitProtectDiscardDecommit) {
  auto range = Reservation::reserve(4 * page_bytes).value();
  std::byte* const at = range.begin() + page_bytes;
  ASSERT_EQ(commit(at, 2 * page_bytes), 0);
  EXPECT_TRUE(all_are(at, 2 * page_bytes, 0));
  EXPECT_FALSE(readable(range.begin()));
  std::memset(at, 1, 2 * page_bytes);
  ASSERT_EQ(protect(at, page_bytes, Protection::read), 0);
  EXPECT_TRUE(readable(at));
  EXPECT_FALSE(writable(at));
  EXPECT_TRUE(writable(at + page_bytes));
  ASSERT_EQ(protect(at, page_bytes, Protection::none), 0);
  EXPECT_FALSE(readable(at));
  ASSERT_EQ(protect(at, page_bytes, Protection::read_write), 0);
  EXPECT_TRUE(all_are(at, page_bytes, 1));
  ASSERT_EQ(discard(at, page_bytes), 0);
  EXPECT_TRUE(all_are(at, page_bytes, 0));
  ASSERT_EQ(decommit(at, 2 * page_bytes), 0);
  EXPECT_FALSE(readable(at));
  EXPECT_FALSE(readable(at + page_bytes));
}

TEST(Memory, MovedPagesKeepTheirContentsAndLeaveNoHole) {
  for (const size_t bytes : {page_bytes, 16 * page_bytes, huge_page_bytes}) {
    auto range = Reservation::reserve(4 * bytes).value();
    std::byte *const from = range.begin(), *const to = range.begin() + 2 * bytes;
    ASSERT_EQ(commit(from, bytes), 0);
    std::memset(from, 3, bytes);
    ASSERT_EQ(move_pages(from, to, bytes), 0);
    EXPECT_TRUE(all_are(to, bytes, 3));
    EXPECT_FALSE(readable(from));
    // The range is reserved, not free: advising unmapped memory would return ENOMEM.
    EXPECT_EQ(discard(from, bytes), 0);
    ASSERT_EQ(move_pages_leaving_source(to, from, bytes), 0);
    EXPECT_TRUE(all_are(from, bytes, 3));
    EXPECT_TRUE(all_are(to, bytes, 0));
  }
}

TEST(Memory, PopulateChangesNothingThatIsThere) {
  auto range = Reservation::reserve(MiB).value();
  ASSERT_EQ(commit(range.begin(), MiB), 0);
  std::memset(range.begin(), 4, page_bytes);
  const uint64_t before = resident_memory().bytes;
  ASSERT_EQ(populate(range.begin(), MiB), 0);
  EXPECT_GE(resident_memory().bytes, before + MiB / 2);
  EXPECT_TRUE(all_are(range.begin(), page_bytes, 4));
  EXPECT_TRUE(all_are(range.begin() + page_bytes, page_bytes, 0));
}

TEST(Memory, TouchLosesNothingThatIsStoredMeanwhile) {
  constexpr size_t bytes = 16 * MiB;
  auto range = Reservation::reserve(bytes).value();
  ASSERT_EQ(commit(range.begin(), bytes), 0);
  const uint64_t before = resident_memory().bytes;
  touch(range.begin(), bytes);
  EXPECT_GE(resident_memory().bytes, before + bytes / 2);
  auto* words = reinterpret_cast<uint64_t*>(range.begin());
  constexpr size_t words_per_page = page_bytes / sizeof(uint64_t);
  {
    std::jthread toucher([&](const std::stop_token& stop) {
      do touch(range.begin(), bytes);
      while (!stop.stop_requested());
    });
    for (uint64_t round = 0; round < 100; ++round) {
      for (size_t at = 0; at < bytes / sizeof(uint64_t); at += words_per_page) ++words[at];
    }
  }
  for (size_t at = 0; at < bytes / sizeof(uint64_t); at += words_per_page)
    ASSERT_EQ(words[at], 100u) << at;
}

TEST(Memory, ErrorsAreReturnedAndErrnoIsKept) {
  errno = EXDEV;
  EXPECT_NE(protect(reinterpret_cast<std::byte*>(page_bytes + 1), page_bytes, Protection::read), 0);
  EXPECT_EQ(errno, EXDEV);
}

TEST(Memory, GuardPagesFaultWhileTheyStand) {
  auto range = Reservation::reserve(2 * page_bytes).value();
  ASSERT_EQ(commit(range.begin(), 2 * page_bytes), 0);
  if (const int error = guard(range.begin(), page_bytes, true))
    GTEST_SKIP() << "guard pages (Linux 6.13): " << std::strerror(error);
  EXPECT_FALSE(readable(range.begin()));
  EXPECT_TRUE(readable(range.begin() + page_bytes));
  ASSERT_EQ(guard(range.begin(), page_bytes, false), 0);
  EXPECT_TRUE(readable(range.begin()));
}

TEST(Memory, ExcludedPagesAreMissingInTheChild) {
  auto range = Reservation::reserve(3 * page_bytes).value();
  std::byte* const middle =
      range.begin() + page_bytes;  // so that the child maps nothing large in its place
  ASSERT_EQ(commit(middle, page_bytes), 0);
  ASSERT_EQ(exclude_from_fork(middle, page_bytes), 0);
  const pid_t child = fork();
  if (child == 0) _exit(readable(middle) ? 1 : 0);
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST(Memory, AViewIsShownAgainWithItsExclusion) {
  auto file = MemoryFile::create(2 * page_bytes).value();
  auto range = Reservation::reserve(8 * page_bytes).value();
  std::byte* const view = range.begin() + page_bytes;
  std::byte* const again = range.begin() + 5 * page_bytes;
  ASSERT_EQ(file.map(view, 2 * page_bytes, 0, true), 0);
  ASSERT_EQ(exclude_from_fork(view, 2 * page_bytes), 0);
  view[page_bytes] = std::byte{7};
  ASSERT_EQ(show_again(view + page_bytes, again, page_bytes), 0);
  EXPECT_EQ(again[0], std::byte{7});
  again[1] = std::byte{8};
  EXPECT_EQ(view[page_bytes + 1], std::byte{8});
  const pid_t child = fork();
  if (child == 0) _exit(readable(again) || readable(view) ? 1 : 0);
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

// The kernel counts such a page once for each view.
TEST(ResidentMemory, CountsPagesOfAMemoryFileOnce) {
  if (!reset_peak_resident_memory()) GTEST_SKIP() << "/proc/self/clear_refs cannot be written here";
  constexpr size_t bytes = 32 * MiB;
  constexpr size_t views = 3;
  const Resident before = resident_memory();
  {
    auto file = MemoryFile::create(bytes).value();
    auto range = Reservation::reserve(views * bytes).value();
    for (size_t view = 0; view < views; ++view) {
      std::byte* const at = range.begin() + view * bytes;
      // (A store would add memory of the thread sanitizer's shadow.)
      ASSERT_EQ(file.map(at, bytes, 0, true), 0);
      const Resident now = resident_memory();
      EXPECT_GE(now.bytes, before.bytes + bytes);
      EXPECT_LT(now.bytes, before.bytes + bytes + bytes / 4);
    }
  }
  const Resident after = resident_memory();
  EXPECT_LT(after.bytes, before.bytes + bytes / 4);
  EXPECT_GE(after.peak_bytes, before.bytes + bytes);
  EXPECT_LT(after.peak_bytes, before.peak_bytes + bytes + bytes / 4);
}

TEST(ResidentMemory, FollowsTouchedPagesAndKeepsThePeak) {
  if (!reset_peak_resident_memory()) GTEST_SKIP() << "/proc/self/clear_refs cannot be written here";
  const Resident before = resident_memory();
  {
    auto range = Reservation::reserve(64 * MiB).value();
    ASSERT_EQ(commit(range.begin(), 64 * MiB), 0);
    ASSERT_EQ(populate(range.begin(), 64 * MiB), 0);
    EXPECT_GE(resident_memory().bytes, before.bytes + 60 * MiB);
  }
  const Resident after = resident_memory();
  EXPECT_LT(after.bytes, before.bytes + 30 * MiB);
  EXPECT_GE(after.peak_bytes, before.bytes + 60 * MiB);
  ASSERT_TRUE(reset_peak_resident_memory());
  EXPECT_LT(resident_memory().peak_bytes, after.peak_bytes - 30 * MiB);
}

TEST(MemoryFile, ShowsTheSamePagesAtTwoAddresses) {
  auto range = Reservation::reserve(4 * page_bytes).value();
  auto file = MemoryFile::create(2 * page_bytes).value();
  ASSERT_EQ(file.map(range.begin(), 2 * page_bytes, 0, false), 0);
  ASSERT_EQ(file.map(range.begin() + 2 * page_bytes, page_bytes, page_bytes, true), 0);
  range.begin()[page_bytes + 5] = std::byte{6};
  EXPECT_EQ(range.begin()[2 * page_bytes + 5], std::byte{6});
  ASSERT_EQ(discard_file_pages(range.begin() + page_bytes, page_bytes), 0);
  EXPECT_EQ(range.begin()[2 * page_bytes + 5], std::byte{0});
}

TEST(Userfault, MovesPagesBetweenWatchedRanges) {
  auto opened = Userfault::open();
  if (!opened) GTEST_SKIP() << opened.error().message();
  Userfault userfault = std::move(*opened);
  auto range = Reservation::reserve(16 * page_bytes).value();
  ASSERT_EQ(commit(range.begin(), range.bytes()), 0);
  std::byte *const from = range.begin(), *const to = range.begin() + 8 * page_bytes;
  std::memset(from, 8, 4 * page_bytes);
  ASSERT_EQ(userfault.watch(range.begin(), range.bytes()), 0);
  EXPECT_FALSE(readable(to));
  ASSERT_EQ(userfault.move(from, to, 4 * page_bytes), 0);
  EXPECT_TRUE(all_are(to, 4 * page_bytes, 8));
  EXPECT_FALSE(readable(from));
  // Nothing is overwritten, and a move that fails halfway is undone.
  std::memset(to, 9, page_bytes);
  EXPECT_EQ(userfault.move(to + page_bytes, to, page_bytes), EEXIST);
  EXPECT_EQ(userfault.move(from, from + 5 * page_bytes, page_bytes), ENOENT);
  ASSERT_EQ(userfault.move(to, from + 2 * page_bytes, page_bytes), 0);
  EXPECT_EQ(userfault.move(to + page_bytes, from, 3 * page_bytes), EEXIST);
  EXPECT_TRUE(all_are(to + page_bytes, 3 * page_bytes, 8));
  EXPECT_FALSE(readable(from));
  ASSERT_EQ(userfault.unwatch(range.begin(), range.bytes()), 0);
  EXPECT_TRUE(readable(from));
}

// Linux 6.18 moves pages, fails to count them, and then reports EEXIST (userfault_linux.cc).
TEST(Userfault, PagesThatTheSystemHasMovedUncountedAreNoError) {
  auto opened = Userfault::open();
  if (!opened) GTEST_SKIP() << opened.error().message();
  if (::access("/proc/self/pagemap", R_OK) != 0) GTEST_SKIP() << "/proc is not readable here";
  Userfault userfault = std::move(*opened);
  constexpr size_t pages = 100;
  for (const size_t uncounted : {size_t{1}, size_t{63}, size_t{64}, size_t{65}, pages}) {
    auto range = Reservation::reserve(2 * pages * page_bytes).value();
    ASSERT_EQ(commit(range.begin(), range.bytes()), 0);
    std::byte *const from = range.begin(), *const to = from + pages * page_bytes;
    for (size_t i = 0; i < pages; ++i)
      std::memset(from + i * page_bytes, static_cast<int>(i), page_bytes);
    ASSERT_EQ(userfault.watch(range.begin(), range.bytes()), 0);
    ASSERT_EQ(userfault.move(from, to, uncounted * page_bytes), 0);
    ASSERT_EQ(userfault.move(from, to, pages * page_bytes), 0) << uncounted;
    for (size_t i = 0; i < pages; ++i) {
      EXPECT_TRUE(all_are(to + i * page_bytes, page_bytes, static_cast<int>(i))) << i;
      EXPECT_FALSE(readable(from + i * page_bytes)) << i;
    }
    ASSERT_EQ(userfault.unwatch(range.begin(), range.bytes()), 0);
  }
}

}  // namespace
}  // namespace penstock::os
