#include "trace/report/terminal.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "trace/report/random_requests.h"

namespace penstock::trace::report {
namespace {

TEST(Sparkline, TallestIsTheLargestAndOnlyZeroIsBlank) {
  EXPECT_EQ(sparkline({0, 1, 4, 8}, true), " ▁▄█");
  EXPECT_EQ(sparkline({0, 0.001, 8}, false), " .#");
  EXPECT_EQ(sparkline({}, true), "");
  EXPECT_EQ(sparkline({0, 0}, true), "  ");
}

TEST(Joined, EveryValueIsInOneGroup) {
  using Values = std::vector<double>;
  EXPECT_EQ(joined({1, 3, 2, 8}, 2, Join::mean), (Values{2, 5}));
  EXPECT_EQ(joined({1, 3, 2, 8}, 2, Join::largest), (Values{3, 8}));
  EXPECT_EQ(joined({1, 2, 3}, 10, Join::mean), (Values{1, 2, 3}));
  EXPECT_EQ(joined({5, 1, 1}, 2, Join::largest), (Values{5, 1}));
  EXPECT_TRUE(joined({}, 10, Join::mean).empty());
}

std::string report_of(const std::vector<std::string>& names, const TerminalOptions& options) {
  Random random(5);
  TraceOnDisk trace;
  write_trace(trace.path(), random_requests(random, 5000, static_cast<uint32_t>(names.size()), 2),
              names);
  auto summary = summarize(trace.path(), {.single_requests = 0});
  EXPECT_TRUE(summary);
  EXPECT_TRUE(summary->places.empty());
  return terminal_report(*summary, options);
}

TEST(TerminalReport, IsPlainTextOfBoundedWidth) {
  const std::string hostile = "/x/\x1b[2J" + std::string(300, 'y') + "\n\xff";
  for (const size_t width : {40u, 80u, 132u}) {
    const std::string text = report_of({"/data/a", hostile}, {.width = width, .unicode = false});
    EXPECT_TRUE(
        std::ranges::all_of(text, [](char c) { return c == '\n' || (c >= ' ' && c <= '~'); }));
    EXPECT_NE(text.find("/data/a"), text.npos);
    EXPECT_NE(text.find("5,000"), text.npos);
    if (width < 80) continue;  // tables have a least width
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      if (line.find("penstock-report-") != line.npos) continue;  // the path
      EXPECT_LE(line.size(), width) << line;
    }
  }
  const std::string text = report_of({"/data/a", hostile}, {});
  EXPECT_EQ(text.find('\x1b'), text.npos);
  EXPECT_NE(text.find("█"), text.npos);
}

TEST(TerminalReport, OfASortShowsItsMemoryAndItsBuckets) {
  SortRun sort{.name = "/x/\x1b[2Jsorted", .method = "distribute", .why = "it does not fit"};
  sort.rows.push_back({"Time", SortRun::Unit::seconds, 10.0, 12.0});
  sort.phases.push_back({"sort", {}, {.seconds = 3.0, .read_bytes = 1e9}});
  sort.occupancy = {.start_s = 0, .bin_s = 1, .memory_bytes = 100};
  for (auto& bytes : sort.occupancy.stage_bytes) bytes = {10, 20, 25};
  sort.occupancy.buckets.push_back({0, 50, 0, 1, 1, 2, 3});
  sort.occupancy.buckets.push_back({50, 50, 1, 2, 2.5, 2.9, 3});
  sort.occupancy.buckets_seen = 2;
  sort.occupancy.staircases.push_back({.title = "outputs",
                                       .streams = 2,
                                       .steps = 3,
                                       .measured_bytes = {3000, 1000},
                                       .predicted_bytes = {2900, 1100}});
  for (const size_t width : {40u, 80u, 132u}) {
    const std::string text = terminal_report(sort, {.width = width, .unicode = false});
    EXPECT_TRUE(
        std::ranges::all_of(text, [](char c) { return c == '\n' || (c >= ' ' && c <= '~'); }));
    for (const char* what : {"distribute: it does not fit", "12.0 s", "What held the memory",
                             "2 buckets", "rrr", "sss", "www", "measured", "predicted", "2.93 KiB"})
      EXPECT_NE(text.find(what), text.npos) << what << " in " << width << " columns";
    if (width < 80) continue;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), width) << line;
  }
  EXPECT_NE(terminal_report(sort).find("█"), std::string::npos);
  // Nothing recorded, nothing drawn.
  sort.occupancy = {};
  EXPECT_EQ(terminal_report(sort).find("buckets"), std::string::npos);
}

}  // namespace
}  // namespace penstock::trace::report
