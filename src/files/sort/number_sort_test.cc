// Test labels: loops

// The sort of numbers with samples that mislead it, so that buckets have any size: in memory, on
// disk, too large and split again. test/external_sort_test.cc tests whole runs.

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/random.h"
#include "base/trials.h"
#include "files/sort/bucket/bucket_sort.h"
#include "files/sort/sort_fixture.h"
#include "io/engine.h"
#include "sorting/sort/item.h"

namespace penstock::external {
namespace {

constexpr uint64_t memory_bytes = 14 * MiB;
constexpr uint64_t input_bytes = 20 * MiB;

// Parameters: whether temporaries are packed, and the number of distributing threads.
class NumberSortTest : public SortFixture,
                       public testing::WithParamInterface<std::tuple<bool, unsigned>> {
 protected:
  // Sorts `items` by a sample of encoded keys, and compares the output with that of a plain sort.
  template <class T>
  BucketSortStats sort_and_compare(SortOptions options, std::vector<T> items,
                                   std::vector<uint64_t> sample) {
    write(path("in"), {reinterpret_cast<const char*>(items.data()), items.size() * sizeof(T)});
    options.format.record_bytes = sizeof(T);
    options.format.key_bytes = std::min<uint32_t>(sizeof(T), 8);
    auto in = io::File::open_read(path("in"));
    auto out = io::File::create_output(path("out"));
    EXPECT_TRUE(in && out);
    const auto [packs, threads] = GetParam();
    options.threads = threads;
    Context context(options);
    BucketSort sort(context, memory_bytes, {path("temporaries")}, packs);
    uint64_t bytes = items.size() * sizeof(T);
    const bool side_by_side = threads > 1 && !(options.unique && sizeof(T) == 16);
    EXPECT_EQ(plan_buckets(options, memory_bytes, {.bytes = bytes}).split_threads,
              side_by_side ? threads : 1);
    const std::vector<files::Piece> pieces = {{.file = &*in, .bytes = bytes}};
    auto stored = sort.run({.pieces = pieces,
                            .bytes = bytes,
                            .sample = {.numbers = std::move(sample), .item_bytes = sizeof(T)}},
                           {&*out, 0});
    EXPECT_TRUE(stored) << stored.error().message();
    if (!stored) return {};
    EXPECT_TRUE(out->publish());

    std::vector<std::pair<uint64_t, size_t>> order(items.size());
    for (size_t i = 0; i < items.size(); ++i) order[i] = {key_of(options.format.type, items[i]), i};
    if (options.descending) {
      for (auto& [key, place] : order) key = (sizeof(T) == 4 ? 0xffffffff : ~uint64_t{0}) - key;
    }
    std::sort(order.begin(), order.end());
    if (options.unique) {
      auto repeats = [](const auto& a, const auto& b) { return a.first == b.first; };
      order.erase(std::unique(order.begin(), order.end(), repeats), order.end());
    }
    EXPECT_EQ(stored->items, order.size());
    std::vector<T> expected;
    for (auto [key, place] : order) expected.push_back(items[place]);
    EXPECT_TRUE(read(path("out")) ==
                std::string_view(reinterpret_cast<const char*>(expected.data()),
                                 expected.size() * sizeof(T)));
    return sort.stats();
  }

  template <class T>
  static uint64_t key_of(items::Type type, const T& item) {
    if constexpr (sizeof(T) == 4) {
      return items::encode_key32(type, std::bit_cast<uint32_t>(item));
    } else if constexpr (sizeof(T) == 8) {
      return items::encode_key64(type, std::bit_cast<uint64_t>(item));
    } else {
      return item.key;
    }
  }
};

SortOptions options_of(items::Type type) {
  SortOptions options;
  options.format.type = type;
  return options;
}

std::vector<uint64_t> evenly(size_t count, uint64_t from, uint64_t to) {
  std::vector<uint64_t> sample(count);
  for (size_t i = 0; i < count; ++i) sample[i] = from + (to - from) / count * i;
  return sample;
}

TEST_P(NumberSortTest, ABucketThatHoldsEverythingIsSplitAgain) {
  for (bool unique : {false, true}) {
    Random random(1);
    std::vector<uint64_t> items(input_bytes / 8);
    for (uint64_t& item : items) item = random.below(1 << 21);
    SortOptions options = options_of(items::Type::u64);
    options.unique = unique;
    auto stats = sort_and_compare(options, items, evenly(4096, 1ull << 60, ~0ull));
    EXPECT_EQ(stats.levels, 2u);
    EXPECT_EQ(stats.kept_bytes, 0u);
  }
}

// The bucket lies in the middle of others, in a type whose keys are encoded, in either direction.
TEST_P(NumberSortTest, ALargeBucketBetweenOthersIsSplitAgain) {
  for (bool descending : {false, true}) {
    Random random(2);
    std::vector<int32_t> items(input_bytes / 4);
    for (int32_t& item : items) {
      item = static_cast<int32_t>(random.next());
      if (random.below(8) != 0) item = -5'000'000 + static_cast<int32_t>(random.below(1'000'000));
    }
    SortOptions options = options_of(items::Type::i32);
    options.descending = descending;
    auto stats = sort_and_compare(options, items, evenly(4096, 0, 0xffffffff));
    EXPECT_EQ(stats.levels, 2u);
  }
}

TEST_P(NumberSortTest, PairsKeepTheirOrderThroughAllLevels) {
  for (bool unique : {false, true}) {
    Random random(3);
    std::vector<sorting::KeyValue> items(input_bytes / 16);
    for (size_t i = 0; i < items.size(); ++i) {
      uint64_t key = random.below(4) == 0 ? random.next() : random.below(50'000) << 20;
      if (random.below(4) == 0) key = 77ull << 40;  // a bucket of its own
      items[i] = {key, i};
    }
    SortOptions options = options_of(items::Type::kv64);
    options.unique = unique;
    std::vector<uint64_t> sample = evenly(4096, 0, ~0ull);
    sample.insert(sample.end(), 1000, 77ull << 40);
    auto stats = sort_and_compare(options, items, sample);
    EXPECT_GE(stats.levels, 1u);
  }
}

// Such numbers are counted, and made again: with any key, at any place, in any direction.
TEST_P(NumberSortTest, NumbersOfOneKeyTakeNoSpace) {
  for (bool descending : {false, true}) {
    for (uint64_t key : {uint64_t{123'456'789}, ~uint64_t{0}}) {
      Random random(4);
      std::vector<uint64_t> items(input_bytes / 8);
      for (uint64_t& item : items) item = random.below(8) == 0 ? random.next() : key;
      SortOptions options = options_of(items::Type::u64);
      options.descending = descending;
      std::vector<uint64_t> sample = evenly(1000, 0, ~0ull);
      sample.insert(sample.end(), 8000, descending ? ~key : key);
      auto stats = sort_and_compare(options, items, sample);
      EXPECT_LT(stats.spilled_bytes, input_bytes / 4);
    }
  }
}

// An input a little larger than memory spills a little.
TEST_P(NumberSortTest, SpillsOnlyItemsThatMemoryCannotHold) {
  uint64_t before = input_bytes;
  for (uint64_t bytes : {8 * MiB, 12 * MiB, 16 * MiB, 20 * MiB}) {
    Random random(bytes);
    std::vector<uint64_t> items(bytes / 8);
    for (uint64_t& item : items) item = random.next();
    auto stats = sort_and_compare(options_of(items::Type::u64), items, evenly(4096, 0, ~0ull));
    EXPECT_EQ(stats.kept_bytes + stats.spilled_bytes, bytes);
    if (bytes == 8 * MiB) {
      EXPECT_EQ(stats.spilled_bytes, 0u);
    } else {
      EXPECT_GT(stats.spilled_bytes, 0u);
      EXPECT_GT(stats.kept_bytes, 2 * MiB);
    }
    before = stats.spilled_bytes;
  }
  EXPECT_LT(before, input_bytes);
}

TEST_P(NumberSortTest, AnEmptySampleIsNoObstacle) {
  Random random(6);
  std::vector<double> items(input_bytes / 8);
  for (double& item : items) {
    uint64_t bits = random.next();
    std::memcpy(&item, &bits, 8);  // NaNs among them
  }
  sort_and_compare(options_of(items::Type::f64), items, {});
}

INSTANTIATE_TEST_SUITE_P(, NumberSortTest,
                         testing::Values(std::tuple(false, 1u), std::tuple(true, 1u),
                                         std::tuple(false, 4u), std::tuple(true, 4u)),
                         [](const auto& given) {
                           return std::string(std::get<0>(given.param) ? "Packed" : "Plain") +
                                  std::to_string(std::get<1>(given.param));
                         });

// One thread writes blocks that others may still be filling.
TEST_F(SortFixture, AnErrorOfSeveralThreadsEndsCleanly) {
  Random random(seed_of_run());
  std::vector<uint64_t> items(24 * MiB / 8);
  for (uint64_t& item : items) item = random.next();
  write(path("in"), {reinterpret_cast<const char*>(items.data()), items.size() * 8});
  expect_clean_ends([&] {
    SortOptions chosen = options({items::Type::u64, 8, 0, 8});
    chosen.memory_bytes = budget_bytes();
    chosen.threads = 4;
    return sort_files(chosen);
  });
}

class PackingTest : public SortFixture {
 protected:
  template <class T>
  SortOptions sort_of(const std::vector<T>& items, items::Type type, double bytes_per_s) {
    write(path("in"), {reinterpret_cast<const char*>(items.data()), items.size() * sizeof(T)});
    SortOptions chosen = options({type, sizeof(T), 0, std::min<uint32_t>(sizeof(T), 8)});
    chosen.memory_bytes = budget_bytes();
    chosen.device = std::make_shared<const bowtie::DeviceProfile>(bowtie::DeviceProfile{
        .name = "made up", .read_bytes_per_s = bytes_per_s, .write_bytes_per_s = bytes_per_s});
    return chosen;
  }
  // Share of the spilled bytes that the temporaries take, which the plan has to predict.
  double share_of(const SortOptions& chosen) {
    auto stats = sort_files(chosen);
    EXPECT_TRUE(stats) << stats.error().message();
    if (!stats) return 0;
    EXPECT_GT(stats->spilled_bytes, 8 * MiB);
    const double share =
        static_cast<double>(stats->temp_bytes) / static_cast<double>(stats->spilled_bytes);
    const SortPlan& plan = stats->predicted;
    EXPECT_NEAR(static_cast<double>(plan.temp_bytes) / static_cast<double>(plan.spilled_bytes),
                share, 0.1);
    EXPECT_FALSE(plan.alternatives.empty());
    return share;
  }
};

TEST_F(PackingTest, BitsThatKeysAndValuesShareAreNotWritten) {
  Random random(seed_of_run());
  std::vector<uint64_t> times(48 * MiB / 8);
  for (uint64_t& time : times) time = 1'700'000'000'000'000 + random.below(365ull * 86'400'000'000);
  EXPECT_LT(share_of(sort_of(times, items::Type::u64, 100e6)), 0.75);
  std::vector<sorting::KeyValue> rows(48 * MiB / 16);
  for (size_t i = 0; i < rows.size(); ++i) rows[i] = {random.next(), i};
  EXPECT_LT(share_of(sort_of(rows, items::Type::kv64, 100e6)), 0.75);
  std::vector<double> wholes(48 * MiB / 8);
  for (double& whole : wholes) whole = static_cast<double>(random.below(100'000));
  EXPECT_LT(share_of(sort_of(wholes, items::Type::f64, 100e6)), 0.6);
}

TEST_F(PackingTest, AFastDiskHasUnpackedNumbers) {
  Random random(seed_of_run());
  std::vector<uint64_t> items(48 * MiB / 8);
  for (uint64_t& item : items) item = random.next();
  EXPECT_EQ(share_of(sort_of(items, items::Type::u64, 100e9)), 1.0);
  SortOptions never = sort_of(items, items::Type::u64, 100e6);
  never.compression = Compression::never;
  EXPECT_EQ(share_of(never), 1.0);
}

}  // namespace
}  // namespace penstock::external
