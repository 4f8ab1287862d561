#include "cli/common/progress_line.h"

#include <gtest/gtest.h>

namespace penstock::cli {
namespace {

TEST(Describe, TellsShareAndTimeLeft) {
  EXPECT_EQ(describe({"merge", 1 * GiB, 4 * GiB}, 20),
            "merge       1.0 of 4.0 GiB  25 %  1:00 left");
  // The plan's own estimate, which may know that the rest is slower.
  EXPECT_EQ(describe({"sort", 1 * GiB, 4 * GiB, 100}, 20),
            "sort        1.0 of 4.0 GiB  25 %  1:40 left");
}

TEST(Describe, TellsHours) {
  EXPECT_EQ(describe({"sort", 1 * GiB, 4 * GiB}, 3601),
            "sort        1.0 of 4.0 GiB  25 %  3:00:03 left");
}

TEST(Describe, PromisesNothingBeforeItKnows) {
  EXPECT_EQ(describe({"sample", 0, 4 * GiB}, 5), "sample      0.0 of 4.0 GiB  0 %");
  EXPECT_EQ(describe({"sort", 1 * GiB, 4 * GiB}, 0.5), "sort        1.0 of 4.0 GiB  25 %");
}

TEST(Describe, NeverExceedsTheWhole) {
  EXPECT_EQ(describe({"sort", 5 * GiB, 4 * GiB}, 10),
            "sort        4.0 of 4.0 GiB  100 %  0:00 left");
}

TEST(Describe, ShowsSizesOfTheInputNotOfAllReadsAndWrites) {
  EXPECT_EQ(
      describe(
          {.phase = "sort", .done_bytes = 3 * GiB, .total_bytes = 4 * GiB, .input_bytes = 2 * GiB},
          30),
      "sort        1.5 of 2.0 GiB  75 %  0:10 left");
}

TEST(Describe, ShowsReadsAndWritesOfAPipe) {
  EXPECT_EQ(describe({"distribute", 3 * GiB, 0}, 61),
            "distribute  3.0 GiB read and written  1:01 so far");
  // A sample of a file comes before the plan, which knows the total.
  EXPECT_EQ(describe({.phase = "sample", .done_bytes = MiB, .input_bytes = 3 * GiB}, 1),
            "sample      3.0 GiB of input  0:01 so far");
}

TEST(ProgressLine, IsSilentWithoutATerminal) {
  testing::internal::CaptureStderr();
  {
    ProgressLine line;
    EXPECT_FALSE(line.wanted());
    line.show({"sort", 1, 2});
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

}  // namespace
}  // namespace penstock::cli
