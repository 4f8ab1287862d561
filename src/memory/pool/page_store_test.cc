#include "memory/pool/page_store.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "base/bits.h"
#include "memory/pool/huge_pages.h"
#include "os/limits.h"
#include "os/numa.h"
#include "os/sanitizer.h"
#include "penstock/base.h"
#include "penstock/rewire.h"

namespace penstock::pool {
namespace {

std::unique_ptr<PageStore> store_of(uint32_t pages, size_t page_bytes = 4 * KiB) {
  auto store =
      PageStore::open({.page_bytes = page_bytes, .bytes_max = pages * uint64_t{page_bytes}});
  EXPECT_TRUE(store) << store.error().message();
  return std::move(*store);
}

// Returns the bytes of a line of /proc/self/smaps of the mapping at an address.
uint64_t smaps_bytes(const void* address, const std::string& name) {
  std::ifstream file("/proc/self/smaps");
  bool here = false;
  for (std::string line; std::getline(file, line);) {
    unsigned long first = 0, last = 0;
    char dash = 0;
    if (std::sscanf(line.c_str(), "%lx%c%lx ", &first, &dash, &last) == 3 && dash == '-') {
      const auto at = reinterpret_cast<uintptr_t>(address);
      here = first <= at && at < last;
    } else if (here && line.starts_with(name)) {
      return std::stoull(line.substr(name.size())) * KiB;
    }
  }
  return 0;
}

TEST(PageStore, RefusesInvalidOptions) {
  const auto code = [](const PageStore::Options& options) {
    const auto store = PageStore::open(options);
    return store ? ErrorCode::io : store.error().code;
  };
  EXPECT_EQ(code({.page_bytes = 2 * KiB, .bytes_max = MiB}), ErrorCode::invalid_argument);
  EXPECT_EQ(code({.page_bytes = 12 * KiB, .bytes_max = MiB}), ErrorCode::invalid_argument);
  EXPECT_EQ(code({.page_bytes = 4 * KiB, .bytes_max = 4 * TiB}), ErrorCode::invalid_argument);
  EXPECT_EQ(code({.bytes_max = 200 * TiB}), ErrorCode::invalid_argument);
  EXPECT_EQ(code({.bytes_max = 2 * MiB, .prefault_bytes = 4 * MiB}), ErrorCode::invalid_argument);
  for (const uint64_t bytes_max : {65 * KiB, 160 * KiB}) {
    const PageStore::Options rounded = {.page_bytes = 64 * KiB,
                                        .bytes_max = bytes_max,
                                        .prefault_bytes = round_up(bytes_max, 64 * KiB)};
    EXPECT_TRUE(PageStore::open(rounded)) << "whole pages";
  }
  EXPECT_EQ(code({.page_bytes = 4 * KiB, .bytes_max = MiB, .pages = PageKind::hugetlb}),
            ErrorCode::invalid_argument);
  EXPECT_EQ(code({.bytes_max = 2 * MiB, .node = 1000}), ErrorCode::invalid_argument);
}

TEST(PageStore, HoldsTheMachinesMemoryByDefault) {
  if (os::shadowed) GTEST_SKIP() << "a sanitizer's shadow leaves no room for it";
  const auto store = PageStore::open({});
  ASSERT_TRUE(store) << store.error().message();
  const uint64_t bytes = uint64_t{(*store)->pages_max()} * (*store)->page_bytes();
  EXPECT_GT(bytes, os::limits().memory_bytes / 2);
  EXPECT_LE(bytes, os::limits().memory_bytes);
  EXPECT_EQ((*store)->pages_committed(), 0u);
}

TEST(PageStore, GivesARunBehindTheLastOne) {
  const auto store = store_of(100);
  const PageRun first = store->take_run(10);
  EXPECT_EQ(first, (PageRun{0, 10}));
  const PageRun other = store->take_run(5);
  EXPECT_EQ(other, (PageRun{10, 5}));
  EXPECT_EQ(store->take_run(20, 14), (PageRun{15, 20}));
  store->release(other);
  // Both runs are free and have, or can get, memory: the caller's neighbour goes first.
  EXPECT_EQ(store->take_run(2, 9), (PageRun{10, 2}));
  EXPECT_EQ(store->take_run(9, 11), (PageRun{12, 3}));
  EXPECT_EQ(store->take_run(1, 99).count, 1u);
  EXPECT_EQ(store->pages_free(), 100u - 36);
}

TEST(PageStore, ReturnsTheLongestRunWhenNoneIsLongEnough) {
  const auto store = store_of(20);
  ASSERT_EQ(store->take_run(20).count, 20u);
  store->release(PageRun{3, 2});
  store->release(PageRun{8, 4});
  store->release(PageRun{15, 3});
  EXPECT_EQ(store->take_run(10), (PageRun{8, 4}));
  EXPECT_EQ(store->take_run(3), (PageRun{15, 3}));
  EXPECT_EQ(store->take_run(1), (PageRun{3, 1}));
  EXPECT_EQ(store->take_run(7), (PageRun{4, 1}));
  EXPECT_EQ(store->take_run(1).count, 0u);
  EXPECT_EQ(store->take_run(0).count, 0u);
}

// Idle memory goes before memory that the kernel would have to find and clear.
TEST(PageStore, TakesPagesThatHaveMemoryFirst) {
  const auto store = store_of(16, 2 * MiB);
  const PageRun run = store->take_run(6);
  ASSERT_EQ(run, (PageRun{0, 6}));
  store->release(PageRun{1, 1});
  store->release(PageRun{4, 1});
  EXPECT_EQ(store->take_run(4, 5), (PageRun{1, 1}));
  EXPECT_EQ(store->take_run(4, 5), (PageRun{4, 1}));
  EXPECT_EQ(store->pages_committed(), 6u);
  EXPECT_EQ(store->take_run(4, 5), (PageRun{6, 4}));
  EXPECT_EQ(store->pages_committed(), 10u);

  // If pages are small, a run goes before single ones with memory: mappings cost more than they.
  const auto small = store_of(16);
  ASSERT_EQ(small->take_run(6).count, 6u);
  small->release(PageRun{1, 1});
  EXPECT_EQ(small->take_run(4), (PageRun{6, 4}));
  EXPECT_EQ(small->take_run(1), (PageRun{1, 1}));
}

// Takes, shares and drops at random; the counts must equal those of a plain map.
TEST(PageStore, CountsReferencesAsAMapDoes) {
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  constexpr uint32_t pages_max = 300;
  const auto store = store_of(pages_max);
  std::map<PageId, uint32_t> references;
  std::vector<PageRun> held;
  for (int step = 0; step < 20'000; ++step) {
    switch (random() % 4) {
      case 0: {
        const PageRun run = store->take_run(static_cast<uint32_t>(1 + random() % 20),
                                            static_cast<PageId>(random() % pages_max));
        for (PageId page = run.first; page < run.end() && run.count != 0; ++page) {
          ASSERT_EQ(references.count(page), 0u);
          references[page] = 1;
          *reinterpret_cast<uint64_t*>(store->home(page)) = page;
        }
        if (run.count != 0)
          held.push_back(run);
        else
          ASSERT_EQ(references.size(), pages_max);
        break;
      }
      case 1: {
        if (held.empty()) break;
        const PageRun run = held[random() % held.size()];
        const auto skip = static_cast<uint32_t>(random() % run.count);
        const PageRun part{run.first + skip,
                           1 + static_cast<uint32_t>(random() % (run.count - skip))};
        store->retain(part);
        held.push_back(part);
        for (PageId page = part.first; page != part.end(); ++page) ++references[page];
        break;
      }
      default: {
        if (held.empty()) break;
        std::swap(held[random() % held.size()], held.back());
        const PageRun run = held.back();
        held.pop_back();
        for (PageId page = run.first; page != run.end(); ++page) {
          ASSERT_EQ(*reinterpret_cast<uint64_t*>(store->home(page)), page);
          if (--references[page] == 0) references.erase(page);
        }
        store->release(run);
        break;
      }
    }
    ASSERT_EQ(store->pages_taken(), references.size());
    const auto page = static_cast<PageId>(random() % pages_max);
    const auto known = references.find(page);
    ASSERT_EQ(store->references(page), known == references.end() ? 0 : known->second);
    if (step % 1000 == 0) store->trim();
  }
  for (const PageRun run : held) store->release(run);
  EXPECT_EQ(store->pages_free(), pages_max);
  store->trim();
  EXPECT_EQ(store->pages_committed(), 0u);
  EXPECT_EQ(store->take_run(pages_max), (PageRun{0, pages_max}));
}

TEST(PageStore, GivesTheMemoryOfFreePagesBack) {
  const auto store = store_of(64, 64 * KiB);
  const PageRun run = store->take_run(64);
  std::memset(store->home(0), 1, 64 * 64 * KiB);
  const auto resident = [&] { return smaps_bytes(store->home(0), "Rss:"); };
  EXPECT_EQ(resident(), 64 * 64 * KiB);
  store->trim();  // nothing is free
  EXPECT_EQ(store->pages_committed(), 64u);
  store->release(PageRun{run.first, 32});
  EXPECT_EQ(store->pages_committed(), 64u);
  EXPECT_EQ(resident(), 64 * 64 * KiB);
  store->trim();
  EXPECT_EQ(store->pages_committed(), 32u);
  EXPECT_EQ(resident(), 32 * 64 * KiB);
  EXPECT_EQ(*store->home(40), std::byte{1});
  const PageRun again = store->take_run(32);
  EXPECT_EQ(again.count, 32u);
  EXPECT_EQ(store->pages_committed(), 64u);
}

TEST(PageStore, PrefaultsFreePages) {
  auto store = PageStore::open(
      {.page_bytes = 64 * KiB, .bytes_max = 4 * MiB, .prefault_bytes = 1 * MiB + 1});
  ASSERT_TRUE(store);
  EXPECT_EQ((*store)->pages_committed(), 17u);
  EXPECT_EQ((*store)->take_run(17).count, 17u);
  EXPECT_EQ((*store)->prefault(3), 0);
  EXPECT_EQ((*store)->pages_committed(), 20u);
  EXPECT_EQ((*store)->prefault(2), 0);
  EXPECT_EQ((*store)->pages_committed(), 20u);
  EXPECT_EQ((*store)->prefault(48), ENOMEM);
  EXPECT_EQ((*store)->pages_free(), 47u);
}

TEST(PageStore, MakesHugePages) {
  auto store = PageStore::open({.bytes_max = 8 * MiB, .pages = PageKind::huge});
  if (!file_pages_collapse()) {
    ASSERT_FALSE(store);
    EXPECT_EQ(store.error().code, ErrorCode::unsupported);
    GTEST_SKIP() << store.error().message();
  }
  ASSERT_TRUE(store) << store.error().message();
  EXPECT_EQ((*store)->pages(), PageKind::huge);
  ASSERT_EQ((*store)->take_run(3).count, 3u);
  EXPECT_EQ(smaps_bytes((*store)->home(0), "ShmemPmdMapped:"), 6 * MiB);
  // A view elsewhere also takes one entry of the page table.
  auto range = os::Reservation::reserve(4 * MiB);
  ASSERT_TRUE(range);
  ASSERT_EQ((*store)->map(range->begin(), {1, 1}, Protection::read_write, true), 0);
  EXPECT_EQ(smaps_bytes(range->begin(), "ShmemPmdMapped:"), 2 * MiB);
}

// A page of a store may consist of several of the processor's.
TEST(PageStore, MakesHugePagesOfLargerPages) {
  auto store =
      PageStore::open({.page_bytes = 4 * MiB, .bytes_max = 16 * MiB, .pages = PageKind::huge});
  if (!file_pages_collapse()) GTEST_SKIP() << "no huge pages of files here";
  ASSERT_TRUE(store) << store.error().message();
  ASSERT_EQ((*store)->take_run(2).count, 2u);
  EXPECT_EQ(smaps_bytes((*store)->home(0), "ShmemPmdMapped:"), 8 * MiB);
}

TEST(PageStore, MakesSmallPagesOfAnySize) {
  for (const size_t page_bytes : {4 * KiB, 64 * KiB, 1 * MiB}) {
    EXPECT_EQ(store_of(4, page_bytes)->pages(), PageKind::small);
  }
  auto store = PageStore::open({.bytes_max = 8 * MiB, .pages = PageKind::small});
  ASSERT_TRUE(store);
  ASSERT_EQ((*store)->take_run(2).count, 2u);
  EXPECT_EQ(smaps_bytes((*store)->home(0), "ShmemPmdMapped:"), 0u);
}

TEST(PageStore, TakesReservedHugePages) {
  const auto reserved = os::limits().reserved_huge_pages_free;
  auto store = PageStore::open({.bytes_max = 4 * MiB, .pages = PageKind::hugetlb});
  if (reserved.value_or(0) < 2) {
    EXPECT_FALSE(store);
    GTEST_SKIP() << "no huge pages are reserved (vm.nr_hugepages)";
  }
  ASSERT_TRUE(store) << store.error().message();
  EXPECT_EQ((*store)->pages(), PageKind::hugetlb);
  const PageRun run = (*store)->take_run(2);
  ASSERT_EQ(run.count, 2u);
  std::memset((*store)->home(run.first), 1, 4 * MiB);
  auto automatic = PageStore::open({.bytes_max = 2 * MiB * (*reserved - 2)});
  if (*reserved > 2) {
    EXPECT_EQ((*automatic)->pages(), PageKind::hugetlb);
  }
}

// Returns a page's node, or -1. Gives the page memory if it has none.
int node_of(const std::byte* page) {
  constexpr unsigned of_address = MPOL_F_NODE | MPOL_F_ADDR;
  int node = -1;
  return ::syscall(SYS_get_mempolicy, &node, nullptr, 0ul, page, of_address) == 0 ? node : -1;
}

TEST(PageStore, TakesMemoryOfANode) {
  const auto store = PageStore::open({.page_bytes = 4 * KiB, .bytes_max = MiB, .node = 0});
  if (!store && store.error().system_errno == ENOSYS) GTEST_SKIP() << "no NUMA in this kernel";
  ASSERT_TRUE(store) << store.error().message();
  ASSERT_EQ((*store)->take_run(3).count, 3u);
  EXPECT_EQ(node_of((*store)->home(1)), 0);
  if (os::numa_nodes_max() == 1) GTEST_SKIP() << "this machine has one node";
  for (uint32_t node = 1; node < os::numa_nodes_max(); ++node) {
    const auto there = PageStore::open({.bytes_max = 4 * MiB, .node = static_cast<int>(node)});
    ASSERT_TRUE(there);
    ASSERT_EQ((*there)->take_run(2).count, 2u);
    EXPECT_EQ(node_of((*there)->home(0)), static_cast<int>(node));
  }
}

TEST(PageStore, CountsMappingsUpToItsLimit) {
  auto store = PageStore::open({.page_bytes = 4 * KiB, .bytes_max = MiB, .mappings_max = 10});
  ASSERT_TRUE(store);
  EXPECT_TRUE((*store)->claim_mappings(7));
  EXPECT_FALSE((*store)->claim_mappings(4));
  EXPECT_TRUE((*store)->claim_mappings(3));
  (*store)->return_mappings(10);
  EXPECT_EQ((*store)->mappings(), 0u);
  const os::Mappings now = os::mappings();
  EXPECT_LE(store_of(1)->mappings_max(), now.max - now.used);
  EXPECT_GE(store_of(1)->mappings_max(), (now.max - now.used) / 2);
}

TEST(PageStore, ThreadsTakeShareAndDropAtTheSameTime) {
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  constexpr uint32_t pages_max = 64, threads = 4;
  const auto store = store_of(pages_max);
  std::atomic<uint64_t> wrong{0};
  std::atomic<bool> stop{false};
  std::vector<std::thread> workers;
  for (uint64_t t = 0; t < threads; ++t) {
    workers.emplace_back([&, t] {
      std::mt19937_64 random(seed + t);
      std::vector<PageRun> held;
      for (uint64_t step = 1; step < 3000; ++step) {
        if (random() % 2 == 0) {
          const PageRun run = store->take_run(static_cast<uint32_t>(1 + random() % 8));
          if (run.count == 0) continue;
          for (uint32_t i = 0; i < run.count; ++i) {
            auto* const word = reinterpret_cast<uint64_t*>(store->home(run.first + i));
            *word = t << 32 | (run.first + i);
          }
          held.push_back(run);
          if (random() % 4 == 0) {  // a second reference
            store->retain(run);
            held.push_back(run);
          }
        } else if (!held.empty()) {
          std::swap(held[random() % held.size()], held.back());
          const PageRun run = held.back();
          held.pop_back();
          for (uint32_t i = 0; i < run.count; ++i) {
            const auto* const word = reinterpret_cast<uint64_t*>(store->home(run.first + i));
            if (*word != (t << 32 | (run.first + i))) ++wrong;
          }
          store->release(run);
        }
      }
      for (const PageRun run : held) store->release(run);
    });
  }
  std::thread trimmer([&] {
    while (!stop.load(std::memory_order_relaxed)) {
      store->trim();
      (void)store->prefault(4);
    }
  });
  for (std::thread& worker : workers) worker.join();
  stop = true;
  trimmer.join();
  EXPECT_EQ(wrong, 0u);
  EXPECT_EQ(store->pages_free(), pages_max);
  store->trim();
  EXPECT_EQ(store->pages_committed(), 0u);
}

// Pages that prefault() is committing still count as free: a taker waits for them.
TEST(PageStore, FindsPagesThatAreBeingPrefaulted) {
  constexpr uint32_t pages_max = 8;
  const auto store = store_of(pages_max, 256 * KiB);
  std::atomic<bool> stop{false};
  std::thread other([&] {
    while (!stop.load(std::memory_order_relaxed)) {
      store->trim();
      (void)store->prefault(pages_max);
    }
  });
  uint64_t missed = 0;
  for (int in_hand = 0; in_hand < 5; ++in_hand) {
    while (store->pages_free() != 0) std::this_thread::yield();
    const PageRun run = store->take_run(1);
    missed += run.count != 1;
    store->release(run);
  }
  stop = true;
  other.join();
  EXPECT_EQ(missed, 0u);
}

TEST(PageStoreDeathTest, StopsAtAReferenceThatNobodyHolds) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // no forked child, where the calls do nothing
  const auto store = store_of(4);
  EXPECT_DEATH(store->release(PageRun{2, 1}), "released that nobody holds");
  EXPECT_DEATH(store->retain(PageRun{2, 1}), "shared that nobody holds");
}

// ---- the public pool and its sets

PagePool pool_of(uint32_t pages) {
  auto pool = PagePool::open(
      {.page_bytes = 4 * KiB, .bytes_max = pages * 4 * KiB, .name = "pool of the test"});
  EXPECT_TRUE(pool);
  return *pool;
}

std::vector<PageId> ids(const PageSet& set) {
  std::vector<PageId> all;
  for (uint32_t i = 0; i < set.size(); ++i) all.push_back(set[i]);
  return all;
}

TEST(PagePool, GivesAllPagesOrNone) {
  const PagePool pool = pool_of(10);
  EXPECT_EQ(pool.limit(), 40 * KiB);
  {
    auto set = pool.take(7);
    ASSERT_TRUE(set);
    EXPECT_EQ(set->size(), 7u);
    EXPECT_EQ(set->runs().size(), 1u);
    EXPECT_EQ(pool.pages_taken(), 7u);
    std::memset(set->bytes(6).data(), 1, set->bytes(6).size());
    const auto more = pool.take(4);
    ASSERT_FALSE(more);
    EXPECT_EQ(more.error().code, ErrorCode::out_of_memory);
    EXPECT_NE(more.error().message().find("pool of the test"), std::string::npos);
    EXPECT_NE(more.error().message().find("7 of 10 are taken"), std::string::npos);
    EXPECT_EQ(pool.pages_taken(), 7u);
    EXPECT_TRUE(pool.take(3));
    EXPECT_TRUE(pool.take(0));
  }
  EXPECT_EQ(pool.pages_taken(), 0u);
  EXPECT_EQ(pool.memory_bytes(), 40 * KiB);
  pool.trim();
  EXPECT_EQ(pool.memory_bytes(), 0u);
  EXPECT_TRUE(pool.prefault(5));
  EXPECT_EQ(pool.pages_committed(), 5u);
  EXPECT_FALSE(pool.prefault(11));
}

TEST(PagePool, LivesAsLongAsAnythingThatCameFromIt) {
  PageSet set;
  {
    const PagePool pool = pool_of(3);
    set = *pool.take(2);
  }
  std::memset(set.bytes(1).data(), 5, set.bytes(1).size());
  EXPECT_EQ(set.bytes(1)[4095], std::byte{5});
}

TEST(PageSet, IsCutAndJoinedAsAVectorIs) {
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  const PagePool pool = pool_of(200);
  for (int round = 0; round < 200; ++round) {
    std::vector<PageSet> sets;
    for (int i = 0; i < 8; ++i) sets.push_back(*pool.take(static_cast<uint32_t>(random() % 8)));
    std::shuffle(sets.begin(), sets.end(), random);
    PageSet all;
    std::vector<PageId> model;
    for (PageSet& set : sets) {
      if (random() % 4 == 0) continue;  // leaves holes
      const std::vector<PageId> here = ids(set);
      model.insert(model.end(), here.begin(), here.end());
      all.append(std::move(set));
      EXPECT_TRUE(set.empty());
    }
    sets.clear();
    ASSERT_EQ(ids(all), model);
    ASSERT_EQ(pool.pages_taken(), model.size());
    const auto at = static_cast<uint32_t>(random() % (model.size() + 1));
    PageSet rest = all.split(at);
    ASSERT_EQ(ids(all), std::vector<PageId>(model.begin(), model.begin() + at));
    ASSERT_EQ(ids(rest), std::vector<PageId>(model.begin() + at, model.end()));
    for (size_t i = 1; i < rest.runs().size(); ++i)
      ASSERT_NE(rest.runs()[i - 1].end(), rest.runs()[i].first);
    rest.append(std::move(all));
    ASSERT_EQ(rest.size(), model.size());
    const PageSet moved = std::move(rest);
    ASSERT_EQ(rest.size(), 0u);
    ASSERT_EQ(moved.size(), model.size());
  }
  EXPECT_EQ(pool.pages_taken(), 0u);
}

}  // namespace
}  // namespace penstock::pool
