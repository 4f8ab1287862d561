#include "trace/report/page.h"

#include <gtest/gtest.h>

#include <array>

#include "trace/report/page_parts.h"
#include "trace/report/random_requests.h"

namespace penstock::trace::report {
namespace {

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
  EXPECT_NE(page.find(page_script_hash), page.npos);
  EXPECT_EQ(count_of(page, "<script>"), 1u);
  EXPECT_EQ(count_of(page, "<script"), 2u);  // and the data, which is not run
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
  sort.occupancy.staircases.push_back({.title = "outputs",
                                       .streams = 3,
                                       .steps = 9,
                                       .measured_bytes = {300, 200, 100},
                                       .predicted_bytes = {310, 205, 100}});
  sort.occupancy.staircases.push_back({.title = "nothing"});
  const std::string page = make_page({}, std::array{sort}, {.version = "1"});
  EXPECT_NE(page.find("sort&lt;1&gt;.json"), page.npos);
  EXPECT_NE(page.find("<td class=\"n\">1.20</td>"), page.npos);
  EXPECT_NE(page.find("12,345"), page.npos);
  EXPECT_NE(page.find("predicted 2.00 s"), page.npos);
  EXPECT_EQ(count_of(page, "<figure class=\"chart stairs\">"), 1u);
  EXPECT_EQ(page.find("What held the memory"), page.npos);  // nothing tells
}

external::Occupancy some_occupancy() {
  external::Occupancy occupancy{.start_s = 2, .bin_s = 0.5, .memory_bytes = 4000};
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
  // Every stage is drawn in both pictures, but for the one that lasted no time.
  for (const char* stage : {"reading", "waiting", "sorting", "writing"}) {
    EXPECT_EQ(count_of(page, std::string("<path class=\"") + stage + "\""),
              std::string_view(stage) == "waiting" ? 2u : 3u)
        << stage;
  }
}

// Statistics are a file, which anybody may have written.
TEST(Page, NumbersThatCannotBeDrawnLeaveThePictureOut) {
  SortRun sort{.name = "sorted"};
  sort.occupancy.buckets.push_back({~uint64_t{0} / 4, ~uint64_t{0} / 4, 0, 0, 0, 0, 0});
  sort.occupancy.stage_bytes[0] = {0, 0};
  sort.occupancy.staircases.push_back({.title = "none", .measured_bytes = {0, 0}});
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
}  // namespace penstock::trace::report
