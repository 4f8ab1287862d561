#pragma once

// Tests that run with each mechanism of a pool of blocks. One that this kernel lacks is skipped.

#include <gtest/gtest.h>

#include <string>

#include "memory/pool/pool.h"
#include "memory/stream/two_sided_fixture.h"
#include "penstock/region.h"

namespace penstock {

inline constexpr size_t block_items = block / sizeof(uint64_t);

inline const auto every_mechanism =
    testing::Values(Mechanism::mremap, Mechanism::uffd_move, Mechanism::shared);
inline std::string name_of_mechanism(const testing::TestParamInfo<Mechanism>& test) {
  return pool::name_of(test.param);
}

// A load that the compiler keeps where it is written. The page tables order what is shown and
// hidden. The thread sanitizer knows only locks and atomics, and would see a race with the mmap()
// of the thread that showed a block.
__attribute__((no_sanitize("thread"))) inline uint64_t read(const uint64_t* at) {
  return *static_cast<const volatile uint64_t*>(at);
}

class OnMechanism : public testing::TestWithParam<Mechanism> {
 protected:
  // Skips the test if `opened`, which needs the mechanism, is unsupported.
  template <class Opened>
  static void start(const Result<Opened>& opened) {
    // A forked child has no streams, so a death test must run the program anew.
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    if (!opened && opened.error().code == ErrorCode::unsupported)
      GTEST_SKIP() << opened.error().message();
    ASSERT_TRUE(opened) << opened.error().message();
    EXPECT_EQ(opened->mechanism(), GetParam());
  }
};

class OnBlockPool : public OnMechanism {
 protected:
  void SetUp() override {
    start(BlockPool::open({.block_bytes = block, .blocks = 1, .mechanism = GetParam()}));
  }
  static BlockPool open_pool(uint32_t blocks) {
    auto pool = BlockPool::open({.block_bytes = block, .blocks = blocks, .mechanism = GetParam()});
    EXPECT_TRUE(pool) << pool.error().message();
    return *pool;
  }
};

}  // namespace penstock
