// Test labels: templates

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <thread>
#include <vector>

#include "memory/rewire/table_fixture.h"
#include "penstock/rewire.h"
#include "penstock/stream.h"

namespace penstock::rewire {
namespace {

using Counts = RewiredTable::Counts;

struct Kind {
  size_t page_bytes;
  WriteDetection detection;
};

class TableOf : public testing::TestWithParam<Kind> {
 protected:
  void SetUp() override {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    if (const auto why = missing(GetParam().detection)) GTEST_SKIP() << *why;
  }
  static size_t page_bytes() { return GetParam().page_bytes; }
  static size_t page_items() { return page_bytes() / sizeof(uint64_t); }
  static PagePool pool_of(uint64_t pages) { return open_pool(pages * page_bytes(), page_bytes()); }
  static RewiredTable table_of(const PagePool& pool, uint64_t pages) {
    return open_table(pool, {.bytes = pages * page_bytes(), .detection = GetParam().detection});
  }
};

INSTANTIATE_TEST_SUITE_P(Kinds, TableOf,
                         testing::Values(Kind{4 * KiB, WriteDetection::signal},
                                         Kind{64 * KiB, WriteDetection::signal},
                                         Kind{2 * MiB, WriteDetection::signal},
                                         Kind{4 * KiB, WriteDetection::asynchronous},
                                         Kind{64 * KiB, WriteDetection::asynchronous},
                                         Kind{2 * MiB, WriteDetection::asynchronous}),
                         [](const auto& test) {
                           return std::to_string(test.param.page_bytes / KiB) + "KiB" +
                                  (test.param.detection == WriteDetection::signal ? "Signal"
                                                                                  : "Asynchronous");
                         });

TEST_P(TableOf, BeginsWithZerosWhateverThePagesHeld) {
  const PagePool pool = pool_of(4);
  {
    auto pages = pool.take(4);
    ASSERT_TRUE(pages);
    for (uint32_t i = 0; i < 4; ++i)
      std::memset(pages->bytes(i).data(), 0x55, pages->bytes(i).size());
  }
  const RewiredTable table = table_of(pool, 4);
  const auto* items = table.begin<uint64_t>();
  EXPECT_TRUE(std::all_of(items, items + 4 * page_items(), [](uint64_t v) { return v == 0; }));
  EXPECT_EQ(table.bytes(), 4 * page_bytes());
  EXPECT_EQ(table.pages(), 4u);
  EXPECT_EQ(table.epoch(), 0u);
  EXPECT_FALSE(table.latest());
}

TEST_P(TableOf, SnapshotsStayAsTheyWere) {
  const PagePool pool = pool_of(20);
  RewiredTable table = table_of(pool, 4);
  auto* const live = table.begin<uint64_t>();
  write(live, 1);
  write(live + 3 * page_items(), 2);
  const Snapshot first = take(table);
  write(live, 10);
  write(live + page_items() + 1, 20);
  const Snapshot second = take(table);
  write(live, 100);

  const auto* const one = first.begin<uint64_t>();
  EXPECT_EQ(read(one), 1u);
  EXPECT_EQ(read(one + page_items() + 1), 0u);
  EXPECT_EQ(read(one + 3 * page_items()), 2u);
  const auto* const two = second.begin<uint64_t>();
  EXPECT_EQ(read(two), 10u);
  EXPECT_EQ(read(two + page_items() + 1), 20u);
  EXPECT_EQ(read(two + 3 * page_items()), 2u);
  EXPECT_EQ(read(live), 100u);
  EXPECT_EQ(first.epoch(), 1u);
  EXPECT_EQ(second.epoch(), 2u);
  EXPECT_EQ(first.page(3), second.page(3));  // not written between them
  EXPECT_NE(first.page(0), second.page(0));
}

TEST_P(TableOf, LatestIsTheLastThatSomebodyHas) {
  const PagePool pool = pool_of(12);
  RewiredTable table = table_of(pool, 2);
  Snapshot first = take(table);
  Snapshot copy = table.latest();
  EXPECT_EQ(copy.epoch(), 1u);
  first = {};
  EXPECT_EQ(table.latest().epoch(), 1u);
  copy = take(table);
  EXPECT_EQ(table.latest().epoch(), 2u);
  copy = {};
  EXPECT_FALSE(table.latest());
  EXPECT_EQ(table.epoch(), 2u);
}

TEST_P(TableOf, NothingIsLeftTakenOrMapped) {
  const uint64_t maps_before = mappings_of_files_in_memory();
  {
    const PagePool pool = pool_of(64);
    const uint64_t maps_of_pool = mappings_of_files_in_memory();
    const uint64_t mappings_of_pool = pool.mappings();
    {
      RewiredTable table = table_of(pool, 8);
      std::vector<Snapshot> snapshots;
      for (uint64_t round = 0; round < 5; ++round) {
        snapshots.push_back(take(table));
        for (uint64_t i = 0; i < 3; ++i)
          write(table.begin<uint64_t>() + (round + 3 * i) % 8 * page_items(), round);
      }
      EXPECT_GT(pool.pages_taken(), 8u);
      snapshots.erase(snapshots.begin() + 1);
      snapshots.erase(snapshots.begin() + 2);
    }
    EXPECT_EQ(pool.pages_taken(), 0u);
    EXPECT_EQ(pool.mappings(), mappings_of_pool);
    EXPECT_EQ(mappings_of_files_in_memory(), maps_of_pool);
  }
  EXPECT_EQ(mappings_of_files_in_memory(), maps_before);
}

TEST_P(TableOf, SnapshotsOutliveTheTableAndThePool) {
  std::optional<PagePool> pool = pool_of(12);
  Snapshot snapshot;
  {
    RewiredTable table = table_of(*pool, 4);
    write(table.begin<uint64_t>() + 2 * page_items(), 7);
    snapshot = take(table);
    write(table.begin<uint64_t>() + 2 * page_items(), 8);
  }
  EXPECT_EQ(pool->pages_taken(), 4u);
  pool.reset();
  EXPECT_EQ(read(snapshot.begin<uint64_t>() + 2 * page_items()), 7u);
}

TEST_P(TableOf, MovesLikeAValue) {
  const PagePool pool = pool_of(24);
  RewiredTable a = table_of(pool, 2);
  write(a.begin<uint64_t>(), 5);
  const Snapshot snapshot = take(a);
  RewiredTable b = std::move(a);
  write(b.begin<uint64_t>(), 6);
  RewiredTable c = table_of(pool, 2);
  c = std::move(b);
  write(c.begin<uint64_t>() + 1, 7);
  EXPECT_EQ(read(c.begin<uint64_t>()), 6u);
  EXPECT_EQ(read(snapshot.begin<uint64_t>()), 5u);
  EXPECT_TRUE(c.snapshot());
}

TEST_P(TableOf, SystemCallsStoreWhereItWasPrepared) {
  const PagePool pool = pool_of(12);
  RewiredTable table = table_of(pool, 4);
  const Snapshot snapshot = take(table);
  const int fd = open("/dev/zero", O_RDONLY | O_CLOEXEC);
  write(table.begin<uint64_t>() + page_items(), 9);  // one of pages 0 to 2 is writable
  std::byte* const target = table.begin() + 8;
  const size_t bytes = 2 * page_bytes();
  if (GetParam().detection == WriteDetection::signal) {
    EXPECT_EQ(::read(fd, target, bytes), -1);
    EXPECT_EQ(errno, EFAULT);
  }
  ASSERT_TRUE(table.prepare_write(target, bytes));
  EXPECT_EQ(::read(fd, target, bytes), static_cast<ssize_t>(bytes));
  close(fd);
  EXPECT_EQ(read(table.begin<uint64_t>() + page_items()), 0u);
  EXPECT_TRUE(table.prepare_write(target, 0));
  EXPECT_FALSE(table.prepare_write(table.begin() + table.bytes() - 1, 2));
  EXPECT_FALSE(table.prepare_write(const_cast<std::byte*>(snapshot.begin()), 1));
}

TEST_P(TableOf, WritesToASnapshotAreRefusedByName) {
  const PagePool pool = pool_of(12);
  auto table = RewiredTable::open(pool, {.bytes = 2 * page_bytes(),
                                         .detection = GetParam().detection,
                                         .policy = ErrorPolicy::recover,
                                         .name = "orders"});
  ASSERT_TRUE(table);
  Snapshot snapshot = take(*table);
  auto* const frozen = const_cast<uint64_t*>(snapshot.begin<uint64_t>());
  const auto outcome = RecoveryPoint::run([&] { write(frozen + 3, 1); });
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().code, ErrorCode::invalid_argument);
  EXPECT_NE(outcome.error().message().find("snapshot 1 of orders"), std::string::npos)
      << outcome.error().message();
  EXPECT_NE(outcome.error().message().find("byte 24"), std::string::npos);
  EXPECT_EQ(read(frozen + 3), 0u);
  EXPECT_EQ(read(table->begin<uint64_t>() + 3), 0u);

