#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "base/bits.h"
#include "base/random.h"
#include "base/temporary_folder_fixture.h"
#include "io/emulation.h"
#include "test/support/injection.h"
#include "trace/replay/replay.h"
#include "trace/replay/replay_fixture.h"

// Replays on files of a disk.

namespace penstock::trace {
namespace {

namespace fs = std::filesystem;
using io::sector_bytes;

class OnFiles : public ::testing::TestWithParam<io::EngineKind> {
 protected:
  void SetUp() override {
    const auto engine = io::Engine::open({.depth = 1, .kind = GetParam()});
    if (!engine && GetParam() == io::EngineKind::io_uring) {
      GTEST_SKIP() << engine.error().message();
    }
    const auto region = ReplayRegion::open({.directory = folder_.path(), .bytes = sector_bytes});
    if (!region && region.error().code == ErrorCode::unsupported) {
      GTEST_SKIP() << region.error().message();
    }
    ASSERT_TRUE(region) << region.error().message();
  }
  void TearDown() override {
    io::emulate(std::nullopt);
    io::inject({});
  }
  ReplayRegion region(uint64_t bytes, bool buffered = false) {
    auto opened =
        ReplayRegion::open({.directory = folder_.path(), .bytes = bytes, .buffered = buffered});
    EXPECT_TRUE(opened) << opened.error().message();
    return std::move(*opened);
  }
  ReplayOptions options() const { return {.engine = GetParam()}; }

  TemporaryFolder folder_;
};

std::vector<std::byte> contents(const ReplayRegion& region) {
  std::vector<std::byte> bytes(region.bytes());
  EXPECT_TRUE(io::read_exactly(region.file(), 0, bytes.data(), bytes.size()));
  return bytes;
}

// Checks which bytes of the region a replay writes.
TEST_P(OnFiles, WritesLandInTheirFilesExtentsAlone) {
  for (const uint64_t seed : {1u, 2u, 3u, 4u}) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random(seed);
    struct Write {
      size_t file;
      uint64_t offset, bytes;
    };
    std::vector<Write> writes;
    uint64_t asked = 0;
    ReplayScript script(folder_ / "t");
    std::vector<uint32_t> files;
    for (int i = 0; i < 5; ++i) files.push_back(script.file("/f" + std::to_string(i), MiB));
    for (int i = 0; i < 200; ++i) {
      const size_t f = random.below(5);
      const uint64_t offset = random.below(MiB);
      const uint64_t bytes = 1 + random.below(i == 50 ? 4 * MiB : 20'000);
      const auto access = random.below(2) == 0 ? Access::read : Access::write;
      if (access == Access::write) writes.push_back({f, offset, bytes});
      asked += bytes;
      script.request(files[f], access, offset, bytes, static_cast<int32_t>(random.below(4)));
    }
    const std::string trace = script.finish();
    ReplayOptions how = options();
    how.buffered = seed % 2 == 0;
    const ReplayPlan plan = planned(trace, how);
    ReplayRegion space = region(plan.layout.bytes, how.buffered);
    const auto result = replay(trace, plan, space, how);
    ASSERT_TRUE(result) << result.error().message();
    EXPECT_EQ(result->totals.bytes(), asked);
    EXPECT_EQ(result->totals.requests(), 200u);

    const std::vector<std::byte> found = contents(space);
    std::vector<char> expected(found.size(), 0);
    for (const Write& write : writes) {
      uint64_t begin = write.offset, end = write.offset + write.bytes;
      if (!how.buffered) {
        begin = round_down(begin, sector_bytes);
        end = round_up(end, sector_bytes);
      }
      const auto at =
          expected.begin() + static_cast<ptrdiff_t>(plan.layout.extents[write.file].base);
      std::fill(at + static_cast<ptrdiff_t>(begin), at + static_cast<ptrdiff_t>(end), 1);
    }
    for (uint64_t at = 0; at < found.size(); at += sector_bytes) {
      uint64_t wanted = 0, written = 0, elsewhere = 0;
      for (uint64_t i = at; i < at + sector_bytes; ++i) {
        wanted += expected[i] != 0;
        written += found[i] != std::byte{0};
        elsewhere += expected[i] == 0 && found[i] != std::byte{0};
      }
      ASSERT_EQ(elsewhere, 0u) << "at " << at;
      // Some random bytes are 0.
      if (wanted > 64) {
        ASSERT_GT(written, wanted / 2) << "at " << at;
      }
    }
  }
}

TEST_P(OnFiles, FilesOfTheTraceAreNotTouched) {
  const std::string precious = folder_ / "precious";
  std::ofstream(precious) << "what I wrote for years";
  const auto time = fs::last_write_time(precious);
  ReplayScript script(folder_ / "t");
  const uint32_t a = script.file(precious, 22);
  script.request(a, Access::write, 0, 22);
  script.request(a, Access::write, 100'000, 4096);
  const std::string trace = script.finish();
  const ReplayPlan plan = planned(trace);
  ReplayRegion space = region(plan.layout.bytes);
  ASSERT_TRUE(space.fill());
  ASSERT_TRUE(replay(trace, plan, space, options()));
  std::ifstream file(precious);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), "what I wrote for years");
  EXPECT_EQ(fs::last_write_time(precious), time);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_.path()), {}), 2) << "no file is left";
}

