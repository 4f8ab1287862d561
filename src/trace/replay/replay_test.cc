#include "trace/replay/replay.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/bits.h"
#include "base/random.h"
#include "base/temporary_folder_fixture.h"
#include "trace/replay/replay_fixture.h"

namespace penstock::trace {
namespace {

using io::sector_bytes;

TEST(SimulatedReplay, TakesTheTimeOfEquationOne) {
  TemporaryFolder folder;
  ReplayScript script(folder / "t");
  const uint32_t a = script.file("/a", 8 * MiB), b = script.file("/b", 8 * MiB);
  for (uint64_t i = 0; i < 8; ++i) script.request(a, Access::read, i * MiB, MiB);   // 1 seek
  for (uint64_t i = 0; i < 4; ++i) script.request(b, Access::write, i * MiB, MiB);  // 1 seek
  script.request(b, Access::write, 7 * MiB, MiB);                                   // 1 seek
  script.request(a, Access::read, 0, MiB);                                          // 1 seek
  const ReplayResult result = simulated(script.finish());
  EXPECT_EQ(result.totals.seeks, 4u);
  EXPECT_EQ(result.totals.trace_seeks, 4u);
  EXPECT_EQ(result.totals.read_bytes, 9 * MiB);
  EXPECT_EQ(result.totals.written_bytes, 5 * MiB);
  const auto mib = static_cast<double>(MiB);
  EXPECT_NEAR(result.seconds, 9 * mib / 100e6 + 5 * mib / 50e6 + 4 * 0.01, 1e-9);
  EXPECT_EQ(result.runs[20], 2u);
  EXPECT_EQ(result.runs[22], 1u);
  EXPECT_EQ(result.runs[23], 1u);
  EXPECT_EQ(result.files[1].seeks, 2u);
  EXPECT_EQ(result.files[0].mean_run_bytes(), 4.5 * mib);
  EXPECT_NEAR(result.totals.busy_seconds, result.seconds, 1e-9);
}

TEST(SimulatedReplay, ASyncCostsASwitchAndIsNoSeek) {
  TemporaryFolder folder;
  ReplayScript script(folder / "t");
  const uint32_t a = script.file("/a", MiB), b = script.file("/b", MiB), c = script.file("/c", MiB);
  script.sync(a);  // before any request
  script.request(a, Access::write, 0, 4096);
  script.sync(a);
  script.request(a, Access::write, 4096, 4096);
  script.sync(b);
  script.sync(c);  // a file without replayed requests
  script.request(b, Access::read, 0, 4096);
  const std::string trace = script.finish();
  const ReplayResult result = simulated(trace);
  EXPECT_EQ(result.totals.syncs, 2u);
  EXPECT_EQ(result.files[0].syncs, 1u);
  EXPECT_EQ(result.totals.seeks, 2u);
  EXPECT_EQ(result.totals.requests(), 3u);
  EXPECT_NEAR(result.totals.sync_seconds, 0.02, 1e-9);
  EXPECT_NEAR(result.seconds, 8192 / 50e6 + 4096 / 100e6 + 4 * 0.01, 1e-9);
  const ReplayResult without = simulated(trace, {.sync = false});
  EXPECT_EQ(without.totals.syncs, 0u);
  EXPECT_NEAR(without.seconds, result.seconds - 0.02, 1e-9);
  EXPECT_EQ(planned(trace).syncs, 2u);
  // A part contains the syncs behind its requests.
  EXPECT_EQ(planned(trace, {.requests = 1}).syncs, 1u);
  EXPECT_EQ(planned(trace, {.first_request = 1}).syncs, 1u);
}

// Appends to a log with syncs write its last sector repeatedly.
TEST(Transfers, AfterASyncTheLastSectorIsWrittenAgain) {
  for (const bool syncs : {false, true}) {
    TemporaryFolder folder;
    ReplayScript script(folder / "t");
    const uint32_t a = script.file("/a", MiB);
    for (uint64_t i = 0; i < 40; ++i) {
      script.request(a, Access::write, i * 100, 100);
      if (syncs) script.sync(a);
    }
    const ReplayResult result = simulated(script.finish());
    EXPECT_EQ(result.totals.moved_written_bytes, syncs ? 40 * sector_bytes : sector_bytes);
    EXPECT_EQ(result.totals.syncs, syncs ? 40u : 0u);
  }
}

// A step from the end of one file to the beginning of the next one is a seek, although they are
// neighbours in the region.
TEST(SimulatedReplay, NeighbourFilesAreNotOneFile) {
  TemporaryFolder folder;
  ReplayScript script(folder / "t");
  const uint32_t a = script.file("/a", MiB), b = script.file("/b", MiB);
  script.request(a, Access::read, 0, MiB);
  script.request(b, Access::read, 0, MiB);
  EXPECT_EQ(simulated(script.finish()).totals.seeks, 2u);
}

TEST(SimulatedReplay, AtTheOriginalPaceItLastsAsLongAsTheTrace) {
  TemporaryFolder folder;
  ReplayScript script(folder / "t");
  const uint32_t a = script.file("/a", MiB);
  script.request_at(a, Access::read, 0, 4096, 1, 5'000'000'000, 1000);
  script.request_at(a, Access::read, 4096, 4096, 1, 65'000'000'000, 1000);
  script.request_at(a, Access::read, 512 * KiB, 4096, 1, 65'000'001'000, 1000);
  const std::string trace = script.finish();
  const ReplayOptions paced{.pace = Pace::original};
  const ReplayResult result = simulated(trace, paced);
  EXPECT_NEAR(result.seconds, 60 + 2 * 4096 / 100e6 + 0.01, 1e-6);
  EXPECT_NEAR(result.late_seconds_max, 4096 / 100e6 - 1e-6, 1e-6);
  EXPECT_LT(simulated(trace).seconds, 1);
}

// Compares joining and widening with a plain model, for random requests that often continue others.
TEST(Transfers, MoveTheSectorsOfTheRequestsAndSharedOnesOnce) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    TemporaryFolder folder;
    Random random(seed);
    ReplayScript script(folder / "t");
    struct Known {
      uint32_t file;
      Access access;
      uint64_t offset, bytes;
    };
    std::vector<Known> requests;
    std::vector<uint32_t> files;
    const size_t file_count = 1 + random.below(3);
    for (size_t i = 0; i < file_count; ++i) {
      files.push_back(script.file("/f" + std::to_string(i), 16 * MiB));
    }
    std::vector<uint64_t> ends(file_count + 1, 0);
    for (int i = 0; i < 400; ++i) {
      Known next{.file = files[random.below(file_count)],
                 .access = random.below(4) == 0 ? Access::write : Access::read,
                 .offset = random.below(8 * MiB),
                 .bytes = 1 + random.below(uint64_t{1} << random.below(22))};
      if (random.below(4) == 0) next.bytes = round_up(next.bytes, sector_bytes);
      if (!requests.empty() && random.below(3) != 0) {
        next.file = requests.back().file;
        next.access = requests.back().access;
      }
      if (random.below(4) != 0) next.offset = ends[next.file];
      if (next.offset > 12 * MiB) next.offset = 0;
      ends[next.file] = next.offset + next.bytes;
      requests.push_back(next);
      script.request(next.file, next.access, next.offset, next.bytes);
    }
    const std::string trace = script.finish();
    for (const bool join : {false, true}) {
      // The model joins and widens in two steps.
      std::vector<Known> joined;
      for (const Known& next : requests) {
        if (join && !joined.empty() && joined.back().file == next.file &&
            joined.back().access == next.access &&
            joined.back().offset + joined.back().bytes == next.offset &&
            joined.back().bytes + next.bytes <= transfer_bytes_max) {
          joined.back().bytes += next.bytes;
        } else {
          joined.push_back(next);
        }
      }
      uint64_t moved = 0, transfers = 0, widened = 0;
      std::map<uint32_t, Known> last;
      for (const Known& next : joined) {
        const auto before = last.find(next.file);
        std::set<uint64_t> sectors;
        for (uint64_t s = next.offset / sector_bytes;
             s <= (next.offset + next.bytes - 1) / sector_bytes; ++s) {
          sectors.insert(s);
        }
        if (before != last.end() && before->second.access == next.access &&
            before->second.offset + before->second.bytes == next.offset) {
          if (next.offset % sector_bytes != 0) sectors.erase(next.offset / sector_bytes);
        }
        last[next.file] = next;
        if (sectors.empty()) continue;
        ++transfers;
        moved += sectors.size() * sector_bytes;
        widened += *sectors.begin() * sector_bytes < next.offset ||
                   (*sectors.rbegin() + 1) * sector_bytes > next.offset + next.bytes;
      }
      const ReplayResult result = simulated(trace, {.join = join});
      EXPECT_EQ(result.totals.requests(), requests.size());
      EXPECT_EQ(result.totals.moved_bytes(), moved);
      EXPECT_EQ(result.totals.transfers, transfers);
      EXPECT_EQ(result.widened, widened);
      EXPECT_EQ(result.joined, requests.size() - joined.size());
      EXPECT_EQ(result.shared_sector, joined.size() - transfers);
      const ReplayResult exact = simulated(trace, {.join = join, .buffered = true});
      EXPECT_EQ(exact.totals.moved_bytes(), exact.totals.bytes());
      EXPECT_EQ(exact.totals.transfers, joined.size());
    }
  }
}

TEST(Transfers, SmallSequentialRequestsMoveEachSectorOnce) {
  TemporaryFolder folder;
  ReplayScript script(folder / "t");
  const uint32_t a = script.file("/a", MiB);
  for (uint64_t i = 0; i < 10'000; ++i) script.request(a, Access::write, 100 * i, 100);
  const ReplayResult result = simulated(script.finish());
  EXPECT_EQ(result.totals.moved_bytes(), round_up(1'000'000, sector_bytes));
  EXPECT_EQ(result.totals.seeks, 1u);
  EXPECT_EQ(result.totals.transfers, 245u);
}

TEST(Plan, PartsCountRequestsToTheSelectedFiles) {
  TemporaryFolder folder;
  ReplayScript script(folder / "t");
  const uint32_t a = script.file("/in/a", MiB), b = script.file("/lib/b", 64 * MiB),
                 c = script.file("/tmp/c", MiB);
  for (uint64_t i = 0; i < 10; ++i) {
    script.request(a, Access::read, i * 4096, 4096);
    script.request(b, Access::read, i * 4096, 4096);
    script.request(c, Access::write, i * 4096, 4096);
  }
  const std::string trace = script.finish();
  const ReplayOptions options{.under = {"/in/", "/tmp/"}, .first_request = 4, .requests = 6};
  const ReplayPlan plan = planned(trace, options);
  EXPECT_EQ(plan.requests, 6u);
  EXPECT_EQ(plan.layout.files, 2u);
  EXPECT_EQ(plan.files_read, 1u);
  EXPECT_EQ(plan.files_written, 1u);
  EXPECT_LE(plan.layout.bytes, 3 * MiB);
  const ReplayResult result = simulated(trace, options);
  EXPECT_EQ(result.totals.reads, 3u);
  EXPECT_EQ(result.totals.writes, 3u);
  EXPECT_EQ(result.files[1].requests(), 0u);
}

TEST(Plan, ImpossibleReplaysAreErrors) {
  TemporaryFolder folder;
  ReplayScript script(folder / "t");
  const uint32_t a = script.file("/a", MiB);
  script.request(a, Access::read, 0, 10);
  const std::string trace = script.finish();
  auto code = [](const Result<ReplayPlan>& plan) {
    return plan ? std::string() : plan.error().message();
  };
  EXPECT_NE(code(plan_replay("-", {})).find("twice"), std::string::npos);
  EXPECT_NE(code(plan_replay(folder / "none", {})).find("No such file"), std::string::npos);
  EXPECT_NE(code(plan_replay(trace, {.under = {"/b"}})).find("no request"), std::string::npos);
  EXPECT_NE(code(plan_replay(trace, {.first_request = 1})).find("no request"), std::string::npos);
  EXPECT_NE(code(plan_replay(trace, {.depth = 0})).find("1 to 64"), std::string::npos);
  EXPECT_NE(code(plan_replay(trace, {.pace = Pace::original, .join = true})).find("--join"),
            std::string::npos);
}

TEST(Plan, LargestOffsetsAreSimulatedOrRefused) {
  TemporaryFolder folder;
  ReplayScript script(folder / "t");
  const uint32_t a = script.file("/a", 0), b = script.file("/b", largest_offset);
  script.request(a, Access::write, largest_offset - 10, 10);
  script.request(a, Access::write, 0, uint64_t{1} << 61);
  script.request(b, Access::read, 5, 1);
  const std::string trace = script.finish();
  const auto plan = plan_replay(trace, {});
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().code, ErrorCode::unsupported);

  ReplayScript second(folder / "u");
  const uint32_t c = second.file("/c", uint64_t{1} << 61);
  second.request(c, Access::read, 1, (uint64_t{1} << 61) - 1);
  const std::string large = second.finish();
  const ReplayResult result = simulated(large);
  EXPECT_EQ(result.totals.moved_bytes(), uint64_t{1} << 61);
  EXPECT_GT(result.seconds, 1e10);
  // No disk has that much. The error comes before anything is written or reserved.
  const auto region =
      ReplayRegion::open({.directory = folder.path(), .bytes = planned(large).layout.bytes});
  ASSERT_FALSE(region);
  EXPECT_EQ(region.error().code, ErrorCode::out_of_space);
}

// Any numbers give a result or an error.
TEST(Plan, HostileNumbersAreAnErrorOrReplayed) {
  int replayed = 0;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    TemporaryFolder folder;
    Random random(seed);
    // Some traces have only numbers that are small enough for a replay.
    const uint64_t shift = random.below(64);
    auto any = [&](uint64_t most) {
      const uint64_t value = random.next() >> shift >> random.below(64 - shift);
      return shift < 8 && random.below(8) == 0 ? most : std::min(value, most);
    };
    ReplayScript script(folder / "t");
    std::vector<uint32_t> files;
    for (int i = 0; i < 3; ++i) {
      files.push_back(
          script.file("/f" + std::to_string(i), any(largest_offset),
                      random.below(3) == 0 ? FileKind::block_device : FileKind::regular));
    }
    for (int i = 0; i < 20; ++i) {
      const uint64_t offset = any(largest_offset);
      script.request_at(files[random.below(3)], random.below(2) == 0 ? Access::read : Access::write,
                        offset, any(largest_offset - offset), static_cast<int32_t>(any(0x7fffffff)),
                        any(~uint64_t{0}), any(~uint64_t{0}));
    }
    const std::string trace = script.finish();
    for (const Pace pace : {Pace::fast, Pace::original}) {
      const ReplayOptions options{.room = seed % 2 == 0 ? Room::peak : Room::touched,
                                  .pace = pace,
                                  .join = pace == Pace::fast && seed % 3 == 0};
      const auto plan = plan_replay(trace, options);
      if (!plan) continue;
      const auto result = simulate_replay(trace, *plan, device, options);
      ASSERT_TRUE(result) << result.error().message();
      EXPECT_EQ(result->totals.requests(), plan->requests);
      ++replayed;
    }
  }
  EXPECT_GT(replayed, 100);
}

}  // namespace
}  // namespace penstock::trace