  // Without a recovery point the program ends, as with the policy stop.
  EXPECT_DEATH(write(frozen, 1),
               "snapshot 1 of orders: cannot write to byte 0: a snapshot can only "
               "be read");
}

TEST_P(TableOf, AChildSeesItsSnapshotAndNothingElse) {
  const PagePool pool = pool_of(64);
  RewiredTable table = table_of(pool, 8);
  auto* const live = table.begin<uint64_t>();
  for (uint64_t page = 0; page < 8; ++page) write(live + page * page_items(), page + 1);
  std::optional<Snapshot> snapshot = take(table);
  int go[2];
  ASSERT_EQ(pipe(go), 0);

  const pid_t child = fork();
  if (child == 0) {
    // Closing the pipe tells the child that everything was written, several times.
    close(go[1]);
    char byte;
    if (::read(go[0], &byte, 1) != 1) _exit(3);
    bool right = true;
    for (uint64_t page = 0; page < 8; ++page)
      right &= read(snapshot->begin<uint64_t>() + page * page_items()) == page + 1;
    if (table.snapshot()) right = false;
    if (table.merge_equal_pages()) right = false;
    snapshot.reset();
    RewiredTable gone = std::move(table);
    _exit(right ? 0 : 1);
  }
  ASSERT_TRUE(snapshot->keep_while(child));
  snapshot.reset();
  EXPECT_EQ(table.counts().snapshots, 1u);
  for (uint64_t round = 0; round < 4; ++round) {
    const Snapshot another = take(table);
    for (uint64_t page = 0; page < 8; ++page) write(live + page * page_items(), 100 * round + page);
  }
  ASSERT_EQ(::write(go[1], "x", 1), 1);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  close(go[0]);
  close(go[1]);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (table.counts().snapshots > 0 && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(table.counts().snapshots, 0u);
  EXPECT_EQ(pool.pages_taken(), GetParam().detection == WriteDetection::signal ? 8u : 16u);
  for (uint64_t page = 0; page < 8; ++page) EXPECT_EQ(read(live + page * page_items()), 300 + page);
}

TEST_P(TableOf, AChildCannotStoreIntoTheTable) {
  const PagePool pool = pool_of(24);
  RewiredTable table = table_of(pool, 8);
  const Snapshot snapshot = take(table);
  write(table.begin<uint64_t>() + 2 * page_items(), 1);  // copied: its page is mapped anew
  for (const uint64_t page : {0, 2}) {
    const pid_t child = fork();
    if (child == 0) {
      signal(SIGSEGV, SIG_DFL);
      write(table.begin<uint64_t>() + page * page_items(), 99);
      _exit(0);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV) << status;
  }
  EXPECT_EQ(read(table.begin<uint64_t>()), 0u);
  EXPECT_EQ(read(table.begin<uint64_t>() + 2 * page_items()), 1u);
}

TEST_P(TableOf, AChildLearnsWhoseTableItIs) {
  GTEST_FLAG_SET(death_test_style, "fast");  // in a forked child
  const PagePool pool = pool_of(24);
  RewiredTable table = table_of(pool, 8);
  write(table.begin<uint64_t>(), 5);
  EXPECT_DEATH(write(table.begin<uint64_t>(), 99),
               "in a forked child: it belongs to process " + std::to_string(getpid()));
  EXPECT_EQ(read(table.begin<uint64_t>()), 5u);
}

TEST_P(TableOf, KeepingForNoProcessIsAnError) {
  const PagePool pool = pool_of(12);
  RewiredTable table = table_of(pool, 1);
  const pid_t child = fork();
  if (child == 0) _exit(0);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  const Status status = take(table).keep_while(child);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::not_found);
}

// ---- detection by signals

RewiredTable::Options options_of(uint64_t pages) {
  return {.bytes = pages * 4 * KiB, .policy = ErrorPolicy::recover};
}
constexpr size_t page_items = 512;

TEST(RewiredTable, CopiesEachPageOnceForASnapshot) {
  const PagePool pool = open_pool(1 * MiB);
  RewiredTable table = open_table(pool, options_of(16));
  auto* const live = table.begin<uint64_t>();
  const Snapshot snapshot = take(table);
  EXPECT_EQ(table.counts().pages_read_only, 16u);
  for (uint64_t i = 0; i < 100; ++i) write(live + i, i);
  for (uint64_t i = 0; i < 100; ++i) write(live + 5 * page_items + i, i);
  EXPECT_EQ(table.counts().pages_copied, 2u);
  EXPECT_EQ(table.counts().pages_read_only, 14u);
  EXPECT_EQ(pool.pages_taken(), 18u);
  EXPECT_EQ(table.counts().snapshots, 1u);
}

TEST(RewiredTable, TheEndOfTheLastSnapshotLiftsTheProtection) {
  const PagePool pool = open_pool(1 * MiB);
  RewiredTable table = open_table(pool, options_of(16));
  auto* const live = table.begin<uint64_t>();
  Snapshot first = take(table);
  write(live, 1);
  Snapshot second = take(table);
  first = {};
  EXPECT_EQ(table.counts().pages_read_only, 16u);
  second = {};
  EXPECT_EQ(table.counts().pages_read_only, 0u);
  EXPECT_EQ(pool.pages_taken(), 16u);
  for (uint64_t page = 0; page < 16; ++page) write(live + page * page_items, page);
  EXPECT_EQ(table.counts().pages_copied, 1u);
  EXPECT_EQ(table.counts().pages_unshared, 0u);  // no write lifted it
}

// The kernel notes writes to the table; a fault for each page would cost what that saves.
TEST(RewiredTable, AnImagesTableIsWrittenWithoutFaults) {
  if (const auto why = missing(WriteDetection::asynchronous)) GTEST_SKIP() << *why;
  const PagePool pool = open_pool(1 * MiB);
  RewiredTable table =
      open_table(pool, {.bytes = 16 * 4 * KiB, .detection = WriteDetection::asynchronous});
  auto* const live = table.begin<uint64_t>();
  const Snapshot snapshot = take(table);
  for (uint64_t page = 0; page < 16; ++page) write(live + page * page_items, page);
  EXPECT_EQ(table.counts().pages_unshared, 0u);
}

TEST(RewiredTable, APageThatNobodyElseHasIsNotCopied) {
  const PagePool pool = open_pool(1 * MiB);
  RewiredTable table = open_table(pool, options_of(4));
  auto* const live = table.begin<uint64_t>();
  Snapshot first = take(table);
  write(live, 1);
  const Snapshot second = take(table);
  write(live + page_items, 1);
  const Snapshot third = take(table);
  write(live + page_items, 2);
  // The second and the third snapshot show the first page; the table's own is another.
  write(live, 2);
  EXPECT_EQ(table.counts().pages_copied, 4u);
  const Snapshot fourth = take(table);
  EXPECT_EQ(table.counts().pages_unshared, 0u);
  write(live, 3);
  EXPECT_EQ(table.counts().pages_copied, 5u);
}

TEST(RewiredTable, AnEarlierSnapshotsEndLeavesPagesToTheNextWrite) {
  const PagePool pool = open_pool(1 * MiB);
  RewiredTable table = open_table(pool, options_of(4));
  auto* const live = table.begin<uint64_t>();
  const Snapshot first = take(table);
  write(live, 1);  // the first snapshot's page is now its own
  Snapshot second = take(table);
  second = {};  // the first is alive: nothing is lifted yet
  EXPECT_EQ(table.counts().pages_read_only, 4u);
  write(live, 2);
  EXPECT_EQ(table.counts().pages_copied, 1u);
  EXPECT_EQ(table.counts().pages_unshared, 1u);
  EXPECT_EQ(read(first.begin<uint64_t>()), 0u);
}

TEST(RewiredTable, APoolThatIsEmptyIsAnErrorAndNothingIsLost) {
  const PagePool pool = open_pool(6 * 4 * KiB);
  RewiredTable table = open_table(pool, options_of(4));
  auto* const live = table.begin<uint64_t>();
  for (uint64_t page = 0; page < 4; ++page) write(live + page * page_items, page + 1);
  std::optional<Snapshot> snapshot = take(table);
  write(live, 10);
  write(live + page_items, 20);
  const auto outcome = RecoveryPoint::run([&] { write(live + 2 * page_items, 30); });
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().code, ErrorCode::out_of_memory);
  EXPECT_NE(outcome.error().message().find("write page 2"), std::string::npos)
      << outcome.error().message();
  const Status prepared = table.prepare_write(live, 4 * page_items * 8);
  ASSERT_FALSE(prepared);
  EXPECT_EQ(prepared.error().code, ErrorCode::out_of_memory);
  EXPECT_EQ(read(live + 2 * page_items), 3u);
  EXPECT_EQ(read(live), 10u);
  for (uint64_t page = 0; page < 4; ++page)
    EXPECT_EQ(read(snapshot->begin<uint64_t>() + page * page_items), page + 1);
  snapshot.reset();
  write(live + 2 * page_items, 30);
  EXPECT_EQ(read(live + 2 * page_items), 30u);
  EXPECT_EQ(pool.pages_taken(), 4u);
}

