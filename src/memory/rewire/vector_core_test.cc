#include "memory/rewire/vector_core.h"

#include <gtest/gtest.h>

#include <vector>

#include "penstock/base.h"

namespace penstock::rewire {
namespace {

TEST(VectorCore, PagesAreAppendedUpToItsBound) {
  auto opened = pool::PageStore::open({.page_bytes = 4 * KiB, .bytes_max = 8 * 4 * KiB});
  ASSERT_TRUE(opened) << opened.error().message();
  const std::shared_ptr<pool::PageStore> store = std::move(*opened);
  auto core = VectorCore::open(store, {.bytes_max = 4 * 4 * KiB});
  ASSERT_TRUE(core) << core.error().message();
  std::vector<PageId> pages;
  for (int i = 0; i < 5; ++i) pages.push_back(store->take_run(1).first);
  const auto append = [&](size_t first, size_t count) {
    return (*core)->append_pages(std::span(pages).subspan(first, count));
  };
  ASSERT_TRUE(append(0, 1));
  ASSERT_FALSE(append(1, 4));
  EXPECT_EQ((*core)->mapped_slots(), 1u);
  ASSERT_TRUE(append(1, 3));
  EXPECT_EQ((*core)->mapped_slots(), 4u);
  const Status beyond = append(4, 1);
  ASSERT_FALSE(beyond);
  EXPECT_EQ(beyond.error().code, ErrorCode::out_of_memory);
  EXPECT_TRUE(append(4, 0));
  EXPECT_EQ(store->references(pages[3]), 2u);
  EXPECT_EQ(store->references(pages[4]), 1u);
  store->release(pages);
  core->reset();
  EXPECT_EQ(store->pages_free(), 8u);
}

}  // namespace
}  // namespace penstock::rewire
