#include "penstock/region.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/random.h"
#include "memory/fault/registry.h"
#include "memory/pool/pinned_page_fixture.h"
#include "memory/stream/mechanism_fixture.h"
#include "os/memory.h"
#include "os/sanitizer.h"
#include "penstock/stream.h"

namespace penstock {
namespace {

using Blocks = Region::Blocks;
using Fault = Region::Fault;

__attribute__((no_sanitize("thread"))) void write(uint64_t* at, uint64_t value) {
  *static_cast<volatile uint64_t*>(at) = value;
}

void fill(std::span<std::byte> bytes, uint64_t index) {
  auto* const items = reinterpret_cast<uint64_t*>(bytes.data());
  for (size_t i = 0; i < block_items; ++i) items[i] = mix64(index * block_items + i);
}

Status shown(int error) {
  if (error != 0) return system_error(error, "show a block", "a test");
  return {};
}

// Uses up all but a few of the mappings that the system lets the process have.
class MappingsUsedUp {
 public:
  static constexpr size_t pages_max = 200'000;
  MappingsUsedUp() : memory_(os::Reservation::reserve(pages_max * os::page_bytes).value()) {
    for (size_t page = 0; page < pages_max && error_ == 0; page += 2)
      error_ =
          os::protect(memory_.begin() + page * os::page_bytes, os::page_bytes, Protection::read);
  }
  bool is_so() const { return error_ == ENOMEM; }

 private:
  os::Reservation memory_;
  int error_ = 0;
};

class RegionOn : public OnBlockPool {
 protected:
  static Region open(const BlockPool& pool, Region::Options options, Region::Handler handler) {
    if (options.bytes == 0) options.bytes = 1 * TiB;
    auto region = Region::open(pool, options, std::move(handler));
    EXPECT_TRUE(region) << region.error().message();
    return std::move(*region);
  }
};

INSTANTIATE_TEST_SUITE_P(Mechanisms, RegionOn, every_mechanism, name_of_mechanism);

TEST_P(RegionOn, ABlockWithAPinnedPageIsLostWithItsRegion) {
  const BlockPool pool = open_pool(2);
  std::optional<pool::PinnedPage> pinned;
  {
    const Region region = open(pool, {}, [&](Blocks& blocks, const Fault& fault) {
      return shown(blocks.show(fault.index, pool.take()));
    });
    write(region.begin<uint64_t>(), 1);
    write(region.begin<uint64_t>() + block_items, 1);
    pinned.emplace(region.begin<std::byte>());
    if (!pinned->is_pinned()) GTEST_SKIP() << "no registered buffers here";
  }
  EXPECT_GE(pool.blocks_free(), 1u);
}

// Queue of blocks in the order in which they were shown. Never allocates: the thread sanitizer
// forbids it in handlers. Thread safety: all members.
class Order {
 public:
  void push(uint64_t index) {
    const std::lock_guard lock(mutex_);
    items_[end_++ % items_.size()] = index;
  }
  std::optional<uint64_t> pop() {
    const std::lock_guard lock(mutex_);
    if (begin_ == end_) return std::nullopt;
    return items_[begin_++ % items_.size()];
  }
  uint64_t size() const { return end_ - begin_; }

 private:
  std::mutex mutex_;
  std::array<uint64_t, 64> items_ = {};
  uint64_t begin_ = 0, end_ = 0;
};

// A handler that fills blocks, and hides the oldest if no other is free.
class Cache {
 public:
  explicit Cache(BlockPool pool) : pool_(std::move(pool)) {}
  Status operator()(Blocks& blocks, const Fault& fault) {
    ++calls;
    BlockPool::Block memory;
    while (!(memory = pool_.take())) {
      const auto victim = order_.pop();
      if (!victim) continue;
      memory = blocks.hide(*victim);
      if (memory) break;
      order_.push(*victim);
    }
    fill(memory.bytes(), fault.index);
    if (const int error = blocks.show(fault.index, std::move(memory))) return shown(error);
    order_.push(fault.index);
    return {};
  }
  std::atomic<uint64_t> calls = 0;