TEST(RewiredTable, APoolThatIsEmptyStopsTheProgramByDefault) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const PagePool pool = open_pool(4 * 4 * KiB);
  RewiredTable table = open_table(pool, {.bytes = 4 * 4 * KiB, .name = "orders"});
  const Snapshot snapshot = take(table);
  EXPECT_DEATH(write(table.begin<uint64_t>() + page_items, 1),
               "orders: cannot write page 1: .*none of the pool's 4 pages is free");
}

TEST(RewiredTable, GuaranteedCopiesNeverFindThePoolEmpty) {
  const PagePool pool = open_pool(12 * 4 * KiB);
  RewiredTable::Options options = options_of(4);
  options.guarantee_copies = true;
  RewiredTable table = open_table(pool, options);
  auto* const live = table.begin<uint64_t>();
  EXPECT_EQ(pool.pages_taken(), 4u);
  std::optional<Snapshot> first = take(table);
  EXPECT_EQ(pool.pages_taken(), 8u);
  write(live, 1);
  write(live + page_items, 1);
  EXPECT_EQ(pool.pages_taken(), 8u);
  std::optional<Snapshot> second = take(table);  // only two of the copies are left
  EXPECT_EQ(pool.pages_taken(), 10u);
  const auto rest = pool.take(2);
  ASSERT_TRUE(rest);
  EXPECT_EQ(pool.pages_free(), 0u);
  for (uint64_t page = 0; page < 4; ++page) write(live + page * page_items, 2);
  EXPECT_EQ(read(second->begin<uint64_t>()), 1u);

  const auto third = table.snapshot();
  ASSERT_FALSE(third);
  EXPECT_EQ(third.error().code, ErrorCode::out_of_memory);
  EXPECT_EQ(table.counts().snapshots, 2u);
  EXPECT_EQ(table.counts().pages_read_only, 0u);  // nothing has changed
  EXPECT_EQ(table.epoch(), 2u);
  first.reset();
  second.reset();
  EXPECT_EQ(pool.pages_taken(), 6u);
}

