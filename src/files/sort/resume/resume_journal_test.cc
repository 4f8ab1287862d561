// Test labels: one-thread

// The steps of a sort in its journal: they are read as they were written, and steps that contradict
// each other are not accepted.

#include "files/sort/resume/resume_journal.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "files/sort/sort_fixture.h"

namespace penstock::external {
namespace {

class StepsTest : public SortFixture {
 protected:
  std::vector<Journal::Entry> entries() const {
    std::vector<Journal::Entry> entries;
    auto journal = Journal::open(path("journal"));
    EXPECT_TRUE(journal) << journal.error().message();
    for (Journal::Entry entry; *journal->next(entry);) entries.push_back(entry);
    return entries;
  }
  // Reads the steps of a journal of these entries.
  ResumeState state_of(const std::vector<Journal::Entry>& entries) const {
    std::filesystem::remove(path("other"));
    auto journal = Journal::open(path("other"));
    EXPECT_TRUE(journal) << journal.error().message();
    for (const Journal::Entry& entry : entries) {
      EXPECT_TRUE(journal->append(entry.kind, entry.payload));
    }
    EXPECT_TRUE(journal->commit());
    *journal = Journal();
    journal = Journal::open(path("other"));
    Journal::Position end;
    auto state = read_steps(*journal, end);
    EXPECT_TRUE(state) << state.error().message();
    return state ? *state : ResumeState{};
  }
  static ResumeBucket bucket_of(uint32_t number) {
    ResumeBucket bucket{.keys = {.low = 10 * number, .high = 10 * number + 9},
                        .bytes = 1000 + number,
                        .items = 10 + number,
                        .constant = number == 1,
                        .part = number % 2,
                        .rest = {.items = number, .words = 2, .squares = 3}};
    // One bucket has more blocks than an entry holds.
    for (uint32_t block = 0; block < (number == 2 ? 20'000u : number + 1); ++block) {
      bucket.blocks.push_back(3 * block);
      bucket.checks.push_back(7 * block);
    }
    return bucket;
  }
  // Writes a beginning, an output, a split of three buckets, and one of these as done.
  void write_split(uint32_t buckets_listed = 3, uint32_t parts = 2) const {
    std::filesystem::remove(path("journal"));
    auto journal = Journal::open(path("journal"));
    ASSERT_TRUE(journal) << journal.error().message();
    ASSERT_TRUE(write_begin(*journal, {.version = ResumeState::present_version,
                                       .purpose = "a purpose",
                                       .inputs = {{.path = "one", .identity = {}}},
                                       .folders = {"a folder", "another"},
                                       .part = "a part"}));
    ASSERT_TRUE(write_output(*journal, 77));
    ASSERT_TRUE(external::write_split(
        *journal, {}, {.number = 0, .parts = parts, .block_bytes = 64}, buckets_listed, bucket_of));
    const ResumeDone done{.id = {0, 2}, .offset = 5000, .stored = {.bytes = 900, .items = 9}};
    ASSERT_TRUE(write_done(*journal, {&done, 1}));
  }
};

TEST_F(StepsTest, AreReadAsTheyWereWritten) {
  write_split();
  const ResumeState state = state_of(entries());
  EXPECT_EQ(state.version, ResumeState::present_version);
  EXPECT_EQ(state.purpose, "a purpose");
  ASSERT_EQ(state.inputs.size(), 1u);
  EXPECT_EQ(state.inputs[0].path, "one");
  EXPECT_EQ(state.folders, (std::vector<std::string>{"a folder", "another"}));
  EXPECT_EQ(state.part, "a part");
  EXPECT_EQ(state.part_inode, 77u);
  EXPECT_EQ(state.next_split, 1u);
  ASSERT_EQ(state.splits.size(), 1u);
  const ResumeSplit& split = state.splits.at({});
  EXPECT_EQ(split.parts, 2u);
  EXPECT_EQ(split.block_bytes, 64u);
  ASSERT_EQ(split.buckets.size(), 3u);
  for (uint32_t i = 0; i < 3; ++i) {
    const ResumeBucket expected = bucket_of(i);
    const ResumeBucket& bucket = split.buckets[i];
    EXPECT_EQ(bucket.keys.low, expected.keys.low);
    EXPECT_EQ(bucket.keys.high, expected.keys.high);
    EXPECT_EQ(bucket.bytes, expected.bytes);
    EXPECT_EQ(bucket.items, expected.items);
    EXPECT_EQ(bucket.constant, expected.constant);
    EXPECT_EQ(bucket.part, expected.part);
    EXPECT_EQ(bucket.rest, expected.rest);
    EXPECT_EQ(bucket.blocks, expected.blocks);
    EXPECT_EQ(bucket.checks, expected.checks);
  }
  ASSERT_EQ(state.done.size(), 1u);
  EXPECT_EQ(state.done.at({0, 2}).stored.bytes, 900u);
  EXPECT_EQ(state.output_bytes, 5900u);
}

// Each entry of the split is left out, repeated, or followed by another byte.
TEST_F(StepsTest, ContradictionsAreNotAccepted) {
  write_split();
  const std::vector<Journal::Entry> all = entries();
  ASSERT_EQ(all.size(), 12u);
  const size_t first = 2, last = 10;  // entries of the split
  for (size_t i = first; i <= last; ++i) {
    for (int what = 0; what < 3; ++what) {
      SCOPED_TRACE(testing::Message() << "entry " << i << ", " << what);
      std::vector<Journal::Entry> some = all;
      const auto at = some.begin() + static_cast<ptrdiff_t>(i);
      if (what == 0) some.erase(at);
      if (what == 1) some.insert(at, all[i]);
      if (what == 2) at->payload += "1234";
      const ResumeState state = state_of(some);
      // A second end comes when the split is complete; a second beginning begins again.
      const bool is_whole = what == 1 && (i == last || i == first);
      EXPECT_EQ(state.splits.size(), is_whole ? 1u : 0u);
      EXPECT_EQ(state.done.size(), what == 1 && i == first ? 1u : 0u);
      // The entries before it are.
      EXPECT_EQ(state.part_inode, 77u);
    }
  }
}

TEST_F(StepsTest, BucketsBehindTheEndOfAnyFileAreNotAccepted) {
  write_split();
  auto journal = Journal::open(path("journal"));
  ASSERT_TRUE(journal) << journal.error().message();
  Journal::Position end;
  ASSERT_TRUE(read_steps(*journal, end));
  ASSERT_TRUE(journal->cut(end));
  // The end of the second bucket overflows. The first one is in the same entry.
  const ResumeDone done[] = {
      {.id = {0, 0}, .offset = 6000, .stored = {.bytes = 100, .items = 1}},
      {.id = {0, 1}, .offset = ~uint64_t{0} - 99, .stored = {.bytes = 200, .items = 2}}};
  ASSERT_TRUE(write_done(*journal, done));
  *journal = Journal();
  const ResumeState state = state_of(entries());
  EXPECT_EQ(state.done.size(), 1u);
  EXPECT_TRUE(state.done.contains({0, 2}));
  EXPECT_EQ(state.output_bytes, 5900u);
}

TEST_F(StepsTest, OtherEntriesWithinASplitAreNotAccepted) {
  write_split();
  std::vector<Journal::Entry> all = entries();
  // A bucket is done before the split's buckets are listed.
  std::rotate(all.begin() + 3, all.end() - 1, all.end());
  const ResumeState state = state_of(all);
  EXPECT_EQ(state.part_inode, 77u);
  EXPECT_TRUE(state.splits.empty());
  // A whole split, the head of the next one, and a done bucket of the first.
  all = entries();
  all.insert(all.end() - 1, all[2]);
  const ResumeState second = state_of(all);
  EXPECT_EQ(second.splits.size(), 1u);
  EXPECT_TRUE(second.done.empty());
  EXPECT_EQ(second.output_bytes, 0u);
}

TEST_F(StepsTest, BucketsOfUnknownPartsOrSplitsAreNotAccepted) {
  // A bucket in the second part, of one.
  write_split(3, 1);
  EXPECT_TRUE(state_of(entries()).splits.empty());
  // A done bucket with the index 2, of a split that has two.
  write_split(2);
  const ResumeState state = state_of(entries());
  EXPECT_EQ(state.splits.size(), 1u);
  EXPECT_TRUE(state.done.empty());
  // Entries before the beginning do not count.
  write_split();
  std::vector<Journal::Entry> all = entries();
  all.erase(all.begin());
  EXPECT_EQ(state_of(all).version, 0u);
}

}  // namespace
}  // namespace penstock::external
