#include "memory/rewire/table_core.h"

#include <gtest/gtest.h>

#include <vector>

#include "penstock/base.h"

namespace penstock::rewire {
namespace {

// A copy that the system would not map is put back after its place in the reserve has been filled.
TEST(CopyReserve, HoldsNoMorePagesThanItHasRoomFor) {
  auto store = pool::PageStore::open({.page_bytes = 64 * KiB, .bytes_max = 8 * 64 * KiB});
  ASSERT_TRUE(store) << store.error().message();
  constexpr uint64_t pages_max = 2;
  CopyReserve reserve(**store, pages_max);
  ASSERT_TRUE(reserve.fill(pages_max));
  const PageId taken = reserve.take();
  ASSERT_TRUE(reserve.fill(pages_max));
  reserve.put_back(taken);
  std::vector<PageId> pages;
  for (PageId page = reserve.take(); page != no_page; page = reserve.take()) pages.push_back(page);
  EXPECT_EQ(pages.size(), pages_max);
  for (PageId page : pages) reserve.put_back(page);
}

}  // namespace
}  // namespace penstock::rewire