 private:
  const BlockPool pool_;
  Order order_;
};

TEST_P(RegionOn, MemoryAppearsWhereItIsTouched) {
  const BlockPool pool = open_pool(5);
  Cache cache(pool);
  const Region region = open(pool, {}, std::ref(cache));
  EXPECT_EQ(region.blocks().count(), 1 * TiB / block);
  for (uint64_t at : {uint64_t{0}, TiB / 8 - 1, uint64_t{1}, 70 * block_items + 9})
    EXPECT_EQ(read(region.begin<uint64_t>() + at), mix64(at));
  EXPECT_EQ(cache.calls, 3u);
  EXPECT_TRUE(region.blocks().is_present(70));
  EXPECT_FALSE(region.blocks().is_present(71));
  EXPECT_EQ(pool.blocks_free(), 2u);
}

TEST_P(RegionOn, ReturnsItsBlocksToThePool) {
  const BlockPool pool = open_pool(5);
  {
    Cache cache(pool);
    const Region region = open(pool, {}, std::ref(cache));
    for (uint64_t i = 0; i < 20; ++i) (void)read(region.begin<uint64_t>() + i * block_items);
    EXPECT_EQ(pool.blocks_free(), 0u);
  }
  EXPECT_EQ(pool.blocks_free(), 5u);
}

// Threads read anywhere while the handlers evict each other's blocks: every value must be right,
// and no block half filled.
TEST_P(RegionOn, ThreadsShareASmallCacheAtRandom) {
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE(seed);
  const BlockPool pool = open_pool(8);
  Cache cache(pool);
  const Region region = open(pool, {}, std::ref(cache));
  std::atomic<uint64_t> wrong = 0;
  std::vector<std::jthread> threads;
  for (uint64_t t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      Random random(seed + t);
      for (int i = 0; i < 3000; ++i) {
        const uint64_t at = random.below(24 * block_items);
        wrong += read(region.begin<uint64_t>() + at) != mix64(at);
      }
    });
  }
  threads.clear();
  EXPECT_EQ(wrong, 0u);
  EXPECT_GT(cache.calls, 24u);
}

// A paged array of counters: blocks go out to a backing store and come back. No thread's store to
// an evicted block may be lost.
TEST_P(RegionOn, NoStoreIsLostWhenABlockIsTakenAway) {
  constexpr uint64_t blocks_all = 6, threads_all = 3;
  const BlockPool pool = open_pool(3 + threads_all);
  std::vector<std::vector<std::byte>> store(blocks_all, std::vector<std::byte>(block));
  std::mutex mutex;  // guards store
  Order order;
  auto handler = [&](Blocks& blocks, const Fault& fault) -> Status {
    const std::lock_guard lock(mutex);
    while (order.size() >= 3) {
      const uint64_t victim = *order.pop();
      if (const BlockPool::Block old = blocks.hide(victim)) {
        std::ranges::copy(old.bytes(), store[victim].begin());
      } else {
        order.push(victim);
        break;
      }
    }
    BlockPool::Block memory = pool.take();
    if (!memory) return failure(ErrorCode::out_of_memory, "find a block", "a test");
    std::ranges::copy(store[fault.index], memory.bytes().begin());
    order.push(fault.index);
    return shown(blocks.show(fault.index, std::move(memory)));
  };
  {
    const Region region = open(pool, {.bytes = blocks_all * block}, handler);
    std::vector<std::jthread> threads;
    for (uint64_t t = 0; t < threads_all; ++t) {
      threads.emplace_back([&, t] {
        Random random(t);
        // Each thread has its own items in every block.
        for (uint64_t i = 1; i <= 4000; ++i) {
          uint64_t* const item =
              region.begin<uint64_t>() + random.below(blocks_all) * block_items + t;
          write(item, read(item) + 1);
        }
      });
    }
    threads.clear();
    uint64_t total = 0;
    for (uint64_t b = 0; b < blocks_all; ++b) {
      for (uint64_t t = 0; t < threads_all; ++t)
        total += read(region.begin<uint64_t>() + b * block_items + t);
    }
    EXPECT_EQ(total, threads_all * 4000);
  }
  EXPECT_EQ(pool.blocks_free(), pool.blocks());
}

TEST_P(RegionOn, ThreadsThatTouchOneBlockCallTheHandlerOnce) {
  const BlockPool pool = open_pool(4);
  std::atomic<int> calls = 0;
  const Region region = open(pool, {}, [&](Blocks& blocks, const Fault& fault) {
    ++calls;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    BlockPool::Block memory = pool.take();
    fill(memory.bytes(), fault.index);
    return shown(blocks.show(fault.index, std::move(memory)));
  });
  std::atomic<int> wrong = 0;
  std::vector<std::jthread> threads;
  for (uint64_t t = 0; t < 4; ++t)
    threads.emplace_back([&, t] { wrong += read(region.begin<uint64_t>() + t) != mix64(t); });
  threads.clear();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(calls, 1);
}

