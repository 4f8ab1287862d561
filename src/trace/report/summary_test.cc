#include "trace/report/summary.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "base/trials.h"
#include "trace/report/random_requests.h"

namespace penstock::report {
namespace {

std::vector<std::string> names_of(uint32_t files) {
  std::vector<std::string> names;
  for (uint32_t i = 0; i < files; ++i) names.push_back("/data/" + std::to_string(i));
  return names;
}

TraceSummary summary_of(const std::string& path, const SummaryOptions& options = {}) {
  auto summary = summarize(path, options);
  EXPECT_TRUE(summary) << summary.error().message();
  return summary ? std::move(*summary) : TraceSummary{};
}

TEST(Summary, FiguresAreThoseOfTheConversion) {
  const uint64_t seed = seed_of_run();
  SCOPED_TRACE(seed);
  Random random(seed);
  TraceOnDisk trace;
  write_trace(trace.path(), random_requests(random, 20'000, 7, 3), names_of(7));
  const TraceSummary s = summary_of(trace.path());
  const trace::Conversion& c = s.conversion;
  EXPECT_EQ(s.totals.requests(), c.requests);
  EXPECT_EQ(s.totals.reads, c.reads);
  EXPECT_EQ(s.totals.read_bytes, c.read_bytes);
  EXPECT_EQ(s.totals.written_bytes, c.written_bytes);
  EXPECT_EQ(s.totals.file_seeks, c.file_seeks);
  EXPECT_EQ(s.totals.device_seeks, c.device_seeks);
  EXPECT_EQ(s.runs, c.runs);
  EXPECT_EQ(s.end_ns, c.end_ns);
  EXPECT_EQ(s.processes.size(), c.processes);
  EXPECT_EQ(s.files.size(), 7u);
  Figures of_files, of_processes;
  uint64_t base = 0;
  for (const FileFigures& file : s.files) {
    EXPECT_EQ(file.file_seeks, c.files[file.file].seeks);
    EXPECT_EQ(file.device_seeks, c.files[file.file].switches);
    EXPECT_EQ(file.base_address, base);
    base += file.bytes_shown();
    of_files.reads += file.reads;
    of_files.device_seeks += file.device_seeks;
  }
  for (const ProcessFigures& process : s.processes) {
    of_processes.reads += process.reads;
    of_processes.device_seeks += process.device_seeks;
  }
  EXPECT_EQ(s.addresses, static_cast<double>(base));
  EXPECT_EQ(of_files.reads, c.reads);
  EXPECT_EQ(of_files.device_seeks, c.device_seeks);
  EXPECT_EQ(of_processes.reads, c.reads);
  EXPECT_EQ(of_processes.device_seeks, c.device_seeks);
  EXPECT_TRUE(s.all_single);
  ASSERT_EQ(s.close_ups.size(), 1u);
  EXPECT_EQ(s.close_ups[0].singles.requests, c.requests);
}

TEST(Summary, LongTracesHaveAPictureOfTheWholeAndCloseUps) {
  const uint64_t seed = seed_of_run();
  SCOPED_TRACE(seed);
  Random random(seed);
  TraceOnDisk trace;
  std::vector<MadeRequest> requests = random_requests(random, 60'000, 5, 2);
  requests[41'234].latency_ns = 1'000'000;
  write_trace(trace.path(), requests, names_of(5));
  const TraceSummary s =
      summary_of(trace.path(), {.single_requests = 1000, .close_up_requests = 200});
  EXPECT_FALSE(s.all_single);
  EXPECT_EQ(s.slowest_request, 41'234u);
  ASSERT_EQ(s.close_ups.size(), 8u);

  std::map<uint64_t, uint64_t> taken;  // first -> end of single requests, which do not overlap
  for (const CloseUp& close_up : s.close_ups) {
    EXPECT_EQ(close_up.singles.requests, 200u);
    EXPECT_EQ(close_up.pictures.size(), 1u);  // 1/32; 1/1024 is less than the single requests
    taken[close_up.singles.first] = close_up.singles.first + close_up.singles.requests;
  }
  uint64_t end = 0;
  for (const auto& [first, its_end] : taken) {
    EXPECT_GE(first, end);
    end = its_end;
  }
  EXPECT_EQ(taken.begin()->first, 0u);
  EXPECT_EQ(end, s.totals.requests());
  EXPECT_TRUE(std::ranges::any_of(
      taken, [](const auto& one) { return one.first <= 41'234 && one.second > 41'234; }));

  // The picture of the whole and those of close-ups count the same requests.
  for (const CloseUp& close_up : s.close_ups) {
    const Picture& picture = close_up.pictures[0];
    Picture wanted(picture.shape());
    for (uint64_t order = 0; order < requests.size(); ++order) {
      const MadeRequest& request = requests[order];
      const auto file = std::ranges::find(s.files, request.file, &FileFigures::file);
      ASSERT_NE(file, s.files.end());
      const auto low = static_cast<double>(file->base_address + request.offset);
      wanted.add(order, low, low + static_cast<double>(request.bytes), request.access);
    }
    wanted.finish();
    EXPECT_EQ(picture.cells(), wanted.cells());
  }
}

TEST(Summary, APartIsCountedFromItsBeginning) {
  const uint64_t seed = seed_of_run();
  SCOPED_TRACE(seed);
  Random random(seed);
  TraceOnDisk trace;
  const std::vector<MadeRequest> requests = random_requests(random, 5'000, 4, 2);
  write_trace(trace.path(), requests, names_of(4));
  const TraceSummary s = summary_of(trace.path(), {.first_request = 1234, .requests = 1000});
  EXPECT_TRUE(s.is_part);
  EXPECT_EQ(s.totals.requests(), 1000u);
  EXPECT_EQ(s.conversion.requests, 5'000u);
  EXPECT_EQ(s.start_ns, requests[1234].start_ns);
  EXPECT_EQ(s.overview->shape().first, 1234u);
  uint64_t bytes = 0;
  for (size_t i = 1234; i < 2234; ++i) bytes += requests[i].bytes;
  EXPECT_EQ(s.totals.bytes(), bytes);

  const auto behind = summarize(trace.path(), {.first_request = 5'000});
  ASSERT_FALSE(behind);
  EXPECT_EQ(behind.error().code, ErrorCode::invalid_argument);
}

TEST(Summary, EmptyAndCutOffTraces) {
  TraceOnDisk empty;
  write_trace(empty.path(), {}, names_of(2));
  const TraceSummary none = summary_of(empty.path());
  EXPECT_EQ(none.totals.requests(), 0u);
  EXPECT_FALSE(none.overview);

  Random random(1);
  TraceOnDisk cut;
  write_trace(cut.path(), random_requests(random, 1000, 2, 1), names_of(2), false);
  const TraceSummary part = summary_of(cut.path());
  EXPECT_FALSE(part.conversion.complete);
  EXPECT_EQ(part.totals.requests(), 1000u);

  const auto missing = summarize("/does/not/exist");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, ErrorCode::not_found);
  const auto pipe = summarize("-");
  ASSERT_FALSE(pipe);
  EXPECT_EQ(pipe.error().code, ErrorCode::unsupported);
}

TEST(Summary, HostileOffsetsStayInTheirTypes) {
  TraceOnDisk trace;
  std::vector<MadeRequest> requests;
  for (uint32_t i = 0; i < 40; ++i) {
    requests.push_back({.file = i % 5,
                        .offset = trace::largest_offset - 1000 - i,
                        .bytes = 1 + i,
                        .access = trace::Access::write,
                        .process = -7 + static_cast<int32_t>(i % 2),
                        .start_ns = i,
                        .latency_ns = 1});
  }
  requests.back().start_ns = trace::largest_offset - 1;
  requests.back().latency_ns = trace::largest_offset;
  write_trace(trace.path(), requests, names_of(5));
  const TraceSummary s = summary_of(trace.path());
  EXPECT_EQ(s.totals.requests(), 40u);
  EXPECT_GT(s.addresses, 0);
  EXPECT_GT(s.seconds(), 0);
}

}  // namespace
}  // namespace penstock::report
