// Test labels: one-thread

#include "files/sort/split/number_window.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "base/random.h"
#include "base/thread.h"
#include "base/trials.h"
#include "os/memory.h"
#include "sorting/sort/item.h"

namespace penstock::external {
namespace {

template <class T>
T draw(Random& random, uint64_t keys) {
  const uint64_t key = random.below(keys) * (~uint64_t{0} / keys);
  if constexpr (sizeof(T) == 4) return static_cast<uint32_t>(key >> 32);
  if constexpr (sizeof(T) == 8) return key;
  if constexpr (sizeof(T) == 16) return {key, random.next()};
}

// Windows of any length are given room in blocks of any whole number of lines, as a distributor
// does; the result is compared with a plain distribution.
template <class T>
class NumberWindowTest : public testing::Test {
 protected:
  void distribute(uint64_t seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random(seed);
    const uint64_t keys = 1 + (random.next() >> random.below(64)) % 100'000;
    std::vector<T> items(random.below(30'000));
    for (T& item : items) item = draw<T>(random, keys);
    const auto wanted = static_cast<uint32_t>(1 + random.below(seed % 4 == 0 ? 600 : 30));
    const uint64_t last = scatter::key_of(T(draw<T>(random, 1))) | (sizeof(T) == 4 ? ~0u : ~0ull);
    scatter::BucketMap map = scatter::BucketMap::by_range({0, last}, wanted);
    if (seed % 2 == 0) {
      std::vector<uint64_t> bounds;
      for (uint32_t i = 1; i < wanted; ++i)
        bounds.push_back(scatter::key_of(draw<T>(random, keys)));
      std::ranges::sort(bounds);
      bounds.erase(std::ranges::unique(bounds).begin(), bounds.end());
      map = scatter::BucketMap::by_splitters(bounds);
    }
    std::vector<std::vector<T>> expected(map.buckets);
    for (const T& item : items) expected[map(scatter::key_of(item))].push_back(item);
    std::vector<bool> only_counted(map.buckets);
    for (uint32_t bucket = 0; bucket < map.buckets; ++bucket)
      only_counted[bucket] = random.below(8) == 0;

    Buckets buckets(map.buckets, 256 * (1 + random.below(8)));
    NumberWindow<T> window(map, NumberEncoder<T>(items::Type::u64, false, true));
    ItemSum sum;
    std::vector<uint64_t> counts(map.buckets);
    for (size_t at = 0; at < items.size();) {
      const size_t here = std::min<size_t>(items.size() - at, 1 + random.below(5'000));
      window.begin = reinterpret_cast<const std::byte*>(&items[at]);
      window.ends = {here * sizeof(T)};
      window.count();
      for (uint32_t bucket = 0; bucket < map.buckets; ++bucket) {
        counts[bucket] += window.items(bucket);
        if (!only_counted[bucket]) buckets.add_room(window, bucket);
      }
      window.fill();
      sum += window.sum;
      at += here;
    }
    ASSERT_EQ(sum, sum_of(std::span<const T>(items)));
    for (uint32_t bucket = 0; bucket < map.buckets; ++bucket) {
      ASSERT_EQ(counts[bucket], expected[bucket].size());
      if (only_counted[bucket]) continue;
      ASSERT_TRUE(buckets.holds(bucket, expected[bucket])) << "bucket " << bucket;
    }
  }

 private:
  // Blocks with gaps between them that nothing may be written to.
  struct Buckets {
    Buckets(uint32_t buckets, size_t block) : block_bytes(block), blocks(buckets), room(buckets) {}

    void add_room(NumberWindow<T>& window, uint32_t bucket) {
      for (size_t left = window.items(bucket) * sizeof(T); left > 0;) {
        if (room[bucket] == 0) {
          blocks[bucket].push_back(static_cast<std::byte*>(
              ::operator new(block_bytes + 2 * guard, std::align_val_t{guard})));
          std::memset(blocks[bucket].back(), unwritten, block_bytes + 2 * guard);
          room[bucket] = block_bytes;
        }
        const size_t here = std::min(left, room[bucket]);
        std::byte* const at = blocks[bucket].back() + guard + block_bytes - room[bucket];
        window.add_room(bucket, at, at + here);
        room[bucket] -= here;
        left -= here;
      }
    }
    bool holds(uint32_t bucket, const std::vector<T>& items) const {
      std::vector<std::byte> all;
      for (const std::byte* block : blocks[bucket]) {
        const bool last = block == blocks[bucket].back();
        const size_t bytes = block_bytes - (last ? room[bucket] : 0);
        all.insert(all.end(), block + guard, block + guard + bytes);
        const auto untouched = [](std::byte byte) { return byte == std::byte{unwritten}; };
        if (!std::all_of(block, block + guard, untouched) ||
            !std::all_of(block + guard + bytes, block + block_bytes + 2 * guard, untouched))
          return false;
      }
      return all.size() == items.size() * sizeof(T) &&
             (all.empty() || std::memcmp(all.data(), items.data(), all.size()) == 0);
    }
    ~Buckets() {
      for (const auto& list : blocks) {
        for (std::byte* block : list) ::operator delete(block, std::align_val_t{guard});
      }
    }

    static constexpr size_t guard = 256;
    static constexpr unsigned char unwritten = 0xa5;
    const size_t block_bytes;
    std::vector<std::vector<std::byte*>> blocks;
    std::vector<size_t> room;  // free bytes of the last block
  };
};

using Numbers = testing::Types<uint32_t, uint64_t, sorting::KeyValue>;
TYPED_TEST_SUITE(NumberWindowTest, Numbers);

TYPED_TEST(NumberWindowTest, ItemsGoWhereAPlainDistributionPutsThem) {
  const uint64_t first = seed_of_run();
  for (uint64_t i = 0; i < trials(400); ++i) {
    this->distribute(first + i);
    if (testing::Test::HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace penstock::external
