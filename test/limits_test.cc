// Tests of the library's limits, each at its edge and one beyond (docs/limits.md has the table).

#include "os/limits.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/trials.h"
#include "os/fd.h"
#include "os/memory.h"
#include "os/sanitizer.h"
#include "penstock/file_stream.h"
#include "penstock/rewire.h"
#include "penstock/stream.h"

namespace penstock {
namespace {

void expect_works(RemapStream& pipe, uint64_t bytes) {
  std::jthread producer([&] {
    pipe.writer()[bytes - 1] = 'z';
    EXPECT_TRUE(pipe.finish(bytes));
  });
  EXPECT_EQ(pipe.reader()[bytes - 1], 'z');
}

TEST(Limits, AStreamIsAsLongAsTwoOfItFitTheAddresses) {
  if (os::shadowed) GTEST_SKIP() << "a sanitizer needs the address space";
  // Finds the longest length, within a GiB, by trying: the process's other mappings lie in between.
  uint64_t longest = 10 * TiB, refused = 64 * TiB;
  while (refused - longest > GiB) {
    const uint64_t bytes = longest + (refused - longest) / 2;
    (RemapStream::open({.bytes = bytes}) ? longest : refused) = bytes;
  }
  EXPECT_GT(longest, 42 * TiB);
  auto pipe = RemapStream::open({.bytes = longest});
  ASSERT_TRUE(pipe) << pipe.error().message();
  expect_works(*pipe, longest);
  pipe = RemapStream::open({.bytes = 64 * TiB});
  ASSERT_FALSE(pipe);
  EXPECT_EQ(pipe.error().code, ErrorCode::out_of_memory);
  EXPECT_NE(pipe.error().message().find("bytes of address space"), std::string::npos)
      << pipe.error().message();
}

// Writes a sparse file with one byte at its end; returns false if the file system takes no file of that length.
bool write_sparse(const std::string& path, uint64_t bytes) {
  const os::Fd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  return fd && ::pwrite(fd.get(), "z", 1, static_cast<off_t>(bytes - 1)) == 1;
}

TEST(Limits, AFileIsReadToItsEndWhereItsLengthFitsTheAddresses) {
  if (os::shadowed) GTEST_SKIP() << "a sanitizer needs the address space";
  const std::string path = "/dev/shm/penstock-limits-test-" + std::to_string(::getpid());
  if (!write_sparse(path, 64 * TiB)) GTEST_SKIP() << "no file of 64 TiB in /dev/shm";
  {
    const auto file = FileReader::open(path);
    ASSERT_TRUE(file) << file.error().message();
    EXPECT_EQ(file->begin<char>()[0], 0);
    EXPECT_EQ(file->begin<char>()[64 * TiB - 1], 'z');
  }
  ASSERT_TRUE(write_sparse(path, 128 * TiB));
  const auto file = FileReader::open(path);
  ::unlink(path.c_str());
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().code, ErrorCode::out_of_memory);
}

TEST(Limits, TenThousandStreamsAreOpenAtOnce) {
  if (os::shadowed) GTEST_SKIP() << "a sanitizer needs the mappings";
  (void)os::raise_open_files_limit();
  if (os::limits().files_max.value_or(~0ull) < 11'000)
    GTEST_SKIP() << "a process may have " << *os::limits().files_max << " files open";
  // (A share of them in ./check.)
  std::vector<RemapStream> streams;
  for (size_t wanted = trials(10'000); streams.size() < wanted;) {
    auto pipe = RemapStream::open(
        {.bytes = 64 * KiB, .block_bytes = 4 * KiB, .mechanism = Mechanism::mremap});
    ASSERT_TRUE(pipe) << streams.size() << ": " << pipe.error().message();
    streams.push_back(std::move(*pipe));
  }
  for (size_t at = 0; at < streams.size(); at += 97) expect_works(streams[at], 10);
}

// Takes all remaining mappings of the process, by protecting every other page of a range.
class AllMappings {
 public:
  AllMappings() : range_(os::Reservation::reserve(GiB).value()) {
    for (uint64_t at = 0; at < GiB; at += 2 * os::page_bytes) {
      used_up_ = os::protect(range_.begin() + at, os::page_bytes, Protection::read) == ENOMEM;
      if (used_up_) return;
    }
  }
  bool used_up() const { return used_up_; }

 private:
  const os::Reservation range_;
  bool used_up_ = false;
};

TEST(Limits, AStreamIsRefusedWhereNoMappingIsLeft) {
  if (os::shadowed) GTEST_SKIP() << "a sanitizer needs the mappings";
  {
    const AllMappings taken;
    if (!taken.used_up()) GTEST_SKIP() << "vm.max_map_count is " << os::mappings().max;
    for (const Mechanism mechanism : {Mechanism::mremap, Mechanism::shared}) {
      const auto pipe = RemapStream::open({.bytes = 64 * KiB, .mechanism = mechanism});
      ASSERT_FALSE(pipe);
      EXPECT_FALSE(pipe.error().message().empty());
    }
  }
  auto pipe = RemapStream::open({.bytes = 64 * KiB});
  ASSERT_TRUE(pipe) << pipe.error().message();
  expect_works(*pipe, 10);
}

TEST(Limits, SnapshotsUntilNoMappingIsLeft) {
  if (os::shadowed) GTEST_SKIP() << "a sanitizer needs the mappings";
  const uint64_t mappings = trials(12'000);  // (a share of them in ./check)
  if (os::mappings().max - os::mappings().used < mappings)
    GTEST_SKIP() << "vm.max_map_count is " << os::mappings().max;
  const auto pool =
      PagePool::open({.page_bytes = 4 * KiB, .bytes_max = GiB, .mappings_max = mappings});
  ASSERT_TRUE(pool) << pool.error().message();
  auto table = RewiredTable::open(*pool, {.bytes = 4 * KiB, .guarantee_copies = true});
  ASSERT_TRUE(table) << table.error().message();
  auto* const number = table->begin<uint64_t>();
  std::vector<Snapshot> snapshots;
  std::optional<Error> refused;
  while (!refused && snapshots.size() <= mappings) {
    *number = snapshots.size();
    auto snapshot = table->snapshot();
    if (snapshot) {
      snapshots.push_back(std::move(*snapshot));
    } else {
      refused = snapshot.error();
    }
  }
  EXPECT_GE(snapshots.size(), mappings * 5 / 6);
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->code, ErrorCode::out_of_mappings) << refused->message();
  for (size_t at = 0; at < snapshots.size(); ++at) ASSERT_EQ(*snapshots[at].begin<uint64_t>(), at);
  // Destroyed snapshots release their mappings.
  snapshots.resize(snapshots.size() / 2);
  EXPECT_TRUE(table->snapshot());
}

}  // namespace
}  // namespace penstock