TEST(RewiredTable, AWriteThatCannotBeMappedLosesNoGuaranteedPage) {
  if (const auto why = MappingsUsedUp::impossible()) GTEST_SKIP() << *why;
  const PagePool pool = open_pool(16 * 4 * KiB);
  RewiredTable::Options options = options_of(8);
  options.guarantee_copies = true;
  RewiredTable table = open_table(pool, options);
  auto* const live = table.begin<uint64_t>();
  const Snapshot snapshot = take(table);
  for (int i = 0; i < 3; ++i) {
    const MappingsUsedUp used_up(0);
    const auto outcome = RecoveryPoint::run([&] { write(live + 3 * page_items, 1); });
    ASSERT_FALSE(outcome);
    EXPECT_EQ(outcome.error().code, ErrorCode::out_of_mappings) << outcome.error().message();
  }
  EXPECT_EQ(pool.pages_taken(), 16u);
  for (uint64_t page = 0; page < 8; ++page) write(live + page * page_items, page + 1);
  for (uint64_t page = 0; page < 8; ++page) {
    EXPECT_EQ(read(live + page * page_items), page + 1);
    EXPECT_EQ(read(snapshot.begin<uint64_t>() + page * page_items), 0u);
  }
}

TEST(RewiredTable, OpensOnlyIfTheWorstCaseCanBeMapped) {
  const PagePool pool = open_pool(1 * MiB, 4 * KiB, 50);
  const auto table = RewiredTable::open(pool, options_of(60));
  ASSERT_FALSE(table);
  EXPECT_EQ(table.error().code, ErrorCode::out_of_mappings);
  EXPECT_EQ(pool.pages_taken(), 0u);
  EXPECT_EQ(pool.mappings(), 0u);
  EXPECT_TRUE(RewiredTable::open(pool, options_of(40)));
}