TEST_P(RegionOn, HandlersOfDifferentBlocksRunAtTheSameTime) {
  const BlockPool pool = open_pool(4);
  std::atomic<int> inside = 0;
  const Region region = open(pool, {}, [&](Blocks& blocks, const Fault& fault) {
    ++inside;
    for (int ms = 0; inside < 2 && ms < 60'000; ++ms)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return shown(blocks.show(fault.index, pool.take()));
  });
  {
    std::jthread other([&] { (void)read(region.begin<uint64_t>() + 9 * block_items); });
    (void)read(region.begin<uint64_t>());
  }
  EXPECT_EQ(inside, 2);
}

TEST_P(RegionOn, ProtectionFindsTheFirstWrite) {
  const BlockPool pool = open_pool(6);
  std::atomic<uint64_t> dirty = 0;  // a bit per block; atomic: the handler interrupts this code
  const Region region = open(pool, {}, [&](Blocks& blocks, const Fault& fault) {
    if (fault.is_present) {
      EXPECT_TRUE(fault.is_write);
      dirty |= uint64_t{1} << fault.index;
      return shown(blocks.protect(fault.index, Protection::read_write));
    }
    EXPECT_EQ(blocks.show(fault.index, pool.take()), 0);
    return shown(blocks.protect(fault.index, Protection::read));
  });
  uint64_t* const data = region.begin<uint64_t>();
  for (uint64_t i = 0; i < 6; ++i) (void)read(data + i * block_items);
  EXPECT_EQ(dirty, 0u);
  for (uint64_t i : {1, 4}) write(data + i * block_items, 7 + i);
  EXPECT_EQ(dirty, 1u << 1 | 1u << 4);

  // A protected block can be hidden and shown like any other, with its contents.
  EXPECT_EQ(region.blocks().protect(4, Protection::none), 0);
  BlockPool::Block hidden = region.blocks().hide(4);
  ASSERT_TRUE(hidden);
  EXPECT_EQ(*reinterpret_cast<uint64_t*>(hidden.bytes().data()), 11u);
  EXPECT_EQ(region.blocks().show(40, std::move(hidden)), 0);
  EXPECT_FALSE(hidden);
  EXPECT_EQ(read(data + 40 * block_items), 11u);
  EXPECT_EQ(region.blocks().protect(4, Protection::read), ENOENT);
}

// One thread stores to a read-only block while another hides it. The block must not contain a store
// that the handler did not see.
TEST_P(RegionOn, TheHandlerSeesEveryStoreToAProtectedBlockThatIsTakenAway) {
  const BlockPool pool = open_pool(2);
  std::atomic<bool> told = false;
  Region region = open(pool, {.bytes = block}, [&](Blocks& blocks, const Fault& fault) {
    if (fault.is_present) {
      told = true;
      return shown(blocks.protect(fault.index, Protection::read_write));
    }
    return shown(blocks.show(fault.index, pool.take()));
  });
  Blocks& blocks = region.blocks();
  uint64_t* const items = region.begin<uint64_t>();
  std::atomic<int> round = 0, stored = 0;
  constexpr int rounds = 2000;
  std::jthread storer([&] {
    for (int r = 1; r <= rounds; ++r) {
      while (round != r) std::this_thread::yield();
      // The delay places the store before, within or after the hiding.
      for (volatile uint64_t spins = mix64(static_cast<uint64_t>(r)) % 8192; spins > 0;)
        spins = spins - 1;
      for (size_t i = 0; i < block_items; i += 256) write(&items[i], static_cast<uint64_t>(r));
      stored = r;
    }
  });
  for (int r = 1; r <= rounds; ++r) {
    BlockPool::Block empty = pool.take();
    ASSERT_TRUE(empty);
    std::memset(empty.bytes().data(), 0, block);
    ASSERT_EQ(blocks.show(0, std::move(empty)), 0);
    const Protection protection = r % 3 == 0 ? Protection::none : Protection::read;
    ASSERT_EQ(blocks.protect(0, protection), 0);
    told = false;
    round = r;
    BlockPool::Block hidden = blocks.hide(0);
    while (!hidden) hidden = blocks.hide(0);
    const auto* const bytes = hidden.bytes().data();
    const bool changed =
        std::any_of(bytes, bytes + block, [](std::byte b) { return b != std::byte{0}; });
    EXPECT_TRUE(!changed || told) << "round " << r;
    hidden = {};
    while (stored != r) std::this_thread::yield();
    (void)blocks.hide(0);
  }
}

TEST_P(RegionOn, AProtectedBlockComesHomeWithItsContentsAndMayBeShownAgain) {
  const BlockPool pool = open_pool(1);
  int absent = 0;
  Region region = open(pool, {.bytes = 4 * block}, [&](Blocks& blocks, const Fault& fault) {
    ++absent;
    return shown(blocks.show(fault.index, pool.take()));
  });
  for (uint64_t index = 0; index < 4; ++index) {
    for (const Protection protection : {Protection::none, Protection::read}) {
      BlockPool::Block filled = pool.take();
      ASSERT_TRUE(filled);
      fill(filled.bytes(), index);
      ASSERT_EQ(region.blocks().show(index, std::move(filled)), 0);
      ASSERT_EQ(region.blocks().protect(index, protection), 0);
      BlockPool::Block hidden = region.blocks().hide(index);
      ASSERT_TRUE(hidden);
      EXPECT_EQ(reinterpret_cast<uint64_t*>(hidden.bytes().data())[7],
                mix64(index * block_items + 7));
      hidden.bytes()[0] = std::byte{1};
      hidden = {};
      const int before = absent;
      write(region.begin<uint64_t>() + index * block_items, 2);
      EXPECT_EQ(absent, before + 1);
      ASSERT_TRUE(region.blocks().hide(index));
    }
  }
}

TEST_P(RegionOn, ABlockKeepsItsPool) {
  BlockPool::Block kept;
  {
    const BlockPool pool = open_pool(2);
    kept = pool.take();
    kept = pool.take();  // the first pool's block returns to it
  }
  ASSERT_TRUE(kept);
  std::memset(kept.bytes().data(), 1, block);
}

TEST_P(RegionOn, AHandlerMayTouchOtherBlocks) {
  // f(b) = f(b - 1) + 1, by the pointer itself: each a signal deeper in the stack.
  const BlockPool pool = open_pool(10);
  const uint64_t* self = nullptr;
  const Region region = open(pool, {}, [&](Blocks& blocks, const Fault& fault) {
    BlockPool::Block memory = pool.take();
    *reinterpret_cast<uint64_t*>(memory.bytes().data()) =
        fault.index == 0 ? 1 : read(self + (fault.index - 1) * block_items) + 1;
    return shown(blocks.show(fault.index, std::move(memory)));
  });
  self = region.begin<uint64_t>();
  EXPECT_EQ(read(self + 4 * block_items), 5u);
  EXPECT_EQ(pool.blocks_free(), 5u);
}

TEST_P(RegionOn, SharesItsPoolWithAnArray) {
  const BlockPool pool = open_pool(10);
  Cache cache(pool);
  const Region region = open(pool, {}, std::ref(cache));
  auto array = VanishingArray::open(pool, {.bytes = 1 * GiB});
  ASSERT_TRUE(array);
  for (uint64_t i = 0; i < 6 * block_items; ++i) array->begin<uint64_t>()[i] = i;
  for (uint64_t i = 0; i < 6 * block_items; ++i)
    ASSERT_EQ(read(region.begin<uint64_t>() + 3 * read(array->begin<uint64_t>() + i)),
              mix64(3 * i));
}

TEST_P(RegionOn, ABlockIsNotShownTwice) {
  const BlockPool pool = open_pool(3);
  Cache cache(pool);
  const Region region = open(pool, {}, std::ref(cache));
  (void)read(region.begin<uint64_t>());
  BlockPool::Block second = pool.take();
  EXPECT_EQ(region.blocks().show(0, std::move(second)), EEXIST);
  EXPECT_TRUE(second);
  EXPECT_FALSE(region.blocks().hide(1));
  EXPECT_FALSE(region.blocks().hide(region.bytes() / block));
  EXPECT_FALSE(region.blocks().hide(uint64_t{1} << 60));
}

TEST_P(RegionOn, StopsWithTheHandlersError) {
  EXPECT_DEATH(
      {
        const Region region = open(open_pool(1), {.name = "table"}, [](Blocks&, const Fault&) {
          return Status(failure(ErrorCode::io, "divide by zero", "f"));
        });
        (void)read(region.begin<uint64_t>() + 5 * block_items);
      },
      "table.*provide block 5: cannot divide by zero: f");
}

TEST_P(RegionOn, StopsAHandlerThatShowsNothing) {
  EXPECT_DEATH(
      {
        const Region region =
            open(open_pool(1), {.name = "table"}, [](Blocks&, const Fault&) { return Status(); });
        (void)read(region.begin<uint64_t>());
      },
      "table.*its handler said ok, and the access is not possible");
}

TEST_P(RegionOn, StopsAHandlerThatTouchesItsBlock) {
  EXPECT_DEATH(
      {
        const Region region =
            open(open_pool(1), {.name = "table"}, [](Blocks& blocks, const Fault& fault) {
              (void)read(reinterpret_cast<uint64_t*>(blocks.address_of(fault.index)));
              return Status();
            });
        (void)read(region.begin<uint64_t>());
      },
      "table.*touched the block that it is called for");
}

TEST_P(RegionOn, RecoversFromTheHandlersErrorAndServesTheNextAccess) {
  const BlockPool pool = open_pool(4);
  Cache cache(pool);
  std::atomic<bool> broken = true;
  const Region region = open(pool, {.policy = ErrorPolicy::recover},
                             [&](Blocks& blocks, const Fault& fault) -> Status {
                               if (broken) return failure(ErrorCode::io, "find it", "a store");
                               return cache(blocks, fault);
                             });
  auto result = RecoveryPoint::run([&] { (void)read(region.begin<uint64_t>() + 3); });
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::io);
  broken = false;
  EXPECT_EQ(read(region.begin<uint64_t>() + 3), mix64(3));
}

