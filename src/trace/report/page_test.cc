#include "trace/report/page.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>

#include "base/trials.h"
#include "trace/report/page_parts.h"
#include "trace/report/random_requests.h"

namespace penstock::report {
namespace {

using external::Occupancy;

size_t count_of(const std::string& text, std::string_view what) {
  size_t count = 0;
  for (size_t at = text.find(what); at != text.npos; at = text.find(what, at + 1)) ++count;
  return count;
}

std::string page_of(const std::vector<std::string>& names, const std::vector<SortRun>& sorts = {}) {
  Random random(3);
  TraceOnDisk trace;
  write_trace(trace.path(), random_requests(random, 2000, static_cast<uint32_t>(names.size()), 2),
              names);
  std::vector<TraceSummary> summaries;
  auto summary = summarize(trace.path());
  EXPECT_TRUE(summary);
  summaries.push_back(std::move(*summary));
  return make_page(summaries, sorts, {.version = "1.2"});
}

TEST(Page, HasAllThatItNeedsAndOnlyOneScript) {
  const std::string page = page_of({"/data/in.bin", "/data/out.bin"});
  EXPECT_TRUE(page.starts_with("<!doctype html>"));
  EXPECT_NE(page.find("/data/in.bin"), page.npos);
  EXPECT_NE(
      page.find(fmt::format("content=\"default-src 'none'; style-src 'unsafe-inline'; script-src "
                            "'{}'; base-uri 'none'; form-action 'none'\"",
                            page_script_hash)),
      page.npos);
  EXPECT_EQ(count_of(page, "<script>"), 1u);
  EXPECT_EQ(count_of(page, "<script"), 2u);  // the second one is data, which is not run
  for (const char* outside : {"http:", "https:", "src=", "@import", "url(", "fetch(", "<link"}) {
    EXPECT_EQ(page.find(outside), page.npos) << outside;
  }
}

TEST(Page, HostileNamesAreText) {
  const std::string page =
      page_of({"</script><script>alert(1)</script>", "\"><img src=x onerror=1>",
               "'&amp;\x1b]0;x\x07\xff", "a\u202Egnp.exe"});
  EXPECT_EQ(count_of(page, "<script"), 2u);
  EXPECT_EQ(page.find("<img"), page.npos);
  EXPECT_EQ(page.find('\x1b'), page.npos);
  EXPECT_EQ(page.find("\u202E"), page.npos);
  EXPECT_NE(page.find("&lt;/script&gt;&lt;script&gt;alert(1)&lt;/script&gt;"), page.npos);
  EXPECT_NE(page.find("&#39;&amp;amp;\\x1b]0;x\\x07\\xff"), page.npos);
  EXPECT_NE(page.find("made &lt;b&gt;up&lt;/b&gt;"), page.npos);  // the command
}

TEST(Page, ThousandsOfFilesAreSummedUp) {
  std::vector<std::string> names;
  for (int i = 0; i < 1000; ++i) names.push_back("/data/part-" + std::to_string(i));
  const std::string page = page_of(names);
  const size_t rows = count_of(page, "/data/part-");
  EXPECT_EQ(rows, 300u);
  EXPECT_NE(page.find(" other files"), page.npos);
}

TEST(Page, SortsShowPredictionMeasurementAndStairs) {
  SortRun sort{.name = "/x/sort<1>.json", .method = "distribute", .why = "it does not fit"};
  sort.rows.push_back({"Time", SortRun::Unit::seconds, 10.0, 12.0});
  sort.rows.push_back({"Seeks", SortRun::Unit::count, std::nullopt, 12345.0});
  sort.phases.push_back({"merge", {.seconds = 2.0}, {.seconds = 3.0, .seeks = 77.0}});
  sort.staircases.push_back({.title = "outputs",
                             .streams = 3,
                             .steps = 9,
                             .measured_bytes = {300, 200, 100},
                             .predicted_bytes = {310, 205, 100}});
  sort.staircases.push_back({.title = "nothing"});
  std::string page = make_page({}, std::array{sort}, {.version = "1"});
  EXPECT_EQ(page.find(">Mean run<"), page.npos);  // the seeks took no time
  sort.seconds = 12;
  sort.seeks = 12'345;
  sort.seek_s = 0.004;
  page = make_page({}, std::array{sort}, {.version = "1"});
  EXPECT_NE(page.find(">Mean run<"), page.npos);
  EXPECT_NE(page.find("sort&lt;1&gt;.json"), page.npos);
  EXPECT_NE(page.find("<td class=\"n\">1.20</td>"), page.npos);
  EXPECT_NE(page.find("12,345"), page.npos);
  EXPECT_NE(page.find("predicted 2.00 s"), page.npos);
  EXPECT_EQ(count_of(page, "<figure class=\"chart stairs\">"), 1u);
  EXPECT_EQ(page.find("What held the memory"), page.npos);  // no occupancy was recorded
}

TEST(Page, ASortShowsItsTimeLineAndWhatToDo) {
  SortRun sort{.name = "sorted"};
  sort.seconds = 10;
  sort.predicted_s = 5;
  sort.phases.push_back({"sample", {}, {}});
  sort.phases.push_back({"distribute <b>", {.seconds = 2}, {.seconds = 6}});
  sort.phases.push_back({"sort", {.seconds = 3}, {.seconds = 4}});
  std::string page = make_page({}, std::array{sort}, {.version = "1"});
  // Phases lie end to end, on one scale of ten seconds. A phase that took no time has no bar.
  EXPECT_NE(page.find("style=\"left:0.00%;width:60.00%\" title=\"distribute &lt;b&gt;: 6.00 s\""),
            page.npos);
  EXPECT_NE(page.find("style=\"left:60.00%;width:40.00%\" title=\"sort: 4.00 s\""), page.npos);
  EXPECT_NE(page.find("style=\"left:20.00%;width:30.00%\" title=\"sort: 3.00 s\""), page.npos);
  EXPECT_EQ(count_of(page, "class=\"track\""), 2u);
  EXPECT_NE(page.find("2.00 times what was predicted"), page.npos);
  EXPECT_NE(page.find("<code>penstock disk DIRECTORY"), page.npos);
  // Good figures give no advice, and a sort without figures has no such section.
  sort.predicted_s = 10;
  page = make_page({}, std::array{sort}, {.version = "1"});
  EXPECT_NE(page.find("Nothing to change."), page.npos);
  page = make_page({}, std::array{SortRun{.name = "empty"}}, {.version = "1"});
  EXPECT_EQ(page.find("What to do"), page.npos);
  EXPECT_EQ(page.find("Where the time went"), page.npos);
}

Occupancy some_occupancy() {
  Occupancy occupancy{.start_s = 2, .bin_s = 0.5, .memory_bytes = 4000};
  for (size_t stage = 0; stage < external::bucket_stages; ++stage)
    occupancy.stage_bytes[stage] = {1000, 500, 500.0 * static_cast<double>(stage)};
  occupancy.buckets.push_back({0, 1000, 2.0, 2.1, 2.3, 2.5, 2.7});
  occupancy.buckets.push_back({1000, 3000, 2.0, 2.4, 2.4, 3.0, 3.25});
  occupancy.buckets_seen = 4;
  return occupancy;
}

TEST(Page, ASortShowsWhatHeldItsMemory) {
  SortRun sort{.name = "sorted"};
  sort.occupancy = some_occupancy();
  const std::string page = make_page({}, std::array{sort}, {.version = "1"});
  EXPECT_NE(page.find("What held the memory"), page.npos);
  EXPECT_EQ(count_of(page, "<g><title>"), 2u);
  EXPECT_NE(page.find("4 buckets (shown: 2)"), page.npos);
  // Both pictures draw every stage, except one that lasted no time.
  for (const char* stage : {"reading", "waiting", "sorting", "writing"}) {
    EXPECT_EQ(count_of(page, std::string("<path class=\"") + stage + "\""),
              std::string_view(stage) == "waiting" ? 2u : 3u)
        << stage;
  }
}

// A sort with more buckets, bins and staircases than a page can show.
SortRun large_sort(int number) {
  SortRun sort{.name = "sort-" + std::to_string(number) + "."};
  Occupancy& all = sort.occupancy;
  all = {.start_s = 0, .bin_s = 0.001, .memory_bytes = 4000};
  for (std::vector<double>& bytes : all.stage_bytes) bytes.assign(1200, 900);
  for (uint64_t i = 0; i < 1200; ++i) {
    const double at = static_cast<double>(i) * 0.001;
    all.buckets.push_back({i * 100, 100, at, at + 0.1, at + 0.2, at + 0.3, at + 0.4});
  }
  all.buckets_seen = 1200;
  for (int k = 0; k < 16; ++k) {
    sort.staircases.push_back({.title = "stairs",
                               .streams = 1200,
                               .measured_bytes = std::vector<double>(1200, 5),
                               .predicted_bytes = std::vector<double>(600, 5)});
  }
  return sort;
}

TEST(Page, SortsShareItsRoom) {
  const size_t narrow = page_script.size() + page_style.size() + 6'700;  // room for text alone
  for (const size_t bytes_max : {size_t{4'700'000}, size_t{700'000}, narrow}) {
    for (const int count : {1, 3, 20}) {
      if (!tried()) continue;
      SCOPED_TRACE(testing::Message() << count << " sorts in " << bytes_max << " bytes");
      std::vector<SortRun> sorts;
      for (int i = 0; i < count; ++i) sorts.push_back(large_sort(i));
      const std::string page = make_page({}, sorts, {.version = "1", .bytes_max = bytes_max});
      EXPECT_LE(page.size(), bytes_max);
      EXPECT_GT(page.size(), page_script.size() + page_style.size());
      const size_t shown = count_of(page, "<article class=\"sort\">");
      EXPECT_NE(page.find(count == 1 ? "<h1>Sort of sort-0." : "<h1>Sorts of sort-0."), page.npos);
      if (count == 20 && bytes_max == narrow) {
        EXPECT_GE(shown, 3u);
        EXPECT_NE(page.find(fmt::format("no room for {} more sorts", 20 - shown)), page.npos);
        EXPECT_EQ(count_of(page, "no room for its pictures"), shown);
      } else {
        EXPECT_EQ(shown, static_cast<size_t>(count));
        EXPECT_EQ(page.find(" more sort"), page.npos);
      }
      if (count == 1 && bytes_max == 4'700'000) {
        EXPECT_NE(page.find("1,200 buckets (shown: 600)"), page.npos);
        EXPECT_EQ(count_of(page, "<figure class=\"chart stairs\">"), 16u);
      }
    }
  }
  // A trace on the same page keeps its pictures.
  const std::string page = page_of({"/data/in.bin"}, std::vector<SortRun>(5, large_sort(1)));
  EXPECT_LE(page.size(), 4'700'000u);
  EXPECT_EQ(count_of(page, "id=\"data-"), 1u);
  EXPECT_EQ(count_of(page, "<article class=\"sort\">"), 5u);
}

TEST(Thinned, KeepsWhatIsThere) {
  const Occupancy all = large_sort(0).occupancy;
  for (const size_t points : {1u, 7u, 1024u, 1199u, 1200u, 5000u}) {
    SCOPED_TRACE(points);
    const Occupancy thin = thinned(all, points);
    EXPECT_LE(thin.buckets.size(), points);
    EXPECT_EQ(thin.buckets_seen, 1200u);
    for (const std::vector<double>& bytes : thin.stage_bytes) {
      EXPECT_LE(bytes.size(), points);
      EXPECT_GE(static_cast<double>(bytes.size()) * thin.bin_s, 1.2 - 1e-9);
      for (const double held : bytes) EXPECT_DOUBLE_EQ(held, 900);
    }
    const external::Staircase stairs = thinned(large_sort(0).staircases, points)[0];
    EXPECT_LE(stairs.measured_bytes.size(), points);
    EXPECT_EQ(stairs.predicted_bytes.size(), (stairs.measured_bytes.size() + 1) / 2);
    EXPECT_EQ(stairs.streams, 1200u);
  }
  EXPECT_TRUE(thinned(all, 0).buckets.empty());
  EXPECT_EQ(thinned(all, 1200).stage_bytes, all.stage_bytes);
}

// The statistics are an untrusted file.
TEST(Page, NumbersThatCannotBeDrawnLeaveThePictureOut) {
  SortRun sort{.name = "sorted"};
  sort.occupancy.buckets.push_back({~uint64_t{0} / 4, ~uint64_t{0} / 4, 0, 0, 0, 0, 0});
  sort.occupancy.stage_bytes[0] = {0, 0};
  sort.staircases.push_back({.title = "none", .measured_bytes = {0, 0}});
  const std::string page = make_page({}, std::array{sort}, {.version = "1"});
  EXPECT_EQ(page.find("nan"), page.npos);
  EXPECT_EQ(page.find("inf"), page.npos);
  EXPECT_EQ(count_of(page, "<svg"), 0u);
}

TEST(Page, AnEmptyTraceSaysSo) {
  TraceOnDisk trace;
  write_trace(trace.path(), {}, {"/data/a"});
  auto summary = summarize(trace.path());
  ASSERT_TRUE(summary);
  const std::string page = make_page({&*summary, 1}, {}, {.version = "1"});
  EXPECT_NE(page.find("No request in this trace"), page.npos);
  EXPECT_EQ(count_of(page, "id=\"data-"), 0u);
}

}  // namespace
}  // namespace penstock::report
