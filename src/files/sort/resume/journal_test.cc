// Test labels: one-thread

// The journal: committed entries are read again; torn or changed entries are never accepted.

#include "files/sort/resume/journal.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/random.h"
#include "base/temporary_folder_fixture.h"
#include "io/engine.h"
#include "io/whole_file_fixture.h"
#include "test/support/injection.h"

namespace penstock::external {
namespace {

class JournalTest : public testing::Test {
 protected:
  std::string path() const { return folder_ / "journal"; }

  struct Entry {
    uint32_t kind;
    std::string payload;
    bool operator==(const Entry&) const = default;
  };
  static std::vector<Entry> read_all(Journal& journal) {
    std::vector<Entry> entries;
    Journal::Entry entry;
    for (;;) {
      auto whole = journal.next(entry);
      EXPECT_TRUE(whole) << whole.error().message();
      if (!whole || !*whole) return entries;
      entries.push_back({entry.kind, entry.payload});
    }
  }
  std::vector<Entry> write_some(uint64_t seed, size_t count, size_t bytes_max) {
    Random random(seed);
    std::vector<Entry> entries;
    auto journal = Journal::open(path());
    EXPECT_TRUE(journal) << journal.error().message();
    for (size_t i = 0; i < count; ++i) {
      std::string payload(random.below(bytes_max), '\0');
      for (char& c : payload) c = static_cast<char>(random.next());
      entries.push_back({static_cast<uint32_t>(random.below(9)), payload});
      EXPECT_TRUE(journal->append(entries.back().kind, payload));
      if (random.below(3) != 0) continue;
      EXPECT_TRUE(journal->commit());
    }
    EXPECT_TRUE(journal->commit());
    return entries;
  }
  std::string bytes() const { return io::read_whole(path()); }
  void write(const std::string& bytes) const {
    std::ofstream(path(), std::ios::binary | std::ios::trunc) << bytes;
  }
  // The entries read are the first of those written.
  void expect_prefix(const std::vector<Entry>& written, size_t at_least, size_t at_most) {
    auto journal = Journal::open(path());
    ASSERT_TRUE(journal) << journal.error().message();
    auto read = read_all(*journal);
    ASSERT_LE(read.size(), written.size());
    EXPECT_TRUE(std::equal(read.begin(), read.end(), written.begin()));
    EXPECT_GE(read.size(), at_least);
    EXPECT_LE(read.size(), at_most);
  }

  const TemporaryFolder folder_;
};

TEST_F(JournalTest, CommittedEntriesAreReadAgain) {
  for (size_t bytes_max : {1, 100, 400'000}) {
    std::filesystem::remove(path());
    auto written = write_some(bytes_max, 20, bytes_max);
    expect_prefix(written, 20, 20);
  }
}

TEST_F(JournalTest, AppendsBehindTheEntriesThatWereRead) {
  auto written = write_some(1, 5, 50);
  auto journal = Journal::open(path());
  ASSERT_TRUE(journal);
  EXPECT_EQ(read_all(*journal).size(), 5u);
  ASSERT_TRUE(journal->cut(journal->position()));
  ASSERT_TRUE(journal->append(7, "more"));
  ASSERT_TRUE(journal->commit());
  *journal = {};
  written.push_back({7, "more"});
  expect_prefix(written, 6, 6);
}

// A file that ends anywhere has the entries that are whole.
TEST_F(JournalTest, ATornEndIsNoEntry) {
  auto written = write_some(2, 6, 40);
  const std::string all = bytes();
  size_t whole = 0;
  uint64_t end = 8;
  for (size_t size = 0; size <= all.size(); ++size) {
    write(all.substr(0, size));
    while (whole < written.size() && size >= end + 16 + written[whole].payload.size())
      end += 16 + written[whole++].payload.size();
    expect_prefix(written, whole, whole);
  }
  EXPECT_EQ(whole, written.size());
}

// After a power cut the end of a file may hold anything.
TEST_F(JournalTest, AChangedByteIsNeverAccepted) {
  auto written = write_some(3, 6, 40);
  const std::string all = bytes();
  for (size_t at = 0; at < all.size(); ++at) {
    for (int bit : {0, 7}) {
      std::string changed = all;
      changed[at] = static_cast<char>(changed[at] ^ (1 << bit));
      write(changed);
      expect_prefix(written, 0, at < 8 ? 0 : written.size() - 1);
    }
  }
  write(all.substr(0, 8) + std::string(all.size() - 8, '\0'));
  expect_prefix(written, 0, 0);
}

// Entries that an earlier writer left behind the end do not continue those of another writer.
TEST_F(JournalTest, OldEntriesDoNotFollowNewOnes) {
  write_some(4, 3, 1);
  const std::string old = bytes();
  std::filesystem::remove(path());
  auto written = write_some(5, 1, 1);
  written[0].kind = 77;
  write(bytes() + old.substr(24));
  auto journal = Journal::open(path());
  ASSERT_TRUE(journal);
  EXPECT_EQ(read_all(*journal).size(), 1u);
}

TEST_F(JournalTest, BelongsToOneProcess) {
  auto journal = Journal::open(path());
  ASSERT_TRUE(journal);
  auto second = Journal::open(path());
  ASSERT_FALSE(second);
  EXPECT_TRUE(Journal::in_use(second.error()));
  *journal = {};
  EXPECT_TRUE(Journal::open(path()));
}

TEST_F(JournalTest, AFullDiskIsAnErrorAndKeepsCommittedEntries) {
  auto written = write_some(6, 4, 40);
  {
    auto journal = Journal::open(path());
    ASSERT_TRUE(journal);
    read_all(*journal);
    ASSERT_TRUE(journal->cut(journal->position()));
    ASSERT_TRUE(journal->append(1, std::string(1000, 'x')));
    io::inject(
        {.seed = 1, .error = ENOSPC, .error_after = 0, .error_operation = io::Operation::write});
    auto status = journal->commit();
    io::inject({});
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, ErrorCode::out_of_space);
  }
  expect_prefix(written, 4, 4);
}

}  // namespace
}  // namespace penstock::external
