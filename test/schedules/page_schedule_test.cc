// Schedule tests of reference-counted pages and the slots that show them: all accesses to a page happen before
// another holder gets it, or becomes its only holder.

#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <utility>

#include "memory/pool/page_store.h"
#include "memory/rewire/range.h"
#include "os/memory.h"
#include "schedules/expectations.h"

namespace penstock::schedules {
namespace {

std::shared_ptr<pool::PageStore> store_of(uint64_t pages) {
  auto store = pool::PageStore::open({.page_bytes = os::page_bytes,
                                      .bytes_max = pages * os::page_bytes,
                                      .pages = PageKind::small,
                                      .mappings_max = 16});
  require(store.has_value(), "a store cannot be opened");
  return std::move(*store);
}

// A page and its contents: an item that threads see as ordinary memory.
struct Page {
  explicit Page(pool::PageStore& from) : store(from), run(from.take_run(1)) {}
  uint64_t& item() const { return *reinterpret_cast<uint64_t*>(store.home(run.first)); }
  void release() const { store.release(run); }

  pool::PageStore& store;
  const PageRun run;
};

// A holder that finds itself the only one may store to the page.
void alone(Run& run) {
  const auto store = store_of(1);
  const Page page(*store);
  page.item() = 0;
  store->retain(page.run);
  run.thread([&] {
    require(page.item() == 0, "a page has changed that two hold");
    page.release();
  });
  run.thread([&] {
    if (store->references(page.run.first) == 1) page.item() = 1;
  });
  run.go();
  page.release();
}

// Two holders release the only page; the next one to get it may store to it.
void handing_on(Run& run) {
  const auto store = store_of(1);
  const Page page(*store);
  page.item() = 0;
  store->retain(page.run);
  for (int i = 0; i < 2; ++i)
    run.thread([&] {
      require(page.item() == 0, "a page has changed that is held");
      page.release();
    });
  run.thread([&] {
    const Page next(*store);
    if (next.run.count == 0) return;
    next.item() = 1;
    next.release();
  });
  run.go();
  require(store->pages_free() == 1, "the page has not come back");
}

// A thread that sees a page in a slot sees all earlier stores to the page.
void showing(Run& run) {
  const auto store = store_of(1);
  auto range = rewire::Range::reserve(store, 1);
  require(range.has_value(), "no addresses");
  const Page page(*store);
  page.item() = 0;
  run.thread([&] {
    page.item() = 1;
    require((*range)->map(0, page.run, Protection::read) == 0, "a page cannot be mapped");
    require((*range)->protect(0, 1, Protection::read_write) == 0, "a page cannot be protected");
  });
  run.thread([&] {
    if ((*range)->page(0) == page.run.first)
      require(page.item() == 1, "a page is shown without what was stored to it");
  });
  run.go();
  page.release();
}

const Case found_alone{"page.alone", alone, {.deviations = 4}};
const Case handed_on{"page.handing_on", handing_on, {.deviations = 2}};
const Case shown{"page.showing", showing, {.deviations = 3}};

class PageSchedules : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Orders, PageSchedules, testing::Values(found_alone, handed_on, shown),
                         name_of_case);
TEST_P(PageSchedules, AccessesEndBeforeThePageChangesHands) {
  expect_right(GetParam());
}

class PageFaults : public testing::TestWithParam<Planted> {};
INSTANTIATE_TEST_SUITE_P(Planted, PageFaults,
                         testing::Values(Planted{61, &handed_on}, Planted{61, &found_alone},
                                         Planted{62, &found_alone}, Planted{63, &shown},
                                         Planted{64, &shown}),
                         [](const auto& test) {
                           return std::to_string(test.param.fault) + "_" +
                                  std::to_string(test.index);
                         });
TEST_P(PageFaults, AreFound) {
  expect_found(GetParam().fault, *GetParam().found_by);
}

}  // namespace
}  // namespace penstock::schedules
