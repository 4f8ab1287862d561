#include "memory/pool/page_tables.h"

#include <gtest/gtest.h>

namespace penstock::pool {
namespace {

constexpr uint64_t piece = PassedPageTables::piece_bytes;

// An address without a mapping.
std::byte* at(uint64_t address) {
  return reinterpret_cast<std::byte*>(address);
}

TEST(PassedPageTables, EachWholePieceComesOnce) {
  std::byte* const begin = at(10 * piece + 4096);  // in the middle of a piece
  PassedPageTables passed;
  EXPECT_FALSE(passed.reaches(begin, begin));
  EXPECT_FALSE(passed.reaches(begin, at(12 * piece - 1)));
  EXPECT_TRUE(passed.pass(begin, at(12 * piece - 1)).empty());
  EXPECT_TRUE(passed.reaches(begin, at(12 * piece)));
  const auto first = passed.pass(begin, at(12 * piece));
  EXPECT_EQ(first.data(), at(11 * piece));
  EXPECT_EQ(first.size(), piece);
  EXPECT_FALSE(passed.reaches(begin, at(12 * piece)));
  EXPECT_TRUE(passed.pass(begin, at(13 * piece - 4096)).empty());
  const auto more = passed.pass(begin, at(15 * piece + 5));
  EXPECT_EQ(more.data(), at(12 * piece));
  EXPECT_EQ(more.size(), 3 * piece);
}

TEST(PassedPageTables, ARangeThatBeginsWithAPieceHasItsFirst) {
  PassedPageTables passed;
  const auto first = passed.pass(at(10 * piece), at(11 * piece));
  EXPECT_EQ(first.data(), at(10 * piece));
  EXPECT_EQ(first.size(), piece);
}

}  // namespace
}  // namespace penstock::pool