TEST_P(OnFiles, ASerialReplayMakesTheSeeksOfTheTrace) {
  Random random(11);
  ReplayScript script(folder_ / "t");
  const uint32_t files[] = {script.file("/a", 4 * MiB), script.file("/b", 4 * MiB)};
  uint64_t next[] = {0, 0};
  for (int i = 0; i < 300; ++i) {
    const size_t f = random.below(2);
    if (random.below(3) == 0) next[f] = random.below(900) * sector_bytes;
    const uint64_t bytes = (1 + random.below(16)) * sector_bytes;
    script.request(files[f], random.below(2) == 0 ? Access::read : Access::write, next[f], bytes,
                   static_cast<int32_t>(random.below(8)));
    next[f] = (next[f] + bytes) % (3 * MiB) / sector_bytes * sector_bytes;
  }
  const std::string trace = script.finish();
  for (const Concurrency how : {Concurrency::serial, Concurrency::ahead, Concurrency::original}) {
    ReplayOptions with = options();
    with.concurrency = how;
    const ReplayPlan plan = planned(trace, with);
    ReplayRegion space = region(plan.layout.bytes);
    const auto result = replay(trace, plan, space, with);
    ASSERT_TRUE(result);
    // Requests of the script never overlap in time, so Concurrency::original is serial, too.
    EXPECT_EQ(result->totals.seeks, result->totals.trace_seeks);
    EXPECT_EQ(result->totals.seeks, plan.conversion.device_seeks);
    EXPECT_EQ(std::accumulate(result->runs.begin(), result->runs.end(), uint64_t{0}),
              result->totals.seeks);
    EXPECT_EQ(result->widened, 0u);
    EXPECT_EQ(result->in_flight_max, how == Concurrency::ahead ? with.depth : 1u);
  }
}

