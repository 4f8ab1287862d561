// Test labels: one-thread

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "base/random.h"
#include "penstock/base.h"
#include "penstock/trace.h"
#include "trace/export/export.h"
#include "trace/follow/script_fixture.h"

namespace penstock::trace {
namespace {

// Syncs and requests of the same time keep their order, too.
TEST(Conversion, SyncsKeepTheirPlaceAndAreNoRequests) {
  Script script;
  const uint32_t a = script.file("/a"), pipe = script.file("pipe", 0, FileKind::pipe);
  auto sync = [&](uint32_t file, uint64_t start_ns) {
    script.add({.start_ns = start_ns,
                .process = 1,
                .descriptor = 3,
                .file = file,
                .flags = flag::data_only,
                .call = Call::sync});
  };
  script.open(1, 3, a);
  script.write(1, 3, 10);
  sync(a, 200);
  script.write(1, 3, 10);
  sync(pipe, 0);
  script.write(1, 3, 10);
  sync(a, 0);
  const Conversion conversion = script.convert({.syncs = true});
  std::vector<std::pair<uint64_t, bool>> found;
  for (const Request& request : script.requests)
    found.emplace_back(request.offset, request.is_sync());
  EXPECT_EQ(found, (std::vector<std::pair<uint64_t, bool>>{
                       {0, false}, {0, true}, {10, false}, {20, false}, {0, true}}));
  EXPECT_EQ(conversion.requests, 3u);
  EXPECT_EQ(conversion.writes, 3u);
  EXPECT_EQ(conversion.device_seeks, 1u);
  EXPECT_EQ(conversion.files[0].syncs, 2u);
}

// Section VI.C of the paper: "one process may issue a read of size x at offset y within a given
// file, followed by a seek to the end of the stream. Then, another process, which has an open
// handle to the same file, requests a seek to offset x + y and a read of size z. Our platform
// detects this as a sequential I/O of length x + z, despite the multiple seeks in the middle."
TEST(Conversion, SeekThatLeadsBackToTheLastAccessIsNone) {
  constexpr uint64_t x = 3000, y = 10000, z = 500;
  Script script;
  const uint32_t file = script.file("/data", 100000);
  script.open(1, 3, file, 100000);
  script.open(2, 5, file, 100000);
  script.seek(1, 3, y);
  script.read(1, 3, x);
  script.seek(1, 3, 100000);
  script.seek(2, 5, x + y);
  script.read(2, 5, z);
  const Conversion conversion = script.convert();
  ASSERT_EQ(script.requests.size(), 2u);
  EXPECT_EQ(script.requests[1].offset, x + y);
  EXPECT_FALSE(script.requests[1].file_seek);
  EXPECT_FALSE(script.requests[1].device_seek);
  EXPECT_EQ(conversion.file_seeks, 1u);  // the first access is not at 0
  EXPECT_EQ(conversion.device_seeks, 1u);
  EXPECT_EQ(conversion.mean_run_bytes(), x + z);
  EXPECT_EQ(conversion.runs[11], 1u);  // a run of 3500 bytes
  EXPECT_EQ(conversion.processes, 2u);
}

TEST(Conversion, InterleavedFilesAreSeeksOfTheDiskAndNotOfTheFiles) {
  Script script;
  const uint32_t a = script.file("/a", 1000), b = script.file("/b", 1000);
  script.open(1, 3, a, 1000);
  script.open(1, 4, b, 1000);
  for (int i = 0; i < 5; ++i) {
    script.read(1, 3, 100);
    script.read(1, 4, 100);
  }
  const Conversion conversion = script.convert();
  EXPECT_EQ(conversion.file_seeks, 0u);
  EXPECT_EQ(conversion.device_seeks, 10u);
  EXPECT_EQ(conversion.runs[6], 10u);
  EXPECT_EQ(conversion.files[0].switches, 5u);
}

TEST(Conversion, RequestsComeInTheOrderTheyWereStarted) {
  Script script;
  const uint32_t file = script.file("/a", 1 << 20);
  script.open(1, 3, file, 1 << 20);
  for (uint64_t i = 0; i < 1000; ++i) {
    // In each group of four, the last one started ends first.
    const uint64_t place = i / 4 * 4 + (3 - i % 4);
    script.add({.start_ns = 10000 + place,
                .offset = place * 512,
                .bytes = 512,
                .result = 512,
                .process = 1,
                .descriptor = 3,
                .call = Call::read});
  }
  const Conversion conversion = script.convert({.reorder_requests = 16});
  EXPECT_EQ(conversion.late, 0u);
  EXPECT_EQ(conversion.device_seeks, 1u);
  ASSERT_EQ(script.requests.size(), 1000u);
  for (uint64_t i = 0; i < 1000; ++i) ASSERT_EQ(script.requests[i].offset, i * 512);
}

// Times fall, rise and jump. A window that holds all requests sorts them, and keeps the order of the
// trace for equal times.
TEST(Conversion, AnyOrderIsSortedWithinTheWindow) {
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    Script script;
    const uint32_t file = script.file("/a", 1 << 30);
    script.open(1, 3, file, 1 << 30);
    std::vector<uint64_t> wanted;  // start * 2^20 + order in the trace
    constexpr uint64_t count = 3000;
    for (uint64_t i = 0; i < count; ++i) {
      uint64_t start = 1 + random.below(seed * 100);
      if (seed % 3 == 0) start = 1 + (count - i) / 3;
      if (seed % 3 == 1) start = 1 + i / 2 + random.below(100) * random.below(2);
      wanted.push_back(start << 20 | i);
      script.add({.start_ns = start,
                  .offset = i,
                  .bytes = 1,
                  .result = 1,
                  .process = 1,
                  .descriptor = 3,
                  .call = Call::read});
    }
    std::ranges::sort(wanted);
    const Conversion conversion = script.convert({.reorder_requests = count});
    EXPECT_EQ(conversion.late, 0u);
    ASSERT_EQ(script.requests.size(), count);
    for (uint64_t i = 0; i < count; ++i) {
      ASSERT_EQ(script.requests[i].start_ns << 20 | script.requests[i].offset, wanted[i]) << i;
    }
    // A small window passes all requests on as well, although some come late.
    const auto small = convert_file(script.path(), {.reorder_requests = 8}, {});
    ASSERT_TRUE(small);
    EXPECT_EQ(small->requests, count);
  }
}

TEST(Conversion, CallThatTookLongerThanTheWindowIsCountedAsLate) {
  Script script;
  const uint32_t file = script.file("/a", 1 << 20);
  script.open(1, 3, file, 1 << 20);
  for (int i = 0; i < 100; ++i) script.read(1, 3, 512);
  script.add({.start_ns = 1,
              .offset = 0,
              .bytes = 1,
              .result = 1,
              .process = 1,
              .descriptor = 3,
              .call = Call::read});
  const Conversion conversion = script.convert({.reorder_requests = 8});
  EXPECT_EQ(conversion.requests, 101u);
  EXPECT_EQ(conversion.late, 1u);
  EXPECT_FALSE(conversion.caveats().empty());
}

TEST(Conversion, UnderLimitsItToTheFilesOfAFolder) {
  Script script;
  const uint32_t a = script.file("/in/a", 1000), b = script.file("/lib/b", 1000);
  script.open(1, 3, a, 1000);
  script.open(1, 4, b, 1000);
  script.read(1, 3, 100);
  script.read(1, 4, 100);
  script.read(1, 3, 100);
  const Conversion conversion = script.convert({.under = "/in/"});
  EXPECT_EQ(conversion.requests, 2u);
  EXPECT_EQ(conversion.device_seeks, 1u);
  ASSERT_EQ(conversion.files.size(), 1u);
  EXPECT_EQ(conversion.files[0].path, "/in/a");
}

// The first calls of both processes have ended in the kernel before the tracer sees the end of the
// second one.
TEST(Conversion, SizeOfAnOpenIsNotBelievedWhileOthersWrite) {
  Script script;
  const uint32_t file = script.file("/log");
  constexpr uint32_t appends = flag::write | flag::append;
  script.open(1, 3, file, 0, appends);
  script.write(1, 3, 10);
  script.open(2, 3, file, 30, appends);  // the size includes the next write
  script.write(1, 3, 20);
  script.write(2, 3, 5);
  script.add({.process = 1, .descriptor = 3, .call = Call::close});
  script.add({.process = 2, .descriptor = 3, .call = Call::close});
  script.open(2, 3, file, 1000, appends);  // a process that is not traced has written
  script.write(2, 3, 1);
  const Conversion conversion = script.convert();
  ASSERT_EQ(script.requests.size(), 4u);
  EXPECT_EQ(script.requests[1].offset, 10u);
  EXPECT_EQ(script.requests[2].offset, 30u);
  EXPECT_EQ(script.requests[3].offset, 1000u);
  EXPECT_EQ(conversion.files[0].peak_bytes, 1001u);
}

// A file is extended by a GiB ahead of its writes, reported, truncated, and read again.
TEST(Conversion, SpaceThatWasOnlyReservedIsNotUsed) {
  Script script;
  const uint32_t file = script.file("/out");
  script.open(1, 3, file, 0, flag::write | flag::truncates);
  script.write(1, 3, 1000);
  for (const Call call : {Call::truncate, Call::allocate}) {
    script.add({.offset = 0,
                .bytes = GiB,
                .result = GiB,
                .process = 1,
                .descriptor = 3,
                .file = file,
                .call = call});
  }
  script.write(1, 3, 5000);
  script.add({.process = 1, .descriptor = 3, .call = Call::close});
  script.open(1, 3, file, GiB, 0);  // the size has not changed
  script.add({.process = 1, .descriptor = 3, .call = Call::close});
  const Conversion conversion = script.convert();
  EXPECT_EQ(conversion.files[0].peak_bytes, GiB);
  EXPECT_EQ(conversion.files[0].used_bytes, 6000u);
}

TEST(Conversion, BytesBeyondTheReservedSpaceWereWrittenByAnotherProcess) {
  Script script;
  const uint32_t file = script.file("/out");
  script.open(1, 3, file, 0, flag::write);
  script.add({.result = 500, .process = 1, .descriptor = 3, .file = file, .call = Call::truncate});
  script.add({.process = 1, .descriptor = 3, .call = Call::close});
  script.open(1, 3, file, 700, 0);
  EXPECT_EQ(script.convert().files[0].used_bytes, 700u);
}

TEST(Conversion, TraceThatIsCutOffIsConvertedUpToTheCut) {
  Script script;
  const uint32_t file = script.file("/a", 1 << 30);
  script.open(1, 3, file, 1 << 30);
  for (int i = 0; i < 200000; ++i) script.read(1, 3, 4096);
  EXPECT_EQ(script.convert().requests, 200000u);
  std::filesystem::resize_file(script.path(), std::filesystem::file_size(script.path()) * 2 / 3);
  const auto conversion = convert_file(script.path(), {}, {});
  ASSERT_TRUE(conversion);
  EXPECT_FALSE(conversion->complete);
  EXPECT_GT(conversion->requests, 50000u);
  EXPECT_LT(conversion->requests, 200000u);
  EXPECT_EQ(conversion->device_seeks, 1u);
}

TEST(Convert, CallsAndTheirTimeAreSummedUp) {
  Script script;
  const uint32_t a = script.file("/data/a"), b = script.file("/data/b");
  const uint32_t folder = script.file("/data", 0, FileKind::directory);
  const uint32_t pipe = script.file("pipe:[1]", 0, FileKind::pipe);
  const auto call = [&](Call what, int32_t descriptor, uint32_t file, uint64_t start_ns,
                        uint64_t latency_ns, uint64_t bytes = 0, int32_t descriptor2 = -1) {
    script.add({.start_ns = start_ns,
                .latency_ns = latency_ns,
                .bytes = bytes,
                .result = bytes,
                .process = 1,
                .descriptor = descriptor,
                .descriptor2 = descriptor2,
                .file = file,
                .call = what});
  };
  call(Call::open, 3, a, 1000, 10);
  call(Call::open, 4, b, 2000, 20);
  call(Call::open, 5, pipe, 2100, 500);  // no file on a disk
  call(Call::write, 3, 0, 3000, 100, 512);
  call(Call::write, 3, 0, 3050, 100, 512);  // at the same time, as a second thread would
  call(Call::sync, 3, a, 4000, 1000);
  call(Call::sync, 6, folder, 6000, 300);
  call(Call::sync, -1, 0, 6500, 50);  // sync()
  call(Call::copy, 3, 0, 7000, 40, 100, 4);
  call(Call::read, 4, 0, 8000, 7, 0);  // at the end: moves no bytes, and takes its time
  call(Call::seek, 4, 0, 8500, 7);
  call(Call::truncate, 3, a, 9000, 5);
  const Conversion c = script.convert();
  EXPECT_EQ(c.calls.of(CallKind::open), (CallSum{2, 30}));
  EXPECT_EQ(c.calls.of(CallKind::write), (CallSum{2, 200}));
  EXPECT_EQ(c.calls.of(CallKind::sync), (CallSum{3, 1350}));
  EXPECT_EQ(c.calls.of(CallKind::copy), (CallSum{1, 40}));  // once, though it is of two files
  EXPECT_EQ(c.calls.of(CallKind::read), (CallSum{1, 7}));
  EXPECT_EQ(c.calls.of(CallKind::other), (CallSum{1, 5}));
  EXPECT_EQ(c.busy_ns, 30u + 150 + 1350 + 40 + 7 + 5);
  EXPECT_EQ(c.whole_ns, 9005u);
  EXPECT_EQ(c.files[a - 1].calls.of(CallKind::sync), (CallSum{1, 1000}));
  EXPECT_EQ(c.files[a - 1].calls.of(CallKind::copy), (CallSum{1, 40}));
  EXPECT_EQ(c.files[b - 1].calls.of(CallKind::copy), (CallSum{1, 40}));
  EXPECT_EQ(c.files[b - 1].calls.all(), (CallSum{3, 67}));
  // Only wanted files count.
  const auto of_b = convert_file(script.path(), {.under = "/data/b"}, {});
  ASSERT_TRUE(of_b);
  EXPECT_EQ(of_b->calls.all(), (CallSum{3, 67}));
}

TEST(Convert, CallsThatFailedChangeNothingAndHaveNames) {
  Script script;
  const uint32_t a = script.file("/data/a", 100);
  const uint32_t missing = script.string("/lib/missing"), rare = script.string("/data/rare");
  const auto fail = [&](Call call, uint32_t path) {
    script.add({.latency_ns = 10,
                .result = 2,
                .process = 1,
                .descriptor = 3,
                .path = path,
                .flags = flag::failed,
                .call = call});
  };
  script.open(1, 3, a, 100);
  fail(Call::open, missing);
  fail(Call::stat, rare);
  fail(Call::stat, missing);
  fail(Call::open, 0);
  script.add({.latency_ns = 7, .process = 1, .file = a, .call = Call::stat});
  script.read(1, 3, 100);
  const Conversion c = script.convert();
  ASSERT_EQ(script.requests.size(), 1u);
  EXPECT_EQ(c.calls.of(CallKind::failed), (CallSum{4, 40}));
  EXPECT_EQ(c.calls.of(CallKind::stat), (CallSum{1, 7}));
  ASSERT_EQ(c.failed_names.size(), 2u);
  EXPECT_EQ(c.failed_names[0].path, "/lib/missing");
  EXPECT_EQ(c.failed_names[0].calls, 2u);
  EXPECT_EQ(c.failed_names[1].path, "/data/rare");
  const auto under = convert_file(script.path(), {.under = "/data/"}, {});
  ASSERT_TRUE(under);
  EXPECT_EQ(under->calls.of(CallKind::failed).calls, 1u);
  // A copy keeps them, and each name once.
  const std::string copy = script.path() + ".copy";
  auto trace = TraceReader::open(script.path());
  ASSERT_TRUE(trace);
  ASSERT_TRUE(export_requests(*trace, {}, ExportFormat::trace, copy));
  const auto copied = convert_file(copy, {}, {});
  std::filesystem::remove(copy);
  ASSERT_TRUE(copied);
  EXPECT_EQ(copied->calls, c.calls);
  EXPECT_EQ(copied->failed_names[0].calls, 2u);
}

}  // namespace
}  // namespace penstock::trace
