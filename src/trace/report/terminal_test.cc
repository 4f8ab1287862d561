#include "trace/report/terminal.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <sstream>

#include "trace/report/random_requests.h"

namespace penstock::report {
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
  EXPECT_TRUE(summary->close_ups.empty());
  return terminal_report(*summary, options);
}

// Returns the number of characters in UTF-8.
size_t columns_of(const std::string& line) {
  return static_cast<size_t>(std::ranges::count_if(
      line, [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

TEST(TerminalReport, IsPlainTextOfBoundedWidth) {
  const std::string hostile = "/x/\x1b[2J" + std::string(300, 'y') + "\n\xff";
  for (const size_t width : {40u, 80u, 132u}) {
    const std::string text = report_of({"/data/a", hostile}, {.width = width, .unicode = false});
    EXPECT_TRUE(
        std::ranges::all_of(text, [](char c) { return c == '\n' || (c >= ' ' && c <= '~'); }));
    EXPECT_NE(text.find("/data/a"), text.npos);
    EXPECT_NE(text.find("5,000"), text.npos);
    if (width < 80) continue;  // tables have a minimal width
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

// Columns are aligned, whatever is cut, and whatever the terminal can show.
TEST(TerminalReport, ASortHasAlignedColumns) {
  const std::string name = "a phase whose name is much longer than any column is wide";
  SortRun sort{.name = "/x/" + std::string(300, 'y'), .method = "distribute", .why = name + name};
  for (const std::string& what : {std::string("Time"), name, std::string("\u00e9\u00e9")}) {
    sort.rows.push_back({what, SortRun::Unit::count, 1.0, 2.0});
    sort.phases.push_back({what, {}, {.seeks = 7.0, .run_bytes = 8.0}});
  }
  // The texts of Penstock's own sorts fit.
  for (const char* what : {"All threads: reader waits for writes", "Bytes between two seeks"})
    sort.rows.push_back({what, SortRun::Unit::count, 1.0, 2.0});
  for (const char* what : {"look for sorted stretches", "keep what may be first"})
    sort.phases.push_back({what, {}, {.seeks = 7.0, .run_bytes = 8.0}});
  sort.occupancy = {.start_s = 0, .bin_s = 1, .memory_bytes = 100};
  for (auto& bytes : sort.occupancy.stage_bytes) bytes.assign(500, 25);
  sort.staircases.push_back({.title = name + name,
                             .measured_bytes = std::vector<double>(400, 3000),
                             .predicted_bytes = std::vector<double>(20, 1022 * 1024)});
  for (const bool unicode : {false, true}) {
    for (const size_t width : {80u, 132u}) {
      const std::string text = terminal_report(sort, {.width = width, .unicode = unicode});
      std::istringstream lines(text);
      std::set<size_t> rows, phases, memory, stairs;
      for (std::string line; std::getline(lines, line);) {
        const size_t columns = columns_of(line);
        EXPECT_LE(columns, width) << line;
        if (line.ends_with("   1             2")) rows.insert(columns);
        if (line.ends_with("   7       8 B")) phases.insert(columns);
        if (line.ends_with(" 25 %")) memory.insert(columns);
        if (line.ends_with(" KiB")) stairs.insert(columns);
      }
      for (const auto* ends : {&rows, &phases, &memory, &stairs}) EXPECT_EQ(ends->size(), 1u);
      for (const char* whole : {"All threads: reader waits for writes ", "Bytes between two seeks ",
                                "look for sorted stretches ", "keep what may be first "})
        EXPECT_NE(text.find(whole), text.npos) << whole;
    }
  }
}

TEST(TerminalReport, APartOfTheOutputWithoutBucketsIsBlank) {
  SortRun sort{.name = "sorted"};
  // From the foot: a bucket that is sorted all the time, a gap, a small bucket that begins in its
  // line, a bucket that is read.
  sort.occupancy.buckets.push_back({0, 100, 0, 0, 0, 9, 9});
  sort.occupancy.buckets.push_back({270, 10, 0, 0, 0, 0, 9});
  sort.occupancy.buckets.push_back({300, 50, 0, 9, 9, 9, 9});
  sort.occupancy.buckets.push_back({350, 50, 0, 9, 9, 9, 9});
  sort.occupancy.stage_bytes[0] = {0, 0, 0};
  sort.occupancy.bin_s = 3;
  auto letters = [&](uint64_t seen) {
    sort.occupancy.buckets_seen = seen;
    std::istringstream lines(terminal_report(sort, {.unicode = false}));
    std::string found;
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with("  |")) found += line[20];
    }
    return found;
  };
  EXPECT_EQ(letters(4), "rw s");
  EXPECT_EQ(letters(8), "rsss") << "some of the others may have stood there";
}

TEST(TerminalReport, ASortShowsItsMemoryAndItsBuckets) {
  SortRun sort{.name = "/x/\x1b[2Jsorted", .method = "distribute", .why = "it does not fit"};
  sort.rows.push_back({"Time", SortRun::Unit::seconds, 10.0, 12.0});
  sort.phases.push_back({"sort", {}, {.seconds = 3.0, .read_bytes = 1e9}});
  sort.occupancy = {.start_s = 0, .bin_s = 1, .memory_bytes = 100};
  for (auto& bytes : sort.occupancy.stage_bytes) bytes = {10, 20, 25};
  sort.occupancy.buckets.push_back({0, 50, 0, 1, 1, 2, 3});
  sort.occupancy.buckets.push_back({50, 50, 1, 2, 2.5, 2.9, 3});
  sort.occupancy.buckets_seen = 2;
  sort.staircases.push_back({.title = "outputs",
                             .streams = 2,
                             .steps = 3,
                             .measured_bytes = {3000, 1000},
                             .predicted_bytes = {2900, 1100}});
  sort.seconds = 30;
  sort.predicted_s = 3;
  sort.device_source = "a look\x1b[2J";
  for (const size_t width : {40u, 80u, 132u}) {
    const std::string text = terminal_report(sort, {.width = width, .unicode = false});
    EXPECT_NE(text.find("\nWhat to do\n  - Measure the disk"), text.npos) << text;
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
  // A sort without recorded buckets has no pictures.
  sort.occupancy = {};
  sort.staircases.clear();
  EXPECT_EQ(terminal_report(sort).find("buckets"), std::string::npos);
}

}  // namespace
}  // namespace penstock::report