void expect_a_snapshot_refused(uint64_t mappings_max) {
  SCOPED_TRACE(mappings_max);
  const PagePool pool = open_pool(1 * MiB, 4 * KiB, mappings_max);
  RewiredTable table = open_table(pool, options_of(40));
  auto* const live = table.begin<uint64_t>();
  {
    // Every other page is replaced: the table is in forty pieces.
    const Snapshot snapshot = take(table);
    for (uint64_t page = 0; page < 40; page += 2) write(live + page * page_items, page);
  }
  std::optional<Snapshot> first = take(table);
  const uint64_t copied = table.counts().pages_copied;
  const uint64_t mappings = pool.mappings();
  const auto second = table.snapshot();
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, ErrorCode::out_of_mappings);
  EXPECT_FALSE(second.error().hint.empty());
  EXPECT_EQ(table.counts().snapshots, 1u);
  EXPECT_EQ(pool.mappings(), mappings);
  EXPECT_EQ(pool.pages_taken(), 40u);
  // No write fails because of it.
  for (uint64_t page = 0; page < 40; ++page) write(live + page * page_items, page + 1000);
  EXPECT_EQ(table.counts().pages_copied, copied + 40);
  first.reset();
  EXPECT_TRUE(table.snapshot());
}

// No mapping is left for the snapshot's addresses, or too few for its pages.
TEST(RewiredTable, ASnapshotThatCannotBeMappedChangesNothing) {
  for (const uint64_t mappings_max : {80, 100}) expect_a_snapshot_refused(mappings_max);
}