// The emulated device and the model have the same arm.
TEST_P(OnFiles, TheEmulatedDeviceIsAsBusyAsTheSimulatedOneWouldBe) {
  Random random(3);
  ReplayScript script(folder_ / "t");
  const uint32_t a = script.file("/a", 2 * MiB), b = script.file("/b", 2 * MiB);
  for (int i = 0; i < 60; ++i) {
    script.request(random.below(2) == 0 ? a : b,
                   random.below(2) == 0 ? Access::read : Access::write, random.below(MiB),
                   1 + random.below(50'000));
  }
  const std::string trace = script.finish();
  ReplayOptions how = options();
  how.concurrency = Concurrency::ahead;
  const ReplayPlan plan = planned(trace, how);
  ReplayRegion space = region(plan.layout.bytes);
  io::emulate(io::EmulatedDevice{
      .read_bytes_per_s = 400e6, .write_bytes_per_s = 300e6, .switch_seconds = 0.0005});
  ASSERT_TRUE(space.fill());
  EXPECT_EQ(io::emulated_traffic().requests, 0u) << "filling is not measured";
  const auto result = replay(trace, plan, space, how);
  ASSERT_TRUE(result);
  const auto imagined = simulate_replay(trace, plan,
                                        {.name = "the same",
                                         .read_bytes_per_s = 400e6,
                                         .write_bytes_per_s = 300e6,
                                         .switch_seconds = bowtie::SwitchDelay(0.0005)},
                                        how);
  ASSERT_TRUE(imagined);
  ASSERT_TRUE(result->emulated_busy_seconds);
  EXPECT_NEAR(*result->emulated_busy_seconds, imagined->seconds, 1e-6);
  EXPECT_EQ(result->totals.seeks, imagined->totals.seeks);
  EXPECT_EQ(io::emulated_traffic().switches, result->totals.seeks);
  EXPECT_GE(result->seconds, imagined->seconds * 0.99);
}

TEST_P(OnFiles, AtTheOriginalPaceNoRequestIsEarly) {
  ReplayScript script(folder_ / "t");
  const uint32_t a = script.file("/a", MiB);
  constexpr uint64_t ms = 1'000'000;
  // The first request of thread 2 is due during a long request of thread 1.
  script.request_at(a, Access::read, 0, MiB, 1, 10 * ms, 200 * ms);
  for (uint64_t i = 0; i < 8; ++i) {
    script.request_at(a, Access::read, i * 4096, 4096, 2, (20 + 20 * i) * ms, ms);
  }
  const std::string trace = script.finish();
  ReplayOptions how = options();
  how.pace = Pace::original;
  const ReplayPlan plan = planned(trace, how);
  ReplayRegion space = region(plan.layout.bytes);
  const auto result = replay(trace, plan, space, how);
  ASSERT_TRUE(result) << result.error().message();
  EXPECT_GE(result->seconds, 0.150);
  EXPECT_EQ(result->totals.reads, 9u);
}

TEST_P(OnFiles, ManyThreadsReplayCompletelyInAnyOrder) {
  for (const uint64_t seed : {21u, 22u, 23u}) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random(seed);
    ReplayScript script(folder_ / "t");
    const uint32_t a = script.file("/a", 8 * MiB);
    uint64_t time = 0, bytes_sum = 0;
    for (int i = 0; i < 3000; ++i) {
      time += random.below(1000);
      const uint64_t bytes = 1 + random.below(i % 500 == 0 ? 5 * MiB : 9000);
      bytes_sum += bytes;
      script.request_at(a, random.below(2) == 0 ? Access::read : Access::write,
                        random.below(3 * MiB), bytes, static_cast<int32_t>(random.below(40)), time,
                        random.below(20'000));
    }
    const std::string trace = script.finish();
    const ReplayPlan plan = planned(trace, options());
    ReplayRegion space = region(plan.layout.bytes);
    const auto result = replay(trace, plan, space, options());
    ASSERT_TRUE(result) << result.error().message();
    EXPECT_EQ(result->totals.bytes(), bytes_sum);
    EXPECT_EQ(result->totals.transfers + result->shared_sector, 3000u);
    EXPECT_GT(result->in_flight_max, 1u);
    EXPECT_LE(result->in_flight_max, replay_depth_max);
  }
}

TEST_P(OnFiles, AnErrorOfTheDiskEndsTheReplayWithThatError) {
  ReplayScript script(folder_ / "t");
  const uint32_t a = script.file("/a", MiB);
  for (uint64_t i = 0; i < 200; ++i) {
    script.request_at(a, i % 2 == 0 ? Access::read : Access::write, i * 4096, 4096,
                      static_cast<int32_t>(i % 16), i, 100);
  }
  const std::string trace = script.finish();
  const ReplayPlan plan = planned(trace);
  ReplayRegion space = region(plan.layout.bytes);
  io::inject({.error = EIO, .error_after = 40, .error_operation = io::Operation::write});
  const auto result = replay(trace, plan, space, options());
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().system_errno, EIO);
  EXPECT_FALSE(space.fill());
  io::inject({.seed = 5, .short_transfer = 0.3, .delay = 0.1, .delay_us_max = 200});
  EXPECT_TRUE(replay(trace, plan, space, options()));
}

TEST_P(OnFiles, SyncsAreMadeInTheirPlace) {
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE(seed);
  Random random(seed);
  ReplayScript script(folder_ / "t");
  const std::array<uint32_t, 2> files = {script.file("/a", MiB), script.file("/b", MiB)};
  uint64_t syncs = 0;
  for (uint64_t i = 0; i < 150; ++i) {
    const uint32_t file = files[i < 2 ? i : random.below(2)];
    const auto thread = static_cast<int32_t>(random.below(5));
    if (i >= 2 && random.below(4) == 0) {
      script.sync(file, thread);
      ++syncs;
    } else {
      script.request(file, random.below(3) == 0 ? Access::read : Access::write,
                     random.below(250) * 4096, 4096, thread);
    }
  }
  const std::string trace = script.finish();
  for (const Concurrency concurrency :
       {Concurrency::original, Concurrency::serial, Concurrency::ahead}) {
    for (const bool buffered : {false, true}) {
      ReplayOptions how = options();
      how.concurrency = concurrency;
      how.buffered = buffered;
      const ReplayPlan plan = planned(trace, how);
      EXPECT_EQ(plan.syncs, syncs);
      ReplayRegion space = region(plan.layout.bytes, buffered);
      const auto result = replay(trace, plan, space, how);
      ASSERT_TRUE(result) << result.error().message();
      EXPECT_EQ(result->totals.syncs, syncs);
      EXPECT_EQ(result->files[0].syncs + result->files[1].syncs, syncs);
      EXPECT_EQ(result->totals.requests(), 150 - syncs);
      EXPECT_GT(result->totals.sync_seconds, 0);
      EXPECT_GE(result->totals.sync_seconds, result->totals.slowest_sync_seconds);
    }
  }
}

// The first sync fails: the replay ends with its error, and without later requests of the thread. For
// this, /dev/null, which cannot be synced, takes the place of the descriptor that syncs use.
TEST_P(OnFiles, AFailedSyncEndsTheReplayBeforeLaterRequests) {
  ReplayScript script(folder_ / "t");
  const uint32_t a = script.file("/a", MiB);
  for (uint64_t i = 0; i < 20; ++i) {
    script.request(a, Access::write, i * 4096, 4096);
    if (i == 9) script.sync(a);
  }
  const std::string trace = script.finish();
  for (const Concurrency concurrency :
       {Concurrency::original, Concurrency::serial, Concurrency::ahead}) {
    ReplayOptions how = options();
    how.concurrency = concurrency;
    const ReplayPlan plan = planned(trace, how);
    ReplayRegion space = region(plan.layout.bytes);
    const int syncs = space.file().buffered_descriptor();
    if (syncs == space.file().descriptor()) GTEST_SKIP() << "no direct requests here";
    const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
    const int real = ::fcntl(syncs, F_DUPFD_CLOEXEC, 0);
    ASSERT_TRUE(null >= 0 && real >= 0 && ::fdatasync(null) != 0);
    ASSERT_EQ(::dup3(null, syncs, O_CLOEXEC), syncs);
    const auto result = replay(trace, plan, space, how);
    ASSERT_EQ(::dup3(real, syncs, O_CLOEXEC), syncs);
    ::close(null);
    ::close(real);
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().system_errno, EINVAL);
    EXPECT_NE(result.error().message().find("bring to the disk"), std::string::npos);
    const std::vector<std::byte> found = contents(space);
    auto is_written = [&](uint64_t i) {
      const auto sector =
          found.begin() + static_cast<ptrdiff_t>(plan.layout.extents[0].base + i * 4096);
      return std::any_of(sector, sector + 4096, [](std::byte b) { return b != std::byte{0}; });
    };
    for (uint64_t i = 0; i < 20; ++i) EXPECT_EQ(is_written(i), i < 10) << i;
    EXPECT_TRUE(replay(trace, plan, space, how));
  }
}

// Syncs share calls, and each ends once.
TEST_P(OnFiles, SyncsOfManyThreadsAtOnceAllEnd) {
  ReplayScript script(folder_ / "t");
  const uint32_t a = script.file("/a", MiB);
  for (uint64_t i = 0; i < 30; ++i) {
    for (int32_t thread = 0; thread < 20; ++thread) {
      script.request_at(a, Access::write, (i * 8 + thread % 8) * 4096, 4096, thread,
                        i * 1000 + static_cast<uint64_t>(thread), 400);
    }
    for (int32_t thread = 0; thread < 20; ++thread) {
      script.sync_at(a, thread, i * 1000 + 500 + static_cast<uint64_t>(thread), 400);
    }
  }
  const std::string trace = script.finish();
  for (const Concurrency concurrency :
       {Concurrency::original, Concurrency::serial, Concurrency::ahead}) {
    ReplayOptions how = options();
    how.concurrency = concurrency;
    how.depth = replay_depth_max;
    const ReplayPlan plan = planned(trace, how);
    ReplayRegion space = region(plan.layout.bytes);
    const auto result = replay(trace, plan, space, how);
    ASSERT_TRUE(result) << result.error().message();
    EXPECT_EQ(result->totals.syncs, 600u);
    EXPECT_EQ(result->totals.writes, 600u);
    EXPECT_GT(result->totals.slowest_sync_seconds, 0);
    EXPECT_EQ(result->in_flight_max == 1, concurrency == Concurrency::serial);
    // Concurrency::ahead: the first sync of a round finds no call under way, and the others share one.
    const uint64_t calls = result->sync_calls;
    EXPECT_TRUE(concurrency == Concurrency::serial  ? calls == 600
                : concurrency == Concurrency::ahead ? calls == 60
                                                    : calls >= 30 && calls <= 600)
        << calls;
  }
}

TEST_P(OnFiles, CancellationEndsItSoon) {
  ReplayScript script(folder_ / "t");
  const uint32_t a = script.file("/a", MiB);
  script.request_at(a, Access::read, 0, 4096, 1, 0, 10);
  script.request_at(a, Access::read, 0, 4096, 1, 3'600'000'000'000, 10);
  const std::string trace = script.finish();
  const ReplayPlan plan = planned(trace);
  ReplayRegion space = region(plan.layout.bytes);
  std::atomic<bool> cancel = true;
  ReplayOptions how = options();
  how.cancel = &cancel;
  how.pace = Pace::original;
  const auto result = replay(trace, plan, space, how);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::interrupted);
  EXPECT_EQ(space.fill(&cancel).error().code, ErrorCode::interrupted);
  EXPECT_FALSE(plan_replay(trace, how));
}

