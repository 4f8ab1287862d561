// Test labels: templates

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <utility>
#include <vector>

#include "penstock/base.h"
#include "penstock/containers.h"
#include "penstock/rewire.h"
#include "penstock/stream.h"

namespace penstock {
namespace {

constexpr uint64_t page_words = 4 * KiB / sizeof(uint64_t);

PagePool pool_of(uint32_t pages, uint64_t mappings_max = 0) {
  auto pool = PagePool::open(
      {.page_bytes = 4 * KiB, .bytes_max = pages * 4 * KiB, .mappings_max = mappings_max});
  EXPECT_TRUE(pool);
  return *pool;
}

// A range whose slots all show a page, each filled with its number.
VirtualRange numbered_range(const PagePool& pool, uint32_t pages) {
  auto range = VirtualRange::open(pool, {.bytes = pages * 4 * KiB});
  EXPECT_TRUE(range);
  EXPECT_TRUE(range->map(0, *pool.take(pages)));
  for (uint64_t i = 0; i < pages * page_words; ++i) range->begin<uint64_t>()[i] = i / page_words;
  return std::move(*range);
}

TEST(PageView, ShowsChosenPagesInAnyOrder) {
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  const PagePool pool = pool_of(64);
  VirtualRange range = numbered_range(pool, 64);
  for (int round = 0; round < 50; ++round) {
    std::vector<uint64_t> slots(1 + random() % 100);
    for (uint64_t i = 0; i < slots.size(); ++i)
      slots[i] = i != 0 && random() % 2 == 0 ? (slots[i - 1] + 1) % 64 : random() % 64;
    const auto view = PageView::open(range, slots);
    ASSERT_TRUE(view) << view.error().message();
    ASSERT_EQ(view->bytes(), slots.size() * 4 * KiB);
    for (uint64_t i = 0; i < slots.size() * page_words; ++i)
      ASSERT_EQ(view->begin<uint64_t>()[i], slots[i / page_words]);
    ASSERT_EQ(view->page(0), range.page(slots[0]));
    ASSERT_EQ(pool.mappings(), range.mappings() + view->mappings());
  }
  EXPECT_EQ(pool.mappings(), range.mappings());
}

TEST(PageView, ShowsLaterStoresOfARangeAndKeepsItsPages) {
  const PagePool pool = pool_of(8);
  VirtualRange range = numbered_range(pool, 4);
  const std::vector<uint64_t> slots = {2, 0, 2};
  auto view = PageView::open(range, slots);
  ASSERT_TRUE(view);
  range.begin<uint64_t>()[2 * page_words] = 77;
  EXPECT_EQ(view->begin<uint64_t>()[0], 77u);
  EXPECT_EQ(view->begin<uint64_t>()[2 * page_words], 77u);
  ASSERT_TRUE(range.unmap({0, 4}));
  EXPECT_EQ(pool.pages_taken(), 2u);
  const PageView moved = std::move(*view);
  EXPECT_EQ(moved.begin<uint64_t>()[2 * page_words], 77u);
  EXPECT_EQ(moved.begin<uint64_t>()[page_words], 0u);
}

TEST(PageView, NeverChangesIfItShowsASnapshot) {
  const PagePool pool = pool_of(64);
  auto table = RewiredTable::open(pool, {.bytes = 16 * 4 * KiB});
  ASSERT_TRUE(table) << table.error().message();
  uint64_t* const live = table->begin<uint64_t>();
  for (uint64_t i = 0; i < 16 * page_words; ++i) live[i] = i / page_words;
  auto snapshot = table->snapshot();
  ASSERT_TRUE(snapshot) << snapshot.error().message();
  const std::vector<uint64_t> pages = {15, 3, 3};
  const auto view = PageView::open(*snapshot, pages);
  ASSERT_TRUE(view) << view.error().message();
  for (uint64_t i = 0; i < 16 * page_words; ++i) live[i] = 1000;
  *snapshot = Snapshot();  // the view keeps its pages
  for (uint64_t i = 0; i < 16 * page_words; ++i) live[i] = 2000;
  EXPECT_EQ(view->begin<uint64_t>()[5], 15u);
  EXPECT_EQ(view->begin<uint64_t>()[page_words], 3u);
  EXPECT_EQ(view->begin<uint64_t>()[3 * page_words - 1], 3u);
  EXPECT_FALSE(PageView::open(Snapshot(), pages));
}

TEST(PageView, KeepsPagesThatAVectorGivesUp) {
  const PagePool pool = pool_of(64);
  auto vector = RewiredVector<uint64_t>::open(pool);
  ASSERT_TRUE(vector);
  for (uint64_t i = 0; i < 20 * page_words; ++i) vector->push_back(i / page_words);
  vector->shrink_to_fit();
  const std::vector<uint64_t> pages = {19, 3, 3, 4};
  const auto view = PageView::open(*vector, pages);
  ASSERT_TRUE(view) << view.error().message();
  (*vector)[3 * page_words] = 77;
  EXPECT_EQ(view->begin<uint64_t>()[page_words], 77u);
  EXPECT_EQ(view->begin<uint64_t>()[2 * page_words], 77u);
  vector->resize(page_words);
  vector->shrink_to_fit();
  EXPECT_EQ(pool.pages_taken(), 4u);
  vector->resize(30 * page_words, 5);  // on other pages
  EXPECT_EQ(view->begin<uint64_t>()[0], 19u);
  EXPECT_EQ(view->begin<uint64_t>()[3 * page_words], 4u);
  const std::vector<uint64_t> behind = {1000};
  EXPECT_EQ(PageView::open(*vector, behind).error().code, ErrorCode::invalid_argument);
  EXPECT_FALSE(PageView::open(RewiredVector<uint64_t>(), {}, {.name = "rows"}));
}

TEST(PageView, MayBeEmpty) {
  const PagePool pool = pool_of(4);
  const VirtualRange range = numbered_range(pool, 4);
  const auto view = PageView::open(range, {});
  ASSERT_TRUE(view);
  EXPECT_EQ(view->bytes(), 0u);
  EXPECT_EQ(view->page_bytes(), 4 * KiB);
  EXPECT_EQ(view->mappings(), 0u);
}

TEST(PageView, RefusesSlotsThatCannotBeShown) {
  const PagePool pool = pool_of(8, 8);
  VirtualRange range = numbered_range(pool, 6);
  const auto code = [&](const std::vector<uint64_t>& slots) {
    const auto view = PageView::open(range, slots);
    return view ? ErrorCode::io : view.error().code;
  };
  EXPECT_EQ(code({0, 6}), ErrorCode::invalid_argument);
  EXPECT_EQ(code({0, 5, 4, 3, 2, 1, 0, 3, 5}), ErrorCode::out_of_mappings);
  ASSERT_TRUE(range.unmap({3, 1}));
  EXPECT_EQ(code({2, 3}), ErrorCode::invalid_argument);
  EXPECT_EQ(pool.pages_taken(), 5u);
  EXPECT_EQ(pool.mappings(), range.mappings());
  EXPECT_FALSE(PageView::open(range, {}, {.policy = ErrorPolicy::zeros}));
}

TEST(PageView, AWriteComesToTheRecoveryPoint) {
  const PagePool pool = pool_of(4);
  const VirtualRange range = numbered_range(pool, 4);
  const std::vector<uint64_t> slots = {1};
  const auto view =
      PageView::open(range, slots, {.policy = ErrorPolicy::recover, .name = "view of the test"});
  ASSERT_TRUE(view);
  auto* const words = const_cast<uint64_t*>(view->begin<uint64_t>());
  const Status status = RecoveryPoint::run([&] { *const_cast<volatile uint64_t*>(words) = 5; });
  ASSERT_FALSE(status);
  EXPECT_NE(status.error().message().find("view of the test"), std::string::npos);
  EXPECT_NE(status.error().message().find("only be read"), std::string::npos);
  EXPECT_EQ(words[0], 1u);
}

TEST(PageViewDeathTest, AWriteStopsTheProgram) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const PagePool pool = pool_of(4);
  const VirtualRange range = numbered_range(pool, 4);
  const std::vector<uint64_t> slots = {1};
  const auto view = PageView::open(range, slots);
  ASSERT_TRUE(view);
  EXPECT_DEATH(const_cast<volatile uint64_t*>(view->begin<uint64_t>())[3] = 5,
               "page view: .*a view can only be read");
}

}  // namespace
}  // namespace penstock
