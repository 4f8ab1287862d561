#include "files/sort/context.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace penstock::external {
namespace {

// The first report is the first thing that a user sees.
TEST(Context, AReportBeforeAnyPhaseNamesTheSample) {
  std::vector<std::string> phases;
  SortOptions options;
  options.progress = [&](const files::Progress& progress) { phases.emplace_back(progress.phase); };
  Context context(options);
  ASSERT_TRUE(context.pulse());
  EXPECT_EQ(phases, std::vector<std::string>{"sample"});
}

}  // namespace
}  // namespace penstock::external
