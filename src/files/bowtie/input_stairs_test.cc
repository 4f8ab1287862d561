#include "files/bowtie/input_stairs.h"

#include <gtest/gtest.h>

#include <vector>

#include "files/bowtie/scheduler.h"
#include "penstock/base.h"

namespace penstock::bowtie {
namespace {

// The computation can do nothing else until this input is read.
TEST(InputStairs, LoadsTheStalledInputBeforeOtherEmptyOnes) {
  constexpr uint32_t inputs = 6;
  for (const uint32_t group : {1u, 2u, inputs}) {
    InputStairs stairs({.inputs = inputs,
                        .group = group,
                        .memory_bytes = inputs * 64 * KiB,
                        .block_bytes = 4 * KiB});
    const std::vector<uint64_t> held(inputs), left(inputs, 1 * MiB), consumed(inputs);
    const View view{
        .input_bytes = held, .input_left_bytes = left, .input_consumed_bytes = consumed};
    stairs.note(view);
    for (uint32_t input = 0; input < inputs; ++input) {
      const std::vector<Load> loads = stairs.load_group(view, input);
      ASSERT_EQ(loads.size(), group);
      EXPECT_EQ(loads.front().input, input);
      EXPECT_GE(loads.front().bytes, 4 * KiB);
    }
  }
}

}  // namespace
}  // namespace penstock::bowtie
