// Test labels: first

#include "os/limits.h"
#include "sorting/partition/partition_suite.h"

namespace penstock {
namespace {

INSTANTIATE_TEST_SUITE_P(Pieces, PartitionTest,
                         testing::Values(MethodCase{.name = "shared"},
                                         MethodCase{.name = "stable", .stable = Stable::always}),
                         name_of_method);

TEST(Partition, TheTableOfBlocksIsRefusedWithoutACrash) {
  if (os::shadowed) GTEST_SKIP() << "no room for so many addresses";
  const os::Limits limits = os::limits();
  if (limits.overcommit_memory == 1 || limits.memory_bytes > 512 * GiB)
    GTEST_SKIP() << "the system would promise the memory";
  // Its table takes as many bytes as the items, which are never touched.
  auto space = os::Reservation::reserve(1024 * GiB);
  if (!space) GTEST_SKIP() << space.error().message();
  const std::span<const uint64_t> items(reinterpret_cast<const uint64_t*>(space->begin()),
                                        space->bytes() / sizeof(uint64_t));
  const auto parts = partition(items, {.by = ByHash{14}, .block_bytes = 64 * KiB});
  ASSERT_FALSE(parts);
  EXPECT_EQ(parts.error().code, ErrorCode::out_of_memory) << parts.error().message();
}

TEST(Partition, ManyBucketsOfASmallInputTakeLittleMemory) {
  expect_little_memory(
      [](auto items, const PartitionOptions& how) { return partition(items, how); });
}

// Buckets that grow alike are written at different places of their blocks.
TEST(Partition, BucketsBeginAtSixteenPlaces) {
  const auto items = make_items<uint64_t>(1 << 20, Keys::uniform, seed);
  for (const unsigned threads : {1u, 3u}) {
    const auto parts = partition(std::span<const uint64_t>(items),
                                 {.by = ByHash{5}, .threads = threads, .block_bytes = 2 * MiB});
    ASSERT_TRUE(parts) << parts.error().message();
    for (uint32_t i = 0; i < parts->buckets(); ++i) {
      const auto at = reinterpret_cast<uintptr_t>(parts->bucket(i).data()) % (2 * MiB);
      EXPECT_EQ(at, i % 16 * 16 * KiB) << i;
    }
  }
}

TEST(Partition, ARangeEndsWithTheGreatestKeyOfTheType) {
  const auto items = make_items<uint32_t>(10'000, Keys::uniform, seed);
  auto parts = partition(std::span<const uint32_t>(items), {.by = ByRange{.buckets = 4}});
  ASSERT_TRUE(parts) << parts.error().message();
  for (uint32_t i = 0; i < 4; ++i) {
    EXPECT_GT(parts->bucket(i).size(), 2'000u);
    EXPECT_LT(parts->bucket(i).size(), 3'000u);
  }
}

TEST(Partition, RanksAreInTheOrderOfTheirType) {
  const double infinity = std::numeric_limits<double>::infinity();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<double> rising = {-infinity, -1e300, -1, -5e-324,  -0.0, 0.0,
                                      5e-324,    1,      2,  infinity, nan,  -nan};
  for (size_t i = 1; i < rising.size(); ++i)
    EXPECT_LT(rank_of(rising[i - 1]), rank_of(rising[i])) << i;
  EXPECT_EQ(rank_of(int8_t{-128}), 0u);
  EXPECT_EQ(rank_of(int8_t{127}), 255u);
  EXPECT_EQ(rank_of(int64_t{0}), uint64_t{1} << 63);
  EXPECT_EQ(rank_of(uint32_t{7}), 7u);
  EXPECT_EQ(rank_of(KeyValue32{7, 9}), 7u);
  EXPECT_EQ(rank_of(KeyValue64{7, 9}), 7u);
  EXPECT_EQ(rank_of(Key128{.low = 9, .high = 7}), 7u);
  // Compares with the ranks of the tests' model.
  Random random(seed);
  for (int i = 0; i < 1000; ++i) {
    const auto item = item_of<float>(random.next(), 0);
    EXPECT_EQ(rank_of(item), rank_in(item));
  }
}

TEST(Partition, ARangeOfFloatsEndsWithItsBounds) {
  Random random(seed);
  std::vector<double> items(10'000);
  for (double& item : items) item = static_cast<double>(random.below(4000)) - 2000;
  const auto parts = partition(std::span<const double>(items),
                               {.by = BySplitters{{rank_of(-1000.0), rank_of(0.0)}}});
  ASSERT_TRUE(parts) << parts.error().message();
  for (const double item : parts->bucket(0)) EXPECT_LT(item, -1000);
  for (const double item : parts->bucket(1)) EXPECT_TRUE(item >= -1000 && item < 0) << item;
  for (const double item : parts->bucket(2)) EXPECT_GE(item, 0);
  EXPECT_EQ(parts->bucket(0).size() + parts->bucket(1).size() + parts->bucket(2).size(),
            items.size());
  EXPECT_EQ(partition(std::span<const double>(items), {.by = ByHighBits{.bits = 3, .key_bits = 9}})
                .error()
                .code,
            ErrorCode::invalid_argument);
}

TEST(Partition, BadOptionsAreRefused) {
  const std::vector<uint32_t> items(100);
  const auto code_of = [&](const PartitionOptions& options) {
    auto parts = partition(std::span<const uint32_t>(items), options);
    EXPECT_FALSE(parts);
    return parts ? ErrorCode::io : parts.error().code;
  };
  for (const PartitionOptions& options :
       std::vector<PartitionOptions>{{.by = ByLowBits{15}},
                                     {.by = ByHighBits{40}},
                                     {.by = ByHighBits{.bits = 8, .key_bits = 33}},
                                     {.by = ByHash{0}},
                                     {.by = ByRange{.first = 1, .last = 0}},
                                     {.by = ByRange{.buckets = 0}},
                                     {.by = BySplitters{{2, 1}}},
                                     {.threads = 0},
                                     {.block_bytes = 5000},
                                     {.block_bytes = 2048}})
    EXPECT_EQ(code_of(options), ErrorCode::invalid_argument);
}

TEST(Partition, SeveralThreadsKeepTheOrder) {
  const auto items = make_items<KeyValue64>(500'000, Keys::few, seed);
  const PartitionOptions how{.by = ByLowBits{3}, .threads = 2, .stable = true};
  auto parts = partition(std::span<const KeyValue64>(items), how);
  ASSERT_TRUE(parts) << parts.error().message();
  expect_model(*parts, std::span<const KeyValue64>(items), how);
}

}  // namespace
}  // namespace penstock