TEST_P(RegionOn, PreparedPiecesServeSystemCalls) {
  const BlockPool pool = open_pool(4);
  Cache cache(pool);
  const Region region = open(pool, {}, std::ref(cache));
  const int sink = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  std::byte* const piece = region.begin() + 10 * block + 5;
  EXPECT_TRUE(region.prepare_read(piece, 3 * block));
  EXPECT_EQ(::write(sink, piece, 3 * block), ssize_t{3 * block});
  EXPECT_TRUE(region.prepare_write(piece, 3 * block));
  close(sink);
  EXPECT_EQ(region.prepare_read(region.begin() + region.bytes() - 1, 2).error().code,
            ErrorCode::invalid_argument);
  fault::Handler* const handler = fault::find(region.begin());
  ASSERT_NE(handler, nullptr);
  EXPECT_EQ(handler->prepare(region.begin() + 10, 3 * block, fault::Access::read), block - 10);
}

TEST(Region, RefusesInvalidOptions) {
  auto pool = BlockPool::open({.block_bytes = block, .blocks = 1});
  ASSERT_TRUE(pool);
  auto handler = [](Blocks&, const Fault&) { return Status(); };
  for (Region::Options options : {Region::Options{}, Region::Options{.bytes = 129 * TiB},
                                  Region::Options{.bytes = 1, .policy = ErrorPolicy::zeros}})
    EXPECT_EQ(Region::open(*pool, options, handler).error().code, ErrorCode::invalid_argument);
  EXPECT_FALSE(Region::open(*pool, {.bytes = 1}, {}));
}