TEST(RewiredTable, RefusesInvalidOptions) {
  const PagePool pool = open_pool(64 * KiB);
  const auto code = [&](RewiredTable::Options options) {
    const auto table = RewiredTable::open(pool, options);
    return table ? std::optional<ErrorCode>() : table.error().code;
  };
  EXPECT_EQ(code({}), ErrorCode::invalid_argument);
  EXPECT_EQ(code({.bytes = 1 * MiB}), ErrorCode::invalid_argument);
  EXPECT_EQ(code({.bytes = 1, .policy = ErrorPolicy::zeros}), ErrorCode::invalid_argument);
  auto taken = pool.take(10);
  EXPECT_EQ(code({.bytes = 8 * 4 * KiB}), ErrorCode::out_of_memory);
  EXPECT_EQ(pool.pages_taken(), 10u);
  EXPECT_EQ(code({.bytes = 6 * 4 * KiB}), std::nullopt);
}

// ---- merge-on-write

TEST(RewiredTable, EqualPagesAreStoredOnce) {
  const PagePool pool = open_pool(1 * MiB);
  RewiredTable table = open_table(pool, options_of(12));
  auto* const live = table.begin<uint64_t>();
  // Pages 0, 3, 6, 9 have the same contents, pages 1, 4, 7, 10 another, the others differ.
  const auto content = [](uint64_t i) {
    const uint64_t page = i / page_items;
    return page % 3 < 2 ? page % 3 : page;
  };
  for (uint64_t i = 0; i < 12 * page_items; ++i) write(live + i, content(i));
  EXPECT_EQ(pool.pages_taken(), 12u);
  const auto merged = table.merge_equal_pages();
  ASSERT_TRUE(merged) << merged.error().message();
  EXPECT_EQ(merged->pages_equal, 6u);
  EXPECT_EQ(merged->pages_freed, 6u);
  EXPECT_EQ(pool.pages_taken(), 6u);
  EXPECT_EQ(table.epoch(), 0u);
  for (uint64_t i = 0; i < 12 * page_items; ++i) EXPECT_EQ(read(live + i), content(i));
  EXPECT_EQ(table.counts().pages_read_only, 8u);

  // A write copies the page again.
  write(live + 3 * page_items + 5, 99);
  EXPECT_EQ(read(live + 5), 0u);
  EXPECT_EQ(read(live + 6 * page_items + 5), 0u);
  EXPECT_EQ(pool.pages_taken(), 7u);
  const auto again = table.merge_equal_pages();
  ASSERT_TRUE(again);
  EXPECT_EQ(again->pages_equal, 0u);
  EXPECT_EQ(again->pages_freed, 0u);
  // The last page of a kind needs no copy.
  write(live + 1 * page_items, 1);
  write(live + 4 * page_items, 2);
  write(live + 7 * page_items, 3);
  const uint64_t copied = table.counts().pages_copied;
  write(live + 10 * page_items, 4);
  EXPECT_EQ(table.counts().pages_copied, copied);
}

