#include "base/wrapped.h"

#include <gtest/gtest.h>

namespace penstock {
namespace {

TEST(Wrapped, FillsLinesUpToTheLastColumn) {
  EXPECT_EQ(wrapped("one two three", 0, 0, 7), "one two\nthree");
  EXPECT_EQ(wrapped("one two three", 0, 0, 6), "one\ntwo\nthree");
  EXPECT_EQ(wrapped("one two three", 2, 5, 9), "one\n  two\n  three");
  EXPECT_EQ(wrapped("", 2), "");
}

TEST(Wrapped, LeavesALongWordWhole) {
  EXPECT_EQ(wrapped("in /a/long/path here", 1, 0, 6), "in\n /a/long/path\n here");
}

TEST(Wrapped, CountsCharactersNotBytes) {
  EXPECT_EQ(columns_of("12 µs"), 5u);
  EXPECT_EQ(wrapped("µµµ µµµ µ", 0, 0, 7), "µµµ µµµ\nµ");
}

}  // namespace
}  // namespace penstock