// A move needs mappings; without them a thread copies the block, and must not fault there.
TEST(RegionOfMovedBlocks, HidesABlockWhenNoMappingIsLeft) {
  if (os::shadowed) GTEST_SKIP() << "a sanitizer needs mappings of its own";
  auto pool = BlockPool::open({.block_bytes = block, .blocks = 2, .mechanism = Mechanism::mremap});
  ASSERT_TRUE(pool) << pool.error().message();
  auto region = Region::open(*pool, {.bytes = 8 * block}, [&](Blocks& blocks, const Fault& fault) {
    auto taken = pool->take();
    fill(taken.bytes(), fault.index);
    return shown(blocks.show(fault.index, std::move(taken)));
  });
  ASSERT_TRUE(region) << region.error().message();
  EXPECT_EQ(read(region->begin<uint64_t>() + 3 * block_items), mix64(3 * block_items));
  write(region->begin<uint64_t>() + 3 * block_items + 1, 77);
  BlockPool::Block hidden;
  {
    const MappingsUsedUp used_up;
    if (!used_up.is_so()) GTEST_SKIP() << "vm.max_map_count is too large to be reached";
    alarm(60);
    hidden = region->blocks().hide(3);
    alarm(0);
  }
  ASSERT_TRUE(hidden);
  const auto* const items = reinterpret_cast<const uint64_t*>(hidden.bytes().data());
  EXPECT_EQ(items[0], mix64(3 * block_items));
  EXPECT_EQ(items[1], 77u);
  EXPECT_EQ(items[block_items - 1], mix64(4 * block_items - 1));
  EXPECT_FALSE(region->blocks().is_present(3));
  ASSERT_EQ(region->blocks().show(3, std::move(hidden)), 0);
  EXPECT_EQ(read(region->begin<uint64_t>() + 3 * block_items + 1), 77u);
  write(region->begin<uint64_t>() + 3 * block_items + 1, 78);
}

}  // namespace
}  // namespace penstock