TEST(RewiredTable, SnapshotsKeepMergedPagesUntilTheyEnd) {
  const PagePool pool = open_pool(1 * MiB);
  RewiredTable table = open_table(pool, options_of(8));
  std::optional<Snapshot> snapshot = take(table);
  const auto merged = table.merge_equal_pages();
  ASSERT_TRUE(merged);
  EXPECT_EQ(merged->pages_equal, 7u);
  EXPECT_EQ(merged->pages_freed, 0u);
  EXPECT_EQ(pool.pages_taken(), 8u);
  EXPECT_EQ(table.latest().epoch(), 1u);
  snapshot.reset();
  EXPECT_EQ(pool.pages_taken(), 1u);
  EXPECT_EQ(table.counts().pages_read_only, 8u);
}

// ---- differential updates

TEST(RewiredTable, ChangesAppearAllAtOnce) {
  const PagePool pool = open_pool(1 * MiB);
  RewiredTable table = open_table(pool, options_of(16));
  auto* const live = table.begin<uint64_t>();
  for (uint64_t page = 0; page < 16; ++page) write(live + page * page_items, page);
  const Snapshot before = take(table);
  auto changes = table.changes();
  ASSERT_TRUE(changes);
  for (const uint64_t page : {5, 3, 4, 12, 5}) {
    const auto items = changes->page_of<uint64_t>(page);
    ASSERT_TRUE(items);
    EXPECT_EQ((*items)[0], page == 5 && changes->size() == 4 ? 105 : page);
    (*items)[0] = page + 100;
  }
  EXPECT_EQ(changes->size(), 4u);
  EXPECT_EQ(read(live + 5 * page_items), 5u);
  ASSERT_TRUE(changes->apply());
  EXPECT_EQ(changes->size(), 0u);
  for (uint64_t page = 0; page < 16; ++page) {
    const bool changed = (page >= 3 && page <= 5) || page == 12;
    EXPECT_EQ(read(live + page * page_items), changed ? page + 100 : page);
    EXPECT_EQ(read(before.begin<uint64_t>() + page * page_items), page);
  }
  EXPECT_EQ(table.counts().pages_copied, 0u);
  write(live + 3 * page_items, 1);  // it is the table's own page now
  EXPECT_EQ(table.counts().pages_copied, 0u);
  EXPECT_EQ(pool.pages_taken(), 20u);
  EXPECT_FALSE(changes->page(16));
}

TEST(RewiredTable, ForgottenChangesLeaveNothing) {
  const PagePool pool = open_pool(8 * 4 * KiB);
  RewiredTable table = open_table(pool, options_of(4));
  {
    auto changes = table.changes();
    for (uint64_t page = 0; page < 4; ++page) ASSERT_TRUE(changes->page(page));
    const Snapshot snapshot = take(table);
    const auto outcome = RecoveryPoint::run([&] { write(table.begin<uint64_t>(), 1); });
    EXPECT_FALSE(outcome);
    changes->clear();
    write(table.begin<uint64_t>(), 1);
    ASSERT_TRUE(changes->page(2));
  }
  EXPECT_EQ(pool.pages_taken(), 4u);
  auto changes = table.changes();
  for (uint64_t page = 0; page < 4; ++page) ASSERT_TRUE(changes->page(page));
  auto more = table.changes();
  const auto refused = more->page(0);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::out_of_memory);
}

// A page that is in the table is no longer a change: nobody may store to it through the changes.
TEST(RewiredTable, ChangesThatTheKernelRefusesHalfWayAreEitherInTheTableOrKept) {
  if (const auto why = MappingsUsedUp::impossible()) GTEST_SKIP() << *why;
  bool was_half_way = false;
  for (uint64_t left = 0; left < 8; ++left) {
    SCOPED_TRACE(left);
    const PagePool pool = open_pool(1 * MiB);
    RewiredTable table = open_table(pool, options_of(8));
    auto* const live = table.begin<uint64_t>();
    auto changes = table.changes();
    ASSERT_TRUE(changes);
    // Pages 3 and 4 are neighbours, their copies are not.
    for (const uint64_t page : {4, 3, 6}) (*changes->page_of<uint64_t>(page))[0] = 100 + page;
    const Status status = [&] {
      const MappingsUsedUp used_up(left);
      return changes->apply();
    }();
    uint64_t applied = 0;
    for (const uint64_t page : {3, 4, 6}) applied += read(live + page * page_items) == 100 + page;
    EXPECT_EQ(status.has_value(), applied == 3);
    if (!status) {
      EXPECT_EQ(status.error().code, ErrorCode::out_of_mappings) << status.error().message();
    }
    EXPECT_EQ(changes->size(), 3 - applied);
    EXPECT_EQ(pool.pages_taken(), 8 + changes->size());
    was_half_way |= applied == 1;
    ASSERT_TRUE(changes->apply());
    for (const uint64_t page : {3, 4, 6}) EXPECT_EQ(read(live + page * page_items), 100 + page);
    EXPECT_EQ(pool.pages_taken(), 8u);
  }
  EXPECT_TRUE(was_half_way);
}

