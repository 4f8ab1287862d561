#include "trace/replay/replay.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/loop.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
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
#include "trace/format/format.h"

namespace penstock::trace {
namespace {

namespace fs = std::filesystem;
using io::sector_bytes;

// A trace with one descriptor per file, which all threads use.
class Script {
 public:
  explicit Script(const std::string& path)
      : path_(path), writer_(*TraceWriter::create(path, {.backend = Backend::synthetic})) {}

  uint32_t file(const std::string& name, uint64_t bytes, FileKind kind = FileKind::regular) {
    const uint32_t id = writer_.add_file({.kind = kind, .bytes = bytes, .path = name});
    EXPECT_TRUE(writer_.add({.result = bytes,
                             .process = 1,
                             .thread = 1,
                             .descriptor = static_cast<int32_t>(id),
                             .file = id,
                             .flags = flag::read | flag::write,
                             .call = Call::open}));
    return id;
  }
  void request(uint32_t file, Access access, uint64_t offset, uint64_t bytes, int32_t thread = 1) {
    request_at(file, access, offset, bytes, thread, time_ += 1000, 500);
  }
  void request_at(uint32_t file, Access access, uint64_t offset, uint64_t bytes, int32_t thread,
                  uint64_t start_ns, uint64_t latency_ns) {
    EXPECT_TRUE(writer_.add({.start_ns = start_ns,
                             .latency_ns = latency_ns,
                             .offset = offset,
                             .bytes = bytes,
                             .result = bytes,
                             .process = 1,
                             .thread = thread,
                             .descriptor = static_cast<int32_t>(file),
                             .call = access == Access::read ? Call::read : Call::write}));
  }
  void sync(uint32_t file, int32_t thread = 1) { sync_at(file, thread, time_ += 1000, 500); }
  void sync_at(uint32_t file, int32_t thread, uint64_t start_ns, uint64_t latency_ns) {
    EXPECT_TRUE(writer_.add({.start_ns = start_ns,
                             .latency_ns = latency_ns,
                             .process = 1,
                             .thread = thread,
                             .descriptor = static_cast<int32_t>(file),
                             .file = file,
                             .call = Call::sync}));
  }
  const std::string& finish() {
    EXPECT_TRUE(writer_.finish({}));
    return path_;
  }

