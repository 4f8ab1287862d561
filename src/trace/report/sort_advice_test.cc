#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "trace/report/advice.h"

namespace penstock::report {
namespace {

// A sort with good figures: the disk takes 60 % of each phase, as predicted, and more memory would
// save nothing.
SortRun good_run() {
  SortRun sort{.name = "sorted", .method = "distribute"};
  sort.seconds = 20;
  sort.predicted_s = 19;
  sort.passes = 2;
  sort.temp_bytes = 4e9;
  sort.sorters_s = 16;
  sort.wait_read_s = 4;
  sort.device_source = "measured by penstock disk /data";
  sort.phases.push_back({"distribute", {.seconds = 6}, {.seconds = 10}});
  sort.phases.push_back({"sort", {.seconds = 6}, {.seconds = 10}});
  sort.occupancy = {.start_s = 10, .bin_s = 1, .memory_bytes = 100};
  for (auto& bytes : sort.occupancy.stage_bytes) bytes.assign(10, 25);
  return sort;
}

// Returns a characteristic word of each advice.
std::vector<std::string> kinds_of(const SortRun& sort) {
  std::vector<std::string> kinds;
  for (const Advice& advice : advice_on(sort)) {
    EXPECT_FALSE(advice.what.empty() || advice.why.empty());
    for (const char* word : {"--parallel", "-S ", "-T ", "-o FILE", "penstock disk"}) {
      if (advice.how.find(word) == std::string::npos) continue;
      kinds.emplace_back(word);
      break;
    }
  }
  EXPECT_EQ(kinds.size(), advice_on(sort).size());
  return kinds;
}
using Kinds = std::vector<std::string>;

TEST(SortAdvice, GoodFiguresGiveNone) {
  EXPECT_EQ(kinds_of(good_run()), Kinds());
  EXPECT_EQ(kinds_of({}), Kinds());
}

TEST(SortAdvice, AnotherDiskIfTheDiskIsTheLimit) {
  SortRun sort = good_run();
  for (SortRun::Phase& phase : sort.phases) phase.predicted.seconds = 7.4;
  EXPECT_EQ(kinds_of(sort), Kinds());
  for (SortRun::Phase& phase : sort.phases) phase.predicted.seconds = 7.6;
  EXPECT_EQ(kinds_of(sort), Kinds{"-T "});
  EXPECT_NE(advice_on(sort)[0].why.find("76 %"), std::string::npos) << advice_on(sort)[0].why;
  sort.temp_bytes = 0;  // no temporaries to put elsewhere
  EXPECT_EQ(kinds_of(sort), Kinds{"-o FILE"});
  // A phase that was faster than its prediction counts with its measured time.
  sort = good_run();
  sort.phases[0].predicted.seconds = 14;
  sort.phases[1].predicted.seconds = 0.1;
  EXPECT_EQ(kinds_of(sort), Kinds());
}

TEST(SortAdvice, AnotherDiskIfSortersWaitForReads) {
  SortRun sort = good_run();
  sort.wait_read_s = 15.9;
  EXPECT_EQ(kinds_of(sort), Kinds());
  sort.wait_read_s = 16.1;
  EXPECT_EQ(kinds_of(sort), Kinds{"-T "});
  EXPECT_NE(advice_on(sort)[0].why.find("waited for reads for 50 %"), std::string::npos);
  sort.sorters_s = std::nullopt;
  EXPECT_EQ(kinds_of(sort), Kinds());
}

TEST(SortAdvice, MoreProcessorsIfBucketsWaitForASorter) {
  SortRun sort = good_run();
  auto wait = [&](double bytes) {
    sort.occupancy.stage_bytes[static_cast<size_t>(external::BucketStage::waiting)].assign(10,
                                                                                           bytes);
  };
  wait(40);  // 34.8 %: 40 of 115
  EXPECT_EQ(kinds_of(sort), Kinds());
  wait(41);  // 35.3 %: 41 of 116
  EXPECT_EQ(kinds_of(sort), Kinds{"--parallel"});
  // The disk is ahead then, and a prediction of the disk's time need not hold.
  for (SortRun::Phase& phase : sort.phases) phase.predicted.seconds = 9.9;
  sort.wait_read_s = 100;
  sort.predicted_s = 5;
  EXPECT_EQ(kinds_of(sort), Kinds{"--parallel"});
}

TEST(SortAdvice, MoreMemoryIfItSavesAPass) {
  SortRun sort = good_run();
  sort.fewer_passes_bytes = 0;
  EXPECT_EQ(kinds_of(sort), Kinds());
  constexpr double mib = 1 << 20, gib = 1 << 30;
  const std::vector<std::pair<double, const char*>> options = {{768 * mib, "-S 768M"},
                                                               {768 * mib + 1, "-S 769M"},
                                                               {12 * gib - 5, "-S 12G"},
                                                               {12 * gib + 5, "-S 13G"}};
  for (const auto& [bytes, option] : options) {
    sort.fewer_passes_bytes = bytes;
    ASSERT_EQ(kinds_of(sort), Kinds{"-S "});
    EXPECT_EQ(advice_on(sort)[0].how, option);
    EXPECT_NE(advice_on(sort)[0].why.find("read the data twice; with"), std::string::npos);
  }
}

TEST(SortAdvice, AMeasurementOfTheDiskIfThePredictionIsFarOff) {
  SortRun sort = good_run();
  const std::vector<std::pair<double, bool>> cases = {
      {15.1, false}, {14.9, true}, {26.5, false}, {26.7, true}, {0, false}};
  for (const auto& [predicted, due] : cases) {
    SCOPED_TRACE(predicted);
    sort.predicted_s = predicted;
    EXPECT_EQ(kinds_of(sort), due ? Kinds{"penstock disk"} : Kinds());
  }
  sort.predicted_s = 2;
  EXPECT_NE(advice_on(sort)[0].why.find("measured by penstock disk /data"), std::string::npos);
  sort.emulated = "emulated device";  // its profile is exact
  EXPECT_EQ(kinds_of(sort), Kinds());
  sort.emulated.clear();
  sort.seconds = 0.9;  // too short to tell
  EXPECT_EQ(kinds_of(sort), Kinds());
}

}  // namespace
}  // namespace penstock::report
