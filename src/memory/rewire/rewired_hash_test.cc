// Test labels: templates

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>
#include <unordered_map>
#include <vector>

#include "penstock/base.h"
#include "penstock/containers.h"

namespace penstock {
namespace {

PagePool pool_of(uint32_t pages, size_t page_bytes = 4 * KiB, uint64_t mappings_max = 0) {
  auto pool = PagePool::open({.page_bytes = page_bytes,
                              .bytes_max = pages * uint64_t{page_bytes},
                              .mappings_max = mappings_max});
  EXPECT_TRUE(pool);
  return *pool;
}

template <class K, class V, class Hash = MixedHash<K>>
RewiredHash<K, V, Hash> table_on(const PagePool& pool, const RewiredHashOptions& options = {}) {
  auto table = RewiredHash<K, V, Hash>::open(pool, options);
  EXPECT_TRUE(table) << table.error().message();
  return std::move(*table);
}

template <class V>
V value_of(uint64_t number) {
  V value;
  std::memset(static_cast<void*>(&value), 0, sizeof value);
  std::memcpy(static_cast<void*>(&value), &number, std::min(sizeof value, sizeof number));
  return value;
}
struct Wide {
  uint64_t words[5];
  bool operator==(const Wide&) const = default;
};

// Uses keys of a small range, so that many are found, erased and inserted again.
template <class K, class V>
void compare_with_unordered_map(uint64_t seed, size_t page_bytes, uint64_t keys) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  const PagePool pool = pool_of(512, page_bytes);
  {
    auto table = table_on<K, V>(pool, {.buckets = uint64_t{1} << random() % 4});
    std::unordered_map<K, V> model;
    for (int step = 0; step < 20'000; ++step) {
      const auto key = static_cast<K>(random() % keys);
      const V value = value_of<V>(random());
      // Phases of growing and of shrinking.
      const bool grows = step / 4000 % 2 == 0;
      switch (random() % 8) {
        case 0:
        case 1:
        case 2:
        case 3:
          if (grows || random() % 4 == 0) {
            const auto inserted = table.insert(key, value);
            ASSERT_TRUE(inserted) << inserted.error().message();
            const auto [place, is_new] = model.emplace(key, value);
            ASSERT_EQ(inserted->is_new, is_new);
            ASSERT_TRUE(*inserted->value == place->second);
          } else {
            ASSERT_EQ(table.erase(key), model.erase(key) == 1);
          }
          break;
        case 4:
          ASSERT_EQ(table.erase(key), model.erase(key) == 1);
          break;
        case 5:
          if (V* const found = table.find(key)) *found = model[key] = value;
          break;
        default: {
          const auto place = model.find(key);
          const V* const found = std::as_const(table).find(key);
          ASSERT_EQ(found != nullptr, place != model.end());
          if (found != nullptr) {
            ASSERT_TRUE(*found == place->second);
          }
        }
      }
      ASSERT_EQ(table.size(), model.size());
    }
    uint64_t visited = 0;
    table.for_each([&](const K& key, V& value) {
      ++visited;
      ASSERT_TRUE(model.count(key) == 1 && model[key] == value);
    });
    ASSERT_EQ(visited, model.size());
    ASSERT_EQ(pool.pages_taken(), table.buckets());
    ASSERT_EQ(pool.mappings(), table.mappings());
    table.clear();
    ASSERT_TRUE(table.empty());
    ASSERT_EQ(table.find(model.begin()->first), nullptr);
    const auto inserted = table.insert(static_cast<K>(1), value_of<V>(2));
    ASSERT_TRUE(inserted && inserted->is_new);
  }
  EXPECT_EQ(pool.pages_taken(), 0u);
  EXPECT_EQ(pool.mappings(), 0u);
}

TEST(RewiredHash, DoesWhatAnUnorderedMapDoes) {
  const uint64_t seed = std::random_device()();
  for (uint64_t round = 0; round < 4; ++round) {
    compare_with_unordered_map<uint64_t, uint64_t>(seed + round, 4 * KiB, 500);
    compare_with_unordered_map<uint64_t, uint64_t>(seed + round, 4 * KiB, 20'000);
    compare_with_unordered_map<uint32_t, uint8_t>(seed + round, 4 * KiB, 20'000);
    compare_with_unordered_map<uint16_t, Wide>(seed + round, 16 * KiB, 20'000);
    compare_with_unordered_map<int64_t, int32_t>(seed + round, 64 * KiB, 100'000);
  }
}

TEST(RewiredHash, HoldsAMillionKeys) {
  constexpr uint64_t keys = 1'000'000;
  const PagePool pool = pool_of(64 * MiB / (64 * KiB), 64 * KiB);
  auto table = table_on<uint64_t, uint64_t>(pool);
  for (uint64_t key = 0; key < keys; ++key) ASSERT_TRUE(table.insert(key, key * key)->is_new);
  EXPECT_EQ(table.size(), keys);
  for (uint64_t key = 0; key < 2 * keys; ++key) {
    const uint64_t* const found = table.find(key);
    ASSERT_EQ(found != nullptr, key < keys);
    if (found != nullptr) {
      ASSERT_EQ(*found, key * key);
    }
  }
  EXPECT_GE(table.slots(), table.buckets());
  EXPECT_LT(table.memory_bytes(), 3 * keys * 17);
}

// Evenly spread hashes bring the pages into one run again.
TEST(RewiredHash, TakesFewMappingsBetweenTwoDoublings) {
  const PagePool pool = pool_of(1024);
  auto table = table_on<uint64_t, uint64_t>(pool);
  uint64_t key = 0, most = 0;
  while (table.buckets() < 256 || table.slots() > table.buckets()) {
    ASSERT_TRUE(table.insert(key, key));
    ++key;
    most = std::max(most, table.mappings());
    ASSERT_LE(table.buckets(), 512u);
  }
  EXPECT_EQ(table.mappings(), 2u);  // its pages, and the remaining addresses
  EXPECT_GT(most, 20u);
  EXPECT_LT(most, 256u);
}

// A hash by which only the lowest bits differ between buckets: one is split repeatedly.
struct OneSided {
  uint64_t operator()(uint64_t key) const {
    return MixedHash<uint64_t>()(key) << 8 | (key % 2 == 0 ? 0 : 0xff);
  }
};
struct Constant {
  uint64_t operator()(uint64_t) const { return 42; }
};

TEST(RewiredHash, WorksWithHashesThatSpreadBadly) {
  const PagePool pool = pool_of(256);
  auto table = table_on<uint64_t, uint64_t, OneSided>(pool, {.slots_max = 8192});
  for (uint64_t key = 0; key < 5000; ++key) ASSERT_TRUE(table.insert(key, key));
  for (uint64_t key = 0; key < 5000; ++key) ASSERT_EQ(*table.find(key), key);
  EXPECT_GT(table.slots(), table.buckets());
}

TEST(RewiredHash, RefusesKeysThatCannotBeSpread) {
  const PagePool pool = pool_of(256);
  auto table = table_on<uint64_t, uint64_t, Constant>(pool, {.slots_max = 64});
  uint64_t key = 0;
  Status status;
  for (; status && key < 1000; ++key) {
    auto inserted = table.insert(key, key);
    if (!inserted) status = std::unexpected(inserted.error());
  }
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(table.size(), key - 1);
  for (uint64_t k = 0; k + 1 < key; ++k) ASSERT_EQ(*table.find(k), k);
  EXPECT_TRUE(table.erase(0));
  EXPECT_EQ(table.find(0), nullptr);
}

// Nothing is lost if pages, or mappings, do not suffice.
TEST(RewiredHash, KeepsWhatItHasWhenAnInsertionFails) {
  for (const bool pages : {true, false}) {
    const PagePool pool = pages ? pool_of(20) : pool_of(1000, 4 * KiB, 24);
    auto table = table_on<uint64_t, uint64_t>(pool);
    uint64_t key = 0;
    ErrorCode code = ErrorCode::io;
    for (; key < 100'000; ++key) {
      const auto inserted = table.insert(key, ~key);
      if (inserted) continue;
      code = inserted.error().code;
      break;
    }
    EXPECT_EQ(code, pages ? ErrorCode::out_of_memory : ErrorCode::out_of_mappings);
    EXPECT_EQ(table.size(), key);
    EXPECT_GT(key, 1000u);
    for (uint64_t k = 0; k < key; ++k) ASSERT_EQ(*table.find(k), ~k);
    EXPECT_EQ(pool.pages_taken(), table.buckets());
    for (uint64_t k = 0; k < key; ++k) ASSERT_TRUE(table.erase(k));
    EXPECT_TRUE(table.insert(key, 1)) << "there is room now";
  }
}

// Places of erased entries are reused, also if no page is left for a split.
TEST(RewiredHash, TakesNewKeysForErasedOnesWhenThePoolIsEmpty) {
  const PagePool pool = pool_of(1);
  auto table = table_on<uint64_t, uint64_t>(pool);
  uint64_t keys = 0;
  while (table.insert(keys, keys)) ++keys;
  for (uint64_t round = 0; round < 10; ++round) {
    const uint64_t first = round * keys;
    for (uint64_t key = first; key < first + keys; key += 3) ASSERT_TRUE(table.erase(key));
    for (uint64_t key = first; key < first + keys; key += 3)
      ASSERT_TRUE(table.insert(keys + key, key)) << "round " << round;
    ASSERT_EQ(table.size(), keys);
    for (uint64_t key = first; key < first + keys; ++key) {
      if (key % 3 == first % 3) continue;
      ASSERT_TRUE(table.erase(key));
      ASSERT_TRUE(table.insert(keys + key, key));
    }
    for (uint64_t key = first; key < first + keys; ++key) ASSERT_EQ(*table.find(keys + key), key);
  }
}

// The value, or the key, may lie in the bucket that is being split.
TEST(RewiredHash, InsertsCopiesOfItsOwnEntries) {
  const PagePool pool = pool_of(64);
  auto table = table_on<uint64_t, uint64_t>(pool);
  ASSERT_TRUE(table.insert(0, 12345));
  for (uint64_t key = 1; key < 5000; ++key) {
    const auto inserted = table.insert(key, *table.find(key - 1));
    ASSERT_TRUE(inserted);
    ASSERT_EQ(*inserted->value, 12345u) << "key " << key;
  }
}

TEST(RewiredHash, RefusesInvalidOptions) {
  const PagePool pool = pool_of(16);
  const auto refused = [&](const RewiredHashOptions& options) {
    const auto table = RewiredHash<uint64_t, uint64_t>::open(pool, options);
    return !table && table.error().code == ErrorCode::invalid_argument;
  };
  EXPECT_TRUE(refused({.buckets = 3}));
  EXPECT_TRUE(refused({.buckets = 0}));
  EXPECT_TRUE(refused({.buckets = 8, .slots_max = 4}));
  EXPECT_TRUE(refused({.slots_max = uint64_t{1} << 26}));
  struct Huge {
    char bytes[1000];
  };
  EXPECT_FALSE((RewiredHash<uint64_t, Huge>::open(pool)));
  const auto large = RewiredHash<uint64_t, uint64_t>::open(pool, {.buckets = 32});
  EXPECT_FALSE(large);
  EXPECT_EQ(large.error().code, ErrorCode::out_of_memory);
  EXPECT_EQ(pool.pages_taken(), 0u);
}

TEST(RewiredHash, IsMovedWithAllItHas) {
  const PagePool pool = pool_of(64);
  auto table = table_on<uint64_t, uint64_t>(pool);
  for (uint64_t key = 0; key < 1000; ++key) ASSERT_TRUE(table.insert(key, key));
  auto moved = std::move(table);
  for (uint64_t key = 1000; key < 2000; ++key) ASSERT_TRUE(moved.insert(key, key));
  for (uint64_t key = 0; key < 2000; ++key) ASSERT_EQ(*moved.find(key), key);
}

}  // namespace
}  // namespace penstock
