// Test labels: slow-threads, loops

#include "papers/partition_methods.h"

#include "sorting/partition/partition_suite.h"

namespace penstock {
namespace {

using papers::Wrap;

const MethodCase private_streams_case{"private_streams", Stable::with_several,
                                      &papers::private_streams()};
const MethodCase shared_streams_case{"shared_streams", Stable::with_one_thread,
                                     &papers::shared_streams()};

std::vector<MethodCase> methods() {
  std::vector<MethodCase> all = {
      private_streams_case,
      {"private_rings_conditional", Stable::with_several,
       &papers::private_rings(Wrap::conditional)},
      {"private_rings_mask", Stable::with_several, &papers::private_rings(Wrap::mask)},
      {"shared_rings", Stable::with_one_thread, &papers::shared_rings()},
      shared_streams_case};
#if defined(__x86_64__)
  all.push_back(
      {"private_rings_handler", Stable::with_several, &papers::private_rings(Wrap::handler)});
#endif
  return all;
}

INSTANTIATE_TEST_SUITE_P(Methods, PartitionTest, testing::ValuesIn(methods()), name_of_method);

TEST(PartitionMethods, ManyBucketsOfASmallInputTakeLittleMemory) {
  expect_little_memory([]<class T>(std::span<const T> items, const PartitionOptions& how) {
    return partition_by<T>(papers::shared_rings(), nullptr, partition_internal::Input<T>(items),
                           how);
  });
}

// A forked child has no regions, so a death test must run the program anew.
class PartitionDeathTest : public PartitionTest {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_P(PartitionDeathTest, NobodyServesAReleasedBucket) {
  const auto items = make_items<uint64_t>(100'000, Keys::uniform, seed);
  auto pool = BlockPool::open({.block_bytes = 16 * KiB, .blocks = 200});
  ASSERT_TRUE(pool);
  auto parts = run(&*pool, std::span<const uint64_t>(items), options(ByHash{3}));
  ASSERT_TRUE(parts) << parts.error().message();
  volatile uint64_t* const released = parts->bucket(1).data();
  parts->release(1);
  EXPECT_DEATH(released[0] = 1, "");
  // Two blocks behind the last one.
  volatile uint64_t* const behind = parts->bucket(0).data() + parts->bucket(0).size() + 4 * KiB;
  EXPECT_DEATH(behind[0] = 1, "");
}

INSTANTIATE_TEST_SUITE_P(Streams, PartitionDeathTest,
                         testing::Values(private_streams_case, shared_streams_case),
                         name_of_method);

TEST(PartitionMethods, UnsupportedOptionsAreRefused) {
  const std::vector<uint32_t> items(100);
  const auto code_of = [&](const partition_internal::Method& method,
                           const PartitionOptions& options) {
    auto parts = partition_by<uint32_t>(
        method, nullptr, partition_internal::Input(std::span<const uint32_t>(items)), options);
    EXPECT_FALSE(parts);
    return parts ? ErrorCode::io : parts.error().code;
  };
  const PartitionOptions several{.threads = 2, .stable = true};
  EXPECT_EQ(code_of(papers::shared_rings(), several), ErrorCode::invalid_argument);
  EXPECT_EQ(code_of(papers::shared_streams(), several), ErrorCode::invalid_argument);
  EXPECT_EQ(code_of(papers::shared_rings(), {.threads = 8, .block_bytes = 4096}),
            ErrorCode::invalid_argument);
}

}  // namespace
}  // namespace penstock
