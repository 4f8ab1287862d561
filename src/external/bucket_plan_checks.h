#pragma once

// What the tests of plans have in common: of numbers and of strings.

#include <gtest/gtest.h>

#include <string>

#include "external/memory_plan.h"

namespace penstock::external {

// Calls check(memory, input) for all that a plan may be made of, until it fails.
template <class Check>
void for_any_memory_and_input(Check check) {
  for (uint64_t memory = planned_bytes_min; memory <= 64 * GiB; memory += memory / 5) {
    for (uint64_t input = 16; input <= 64 * TiB; input *= 3) {
      SCOPED_TRACE(std::to_string(memory) + " for " + std::to_string(input));
      check(memory, input);
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

// The same, of plans that hold, which are those of any input that is not some thousand times as
// large as the memory (hundred times where that is little). For the others there is a memory with
// which they do.
template <class Plan, class Check>
void for_any_plan_that_holds(Plan plan, Check check) {
  for_any_memory_and_input([&](uint64_t memory, uint64_t input) {
    const auto planned = plan(memory, input);
    if (planned.holds) return check(planned, memory, input);
    ASSERT_GT(input / memory, memory < usable_bytes_min ? 256u : 1024u);
    ASSERT_TRUE(plan(64 * GiB, input).holds);
  });
}

// Every bucket can have a block while some are being written, and a level makes buckets smaller.
inline void assert_holds(const BucketPlan& plan, uint64_t memory, uint64_t input) {
  ASSERT_GE(plan.buckets, 1u);
  ASSERT_GE(plan.sorters, 1u);
  ASSERT_LT(plan.arena_bytes, memory);
  ASSERT_GE(plan.block_bytes, block_bytes_min);
  const uint64_t blocks = plan.arena_bytes / plan.block_bytes;
  // The lists have what they need, by a count that is not the plan's; and all has room together.
  const uint64_t spilled_blocks = plan.fits ? 0 : input / plan.block_bytes + plan.buckets;
  ASSERT_GE(plan.lists_bytes + lists_free_bytes, spilled_blocks * 12);
  ASSERT_LE(plan.lists_bytes + plan.arena_bytes + plan.sorters_bytes, memory);
  ASSERT_LE(plan.lists_bytes + plan.arena_bytes + plan.read_blocks * plan.read_block_bytes, memory);
  if (plan.fits) {
    ASSERT_GE(plan.arena_bytes, input);
    ASSERT_GT(blocks, plan.buckets);
  } else {
    ASSERT_GE(blocks, plan.buckets + plan.write_blocks);
    ASSERT_GT(plan.write_blocks, 0u);
    ASSERT_LE(plan.kept_bytes, plan.arena_bytes);
    ASSERT_GE(plan.buckets, 2u);
  }
}

}  // namespace penstock::external