 private:
  const std::string path_;
  TraceWriter writer_;
  uint64_t time_ = 0;
};

ReplayPlan planned(const std::string& trace, const ReplayOptions& options = {}) {
  auto plan = plan_replay(trace, options);
  EXPECT_TRUE(plan) << plan.error().message();
  return plan ? std::move(*plan) : ReplayPlan{};
}

const bowtie::DeviceProfile device{.name = "test",
                                   .read_bytes_per_s = 100e6,
                                   .write_bytes_per_s = 50e6,
                                   .switch_seconds = bowtie::SwitchDelay(0.01)};

ReplayResult simulated(const std::string& trace, const ReplayOptions& options = {}) {
  auto result = simulate_replay(trace, planned(trace, options), device, options);
  EXPECT_TRUE(result) << result.error().message();
  return result ? *result : ReplayResult{};
}

TEST(SimulatedReplay, TakesTheTimeOfEquationOne) {
  TemporaryFolder folder;
  Script script(folder / "t");
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
  Script script(folder / "t");
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
    Script script(folder / "t");
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
  Script script(folder / "t");
  const uint32_t a = script.file("/a", MiB), b = script.file("/b", MiB);
  script.request(a, Access::read, 0, MiB);
  script.request(b, Access::read, 0, MiB);
  EXPECT_EQ(simulated(script.finish()).totals.seeks, 2u);
}

TEST(SimulatedReplay, AtTheOriginalPaceItLastsAsLongAsTheTrace) {
  TemporaryFolder folder;
  Script script(folder / "t");
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
    Script script(folder / "t");
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
  Script script(folder / "t");
  const uint32_t a = script.file("/a", MiB);
  for (uint64_t i = 0; i < 10'000; ++i) script.request(a, Access::write, 100 * i, 100);
  const ReplayResult result = simulated(script.finish());
  EXPECT_EQ(result.totals.moved_bytes(), round_up(1'000'000, sector_bytes));
  EXPECT_EQ(result.totals.seeks, 1u);
  EXPECT_EQ(result.totals.transfers, 245u);
}

TEST(Plan, PartsCountRequestsToTheSelectedFiles) {
  TemporaryFolder folder;
  Script script(folder / "t");
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
  Script script(folder / "t");
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
  Script script(folder / "t");
  const uint32_t a = script.file("/a", 0), b = script.file("/b", largest_offset);
  script.request(a, Access::write, largest_offset - 10, 10);
  script.request(a, Access::write, 0, uint64_t{1} << 61);
  script.request(b, Access::read, 5, 1);
  const std::string trace = script.finish();
  const auto plan = plan_replay(trace, {});
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().code, ErrorCode::unsupported);

  Script second(folder / "u");
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
    Script script(folder / "t");
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

// ---- on files

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
    Script script(folder_ / "t");
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
  Script script(folder_ / "t");
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
  Script script(folder_ / "t");
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
  Script script(folder_ / "t");
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
  Script script(folder_ / "t");
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
    Script script(folder_ / "t");
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
  Script script(folder_ / "t");
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
  Script script(folder_ / "t");
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
  Script script(folder_ / "t");
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
  Script script(folder_ / "t");
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
  Script script(folder_ / "t");
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
  Script first(folder_ / "t");
  first.request(first.file("/a", 4096), Access::read, 0, 4096);
  const ReplayPlan plan = planned(first.finish());
  Script second(folder_ / "u");
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

// ---- devices

TEST(InUse, FindsMountsPartitionsSwapAndHolders) {
  TemporaryFolder folder;
  const std::string root = folder.path();
  for (const char* name : {"disk", "disk1", "disk2", "other", "held"}) {
    std::ofstream(folder / name) << "";
  }
  fs::create_directories(root + "/sys/class/block/disk/disk1");
  fs::create_directories(root + "/sys/class/block/disk/queue");
  std::ofstream(root + "/sys/class/block/disk/disk1/partition") << "1";
  fs::create_directories(root + "/sys/class/block/held/holders/dm-0");
  fs::create_directories(root + "/sys/class/block/other/holders");
  fs::create_directories(root + "/proc/self");
  auto mounts = [&](const std::string& text) {
    std::ofstream(root + "/proc/self/mounts") << "proc /proc proc rw 0 0\n" << text;
  };
  auto swaps = [&](const std::string& text) {
    std::ofstream(root + "/proc/swaps") << "Filename Type Size Used Priority\n" << text;
  };
  mounts("");
  swaps("");
  EXPECT_EQ(in_use(folder / "disk", root), "");
  EXPECT_EQ(in_use(folder / "other", root), "");
  EXPECT_NE(in_use(folder / "held", root), "");
  mounts((folder / "disk1") + " /data ext4 rw 0 0\n");
  EXPECT_EQ(in_use(folder / "disk", root), "disk1 is mounted");
  EXPECT_EQ(in_use(folder / "other", root), "");
  mounts((folder / "other") + " /data ext4 rw 0 0\n");
  EXPECT_EQ(in_use(folder / "other", root), "other is mounted");
  swaps((folder / "disk") + " partition 1 0 -2\n");
  EXPECT_EQ(in_use(folder / "disk", root), "disk is swapped to");
}

// A loop device, if the system permits one.
class LoopDevice {
 public:
  LoopDevice(const std::string& file, uint64_t bytes) {
    std::ofstream(file) << "";
    fs::resize_file(file, bytes);
    const int control = ::open("/dev/loop-control", O_RDWR | O_CLOEXEC);
    const int backing = ::open(file.c_str(), O_RDWR | O_CLOEXEC);
    // Another process may take the same number first.
    for (int i = 0; control >= 0 && fd_ < 0 && i < 8; ++i) {
      path_ = "/dev/loop" + std::to_string(::ioctl(control, LOOP_CTL_GET_FREE));
      fd_ = ::open(path_.c_str(), O_RDWR | O_CLOEXEC);
      if (fd_ >= 0 && ::ioctl(fd_, LOOP_SET_FD, backing) != 0) {
        ::close(fd_);
        fd_ = -1;
      }
    }
    ::close(backing);
    if (control >= 0) ::close(control);
  }
  ~LoopDevice() {
    if (fd_ < 0) return;
    ::ioctl(fd_, LOOP_CLR_FD);
    ::close(fd_);
  }
  LoopDevice(const LoopDevice&) = delete;
  LoopDevice& operator=(const LoopDevice&) = delete;
  bool is_there() const { return fd_ >= 0; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  int fd_ = -1;
};

TEST(Devices, ADeviceInUseIsNotOverwrittenByAnyName) {
  TemporaryFolder folder;
  const LoopDevice loop(folder / "disk", 1 << 20);
  if (!loop.is_there()) GTEST_SKIP() << "no loop devices here";
  struct stat status = {};
  ASSERT_EQ(::stat(loop.path().c_str(), &status), 0);
  const std::string other = folder / "other.node";
  if (::mknod(other.c_str(), S_IFBLK | 0600, status.st_rdev) != 0) GTEST_SKIP() << "no mknod here";
  const int probe = ::open(other.c_str(), O_RDWR | O_CLOEXEC);
  if (probe < 0) GTEST_SKIP() << "device nodes of a folder cannot be opened here";
  ::close(probe);
  // A mount claims the device like this, also in another namespace, which our tables do not show.
  const int claim = ::open(loop.path().c_str(), O_RDWR | O_EXCL | O_CLOEXEC);
  ASSERT_GE(claim, 0);
  for (const std::string& name : {loop.path(), other}) {
    const auto region = ReplayRegion::open({.device = name, .bytes = sector_bytes});
    ASSERT_FALSE(region) << name;
    EXPECT_EQ(region.error().code, ErrorCode::permission) << region.error().message();
  }
  ::close(claim);
  for (const std::string& name : {loop.path(), other}) {
    const auto region =
        ReplayRegion::open({.device = name, .bytes = sector_bytes, .buffered = true});
    EXPECT_TRUE(region) << name << ": " << region.error().message();
  }
}

TEST(InUse, FindsADeviceByItsNumber) {
  TemporaryFolder folder;
  const LoopDevice loop(folder / "disk", 1 << 20);
  if (!loop.is_there()) GTEST_SKIP() << "no loop devices here";
  struct stat status = {};
  ASSERT_EQ(::stat(loop.path().c_str(), &status), 0);
  const std::string other = folder / "other.node";
  if (::mknod(other.c_str(), S_IFBLK | 0600, status.st_rdev) != 0) GTEST_SKIP() << "no mknod here";
  fs::create_directories(folder / "proc/self");
  std::ofstream(folder / "proc/self/mounts") << other << " /data ext4 rw 0 0\n";
  EXPECT_TRUE(in_use(loop.path(), folder.path()).ends_with(" is mounted"));
}

TEST(Devices, OtherFilesAreNotOverwritten) {
  TemporaryFolder folder;
  std::ofstream(folder / "file") << "mine";
  const auto region = ReplayRegion::open({.device = folder / "file", .bytes = sector_bytes});
  ASSERT_FALSE(region);
  EXPECT_EQ(region.error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(fs::file_size(folder / "file"), 4u);
}

}  // namespace
}  // namespace penstock::trace