TEST(RewiredTable, ChangesToASnapshotNoticeThatTheTableHasMovedOn) {
  const PagePool pool = open_pool(1 * MiB);
  RewiredTable table = open_table(pool, options_of(4));
  auto* const live = table.begin<uint64_t>();
  const Snapshot base = take(table);
  auto changes = table.changes(base);
  auto other = table.changes(base);
  ASSERT_TRUE(changes && other);
  (*changes->page_of<uint64_t>(0))[0] = 1;
  (*changes->page_of<uint64_t>(1))[0] = 1;
  (*other->page_of<uint64_t>(3))[0] = 3;
  write(live + page_items + 1, 5);
  write(live + 2 * page_items, 6);
  const Status status = changes->apply();
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::cancelled);
  EXPECT_EQ(read(live), 0u);
  EXPECT_EQ(changes->size(), 2u);
  EXPECT_TRUE(other->apply());
  EXPECT_EQ(read(live + 3 * page_items), 3u);
  EXPECT_TRUE(changes->apply_anyway());
  EXPECT_EQ(read(live), 1u);
  EXPECT_EQ(read(live + page_items + 1), 0u);

  RewiredTable another = open_table(pool, options_of(4));
  EXPECT_FALSE(another.changes(base));
}

// ---- asynchronous

TEST(RewiredTable, AsynchronousSnapshotsCopyOnlyWhatWasWritten) {
  if (const auto why = missing(WriteDetection::asynchronous)) GTEST_SKIP() << *why;
  const PagePool pool = open_pool(1 * MiB);
  RewiredTable::Options options = options_of(16);
  options.detection = WriteDetection::asynchronous;
  RewiredTable table = open_table(pool, options);
  auto* const live = table.begin<uint64_t>();
  std::optional<Snapshot> first = take(table);
  const uint64_t all = table.counts().pages_copied;
  EXPECT_GE(all, 16u);
  EXPECT_EQ(pool.pages_taken(), 32u);
  write(live + 3 * page_items, 1);
  write(live + 9 * page_items, 1);
  std::optional<Snapshot> second = take(table);
  EXPECT_EQ(table.counts().pages_copied, all + 2);
  EXPECT_EQ(pool.pages_taken(), 34u);
  EXPECT_EQ(read(first->begin<uint64_t>() + 3 * page_items), 0u);
  EXPECT_EQ(read(second->begin<uint64_t>() + 3 * page_items), 1u);
  first.reset();
  EXPECT_EQ(pool.pages_taken(), 32u);
  second.reset();
  write(live + 3 * page_items, 2);
  const Snapshot third = take(table);  // copied in place
  EXPECT_EQ(pool.pages_taken(), 32u);
  EXPECT_EQ(read(third.begin<uint64_t>() + 3 * page_items), 2u);
  EXPECT_FALSE(table.merge_equal_pages());
  EXPECT_FALSE(table.changes());
}

TEST(RewiredTable, AsynchronousSnapshotsOutOfMemoryLoseNothing) {
  if (const auto why = missing(WriteDetection::asynchronous)) GTEST_SKIP() << *why;
  const PagePool pool = open_pool(10 * 4 * KiB);
  RewiredTable::Options options = options_of(4);
  options.detection = WriteDetection::asynchronous;
  RewiredTable table = open_table(pool, options);
  auto* const live = table.begin<uint64_t>();
  std::optional<Snapshot> first = take(table);
  for (uint64_t page = 0; page < 4; ++page) write(live + page * page_items, page + 1);
  const auto refused = table.snapshot();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::out_of_memory);
  for (uint64_t page = 0; page < 4; ++page)
    EXPECT_EQ(read(first->begin<uint64_t>() + page * page_items), 0u);
  first.reset();
  const Snapshot second = take(table);
  for (uint64_t page = 0; page < 4; ++page)
    EXPECT_EQ(read(second.begin<uint64_t>() + page * page_items), page + 1);
  EXPECT_EQ(second.epoch(), 2u);
}

}  // namespace
}  // namespace penstock::rewire