TEST_P(OnFiles, ATraceThatHasChangedSinceItWasPlannedIsRefused) {
  ReplayScript first(folder_ / "t");
  first.request(first.file("/a", 4096), Access::read, 0, 4096);
  const ReplayPlan plan = planned(first.finish());
  ReplayScript second(folder_ / "u");
  const uint32_t a = second.file("/a", 4096);
  second.request(a, Access::read, 0, 4096);
  second.request(a, Access::read, 4096, 4096);
  ReplayRegion space = region(plan.layout.bytes);
  const auto result = replay(second.finish(), plan, space, options());
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::corrupt);
}

TEST_P(OnFiles, FillWritesAllSectorsAndNoTwoAreEqual) {
  ReplayRegion space = region(5 * MiB + 3 * sector_bytes);
  ASSERT_TRUE(space.fill());
  EXPECT_TRUE(space.filled());
  const std::vector<std::byte> found = contents(space);
  std::set<std::vector<std::byte>> sectors;
  for (size_t at = 0; at < found.size(); at += sector_bytes) {
    sectors.emplace(found.begin() + static_cast<ptrdiff_t>(at),
                    found.begin() + static_cast<ptrdiff_t>(at + sector_bytes));
  }
  EXPECT_EQ(sectors.size(), found.size() / sector_bytes);
}

INSTANTIATE_TEST_SUITE_P(Engines, OnFiles,
                         ::testing::Values(io::EngineKind::io_uring, io::EngineKind::threads));

}  // namespace
}  // namespace penstock::trace
