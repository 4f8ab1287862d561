#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <utility>
#include <vector>

#include "memory/rewire/table_fixture.h"
#include "penstock/base.h"
#include "penstock/rewire.h"

namespace penstock {
namespace {

PagePool pool_of(uint32_t pages, uint64_t mappings_max = 0) {
  auto pool = PagePool::open({.page_bytes = 4 * KiB,
                              .bytes_max = pages * 4 * KiB,
                              .mappings_max = mappings_max,
                              .name = "pool of the test"});
  EXPECT_TRUE(pool);
  return *pool;
}

VirtualRange range_of(const PagePool& pool, uint64_t slots) {
  auto range = VirtualRange::open(pool, {.bytes = slots * 4 * KiB, .name = "range of the test"});
  EXPECT_TRUE(range);
  return std::move(*range);
}

ErrorCode code(const Status& status) {
  EXPECT_FALSE(status);
  return status ? ErrorCode::io : status.error().code;
}

// Writes the pages' numbers into a set, at home.
void number(const PageSet& set) {
  for (uint32_t i = 0; i < set.size(); ++i)
    *reinterpret_cast<uint64_t*>(set.bytes(i).data()) = i + 1;
}

uint64_t number_at(const VirtualRange& range, uint64_t slot) {
  return range.begin<uint64_t>()[slot * 4 * KiB / sizeof(uint64_t)];
}

// The paper's figure 4: two pages are exchanged, and nothing is copied.
TEST(VirtualRange, SwapsTwoPages) {
  const PagePool pool = pool_of(2);
  VirtualRange range = range_of(pool, 2);
  {
    auto pages = pool.take(2);
    ASSERT_TRUE(pages);
    number(*pages);
    ASSERT_TRUE(range.map(0, *pages));
  }
  EXPECT_EQ(pool.pages_taken(), 2u);  // the range holds them
  EXPECT_EQ(number_at(range, 0), 1u);
  ASSERT_TRUE(range.swap({.first = 0, .count = 1}, 1));
  EXPECT_EQ(number_at(range, 0), 2u);
  EXPECT_EQ(number_at(range, 1), 1u);
  ASSERT_TRUE(range.unmap({0, 2}));
  EXPECT_EQ(pool.pages_taken(), 0u);
}

TEST(VirtualRange, MapsInAnyOrderWithRepeats) {
  const PagePool pool = pool_of(10);
  VirtualRange range = range_of(pool, 20);
  const PageSet pages = *pool.take(5);
  number(pages);
  const std::vector<PageId> order = {pages[4], pages[0], pages[1], pages[0], pages[3]};
  ASSERT_TRUE(range.map(2, order, Protection::read));
  EXPECT_EQ(number_at(range, 2), 5u);
  EXPECT_EQ(number_at(range, 3), 1u);
  EXPECT_EQ(number_at(range, 4), 2u);
  EXPECT_EQ(number_at(range, 5), 1u);
  EXPECT_EQ(number_at(range, 6), 4u);
  EXPECT_EQ(range.page(6), pages[3]);
  EXPECT_EQ(range.page(7), no_page);
  EXPECT_EQ(range.protection(6), Protection::read);
  EXPECT_EQ(range.mappings(), 6u);
  EXPECT_EQ(pool.mappings(), 6u);
  ASSERT_TRUE(range.move({.first = 3, .count = 4}, 2));  // closes the gap
  EXPECT_EQ(number_at(range, 2), 1u);
  EXPECT_EQ(range.page(6), no_page);
  ASSERT_TRUE(range.protect({0, 20}, Protection::read_write));
  *reinterpret_cast<uint64_t*>(range.address(5)) = 0;
}

TEST(VirtualRange, MapsASetOfSeveralRuns) {
  const PagePool pool = pool_of(10);
  VirtualRange range = range_of(pool, 10);
  PageSet pages = *pool.take(6);
  const PageSet middle = [&] {
    PageSet rest = pages.split(2);
    PageSet tail = rest.split(2);
    pages.append(std::move(tail));
    return rest;
  }();
  ASSERT_EQ(pages.runs().size(), 2u);
  number(pages);
  ASSERT_TRUE(range.map(1, pages));
  for (uint32_t i = 0; i < 4; ++i) EXPECT_EQ(number_at(range, 1 + i), i + 1);
  EXPECT_TRUE(range.map(0, PageSet()));
}

TEST(VirtualRange, ReportsWhatIsWrong) {
  const PagePool pool = pool_of(10, 6);
  EXPECT_FALSE(VirtualRange::open(pool, {}));
  EXPECT_FALSE(VirtualRange::open(pool, {.bytes = 1000 * TiB}));
  VirtualRange range = range_of(pool, 12);
  const PageSet pages = *pool.take(4);
  EXPECT_EQ(code(range.map(9, pages)), ErrorCode::invalid_argument);
  EXPECT_EQ(code(range.map(~uint64_t{0}, pages)), ErrorCode::invalid_argument);
  EXPECT_EQ(code(range.map(0, PageRun{3, 2})), ErrorCode::invalid_argument);  // page 4 is free
  EXPECT_EQ(code(range.map(0, PageRun{9, 2})), ErrorCode::invalid_argument);
  EXPECT_EQ(code(range.map(0, PageRun{no_page, 1})), ErrorCode::invalid_argument);
  EXPECT_EQ(code(range.unmap({.first = 11, .count = 2})), ErrorCode::invalid_argument);
  EXPECT_EQ(code(range.protect({13, 0}, Protection::read)), ErrorCode::invalid_argument);
  EXPECT_EQ(code(range.swap({0, 3}, 2)), ErrorCode::invalid_argument);
  EXPECT_EQ(code(range.move({0, 3}, 10)), ErrorCode::invalid_argument);
  EXPECT_EQ(code(range.populate({0, 13})), ErrorCode::invalid_argument);
  EXPECT_TRUE(range.unmap({12, 0}));

  const std::vector<PageId> order = {pages[3], pages[2], pages[1], pages[0], pages[3], pages[1]};
  const Status refused = range.map(0, order);
  ASSERT_EQ(code(refused), ErrorCode::out_of_mappings);
  const std::string message = refused.error().message();
  for (const char* const part :
       {"range of the test", "6 mappings", "vm.max_map_count", "larger pages"})
    EXPECT_NE(message.find(part), std::string::npos) << message;
  EXPECT_EQ(range.page(0), no_page);
  EXPECT_EQ(range.mappings(), 1u);
  EXPECT_EQ(pool.mappings(), 1u);
}

// The kernel has no mapping left to split one of them in two.
TEST(VirtualRange, AProtectionThatIsRefusedHalfWayGoesNoFurtherThanAsked) {
  if (const auto why = rewire::MappingsUsedUp::impossible()) GTEST_SKIP() << *why;
  const PagePool pool = pool_of(7);
  VirtualRange range = range_of(pool, 12);
  {
    const auto first = pool.take(2), between = pool.take(1), second = pool.take(4);
    ASSERT_TRUE(first && between && second);
    ASSERT_TRUE(range.map(0, *first));
    ASSERT_TRUE(range.map(2, *second));
  }
  const Status refused = [&] {
    const rewire::MappingsUsedUp used_up(0);
    return range.protect({0, 4}, Protection::read);
  }();
  EXPECT_EQ(code(refused), ErrorCode::out_of_mappings);
  for (const uint64_t slot : {2, 3, 4, 5}) {
    EXPECT_EQ(range.protection(slot), Protection::read_write);
    range.begin<uint64_t>()[slot * 4 * KiB / sizeof(uint64_t)] = slot;  // and stores succeed
  }
  ASSERT_TRUE(range.protect({0, 4}, Protection::read));
  EXPECT_EQ(range.protection(3), Protection::read);
  EXPECT_EQ(range.protection(4), Protection::read_write);
}

TEST(VirtualRange, RefusesPagesOfAnotherPool) {
  const PagePool pool = pool_of(4), other = pool_of(4);
  VirtualRange range = range_of(pool, 4);
  const PageSet own = *pool.take(4), strange = *other.take(2);
  EXPECT_EQ(code(range.map(0, strange)), ErrorCode::invalid_argument);
  EXPECT_EQ(range.page(0), no_page);
  EXPECT_TRUE(range.map(0, own));
}

TEST(VirtualRange, RefusesToRewireInAForkedChild) {
  const PagePool pool = pool_of(4);
  VirtualRange range = range_of(pool, 4);
  const PageSet pages = *pool.take(2);
  number(pages);
  ASSERT_TRUE(range.map(0, pages));
  const pid_t child = fork();
  if (child == 0) {
    bool good = number_at(range, 1) == 2 && !pool.take(1);
    const Status status = range.unmap({0, 1});
    good = good && !status && status.error().code == ErrorCode::permission;
    good = good && range.populate({0, 2}).has_value();
    _exit(good ? 0 : 1);
  }
  int exit_status = 0;
  ASSERT_EQ(waitpid(child, &exit_status, 0), child);
  EXPECT_TRUE(WIFEXITED(exit_status) && WEXITSTATUS(exit_status) == 0);
  EXPECT_EQ(number_at(range, 0), 1u);
}

TEST(VirtualRange, OutlivesThePoolsHandle) {
  auto range = [] {
    const PagePool pool = pool_of(4);
    VirtualRange made = range_of(pool, 4);
    EXPECT_TRUE(made.map(0, *pool.take(4)));
    return made;
  }();
  range.begin()[3 * 4 * KiB] = std::byte{9};
  VirtualRange moved = std::move(range);
  EXPECT_EQ(moved.begin()[3 * 4 * KiB], std::byte{9});
}

}  // namespace
}  // namespace penstock
