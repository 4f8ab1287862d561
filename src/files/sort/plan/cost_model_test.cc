// Test labels: one-thread

// Time of a phase as a function of the times that each resource would take alone.

#include "files/sort/plan/cost_model.h"

#include <gtest/gtest.h>

#include <cmath>

#include "files/sort/sort_fixture.h"
#include "io/temporaries.h"

namespace penstock::external {
namespace {

class CostsTest : public SortFixture {
 protected:
  static std::optional<bowtie::DeviceProfile> device() {
    return bowtie::DeviceProfile{
        .name = "made up", .read_bytes_per_s = 100e6, .write_bytes_per_s = 50e6};
  }
  // Sets an input of this many items of 50 bytes.
  static SortInput input_of(uint64_t bytes) {
    SortInput input;
    input.bytes = bytes;
    input.sample.item_bytes = 50;
    return input;
  }
};

TEST_F(CostsTest, ResourcesWorkSideBySideAndWaitForEachOther) {
  const SortOptions chosen = options(u64);
  if (io::temporaries_in_memory(chosen.temp_directories, 1) > 0)
    GTEST_SKIP() << "the test's folder lies in memory, where the disk's time is the processors'";
  Context context(chosen);
  const SortInput input = input_of(1 * GiB);
  const Costs costs(context, input, device());
  const auto predicted = [&](const PhaseWork& work, uint64_t seeks = 0) {
    Step step{.phase = {.name = "sort",
                        .bytes_read = 100'000'000,
                        .bytes_written = 100'000'000,
                        .seeks = seeks},
              .work = work};
    costs.predict(step);
    EXPECT_DOUBLE_EQ(step.phase.seconds, costs.seconds_of(step));
    EXPECT_GE(costs.seconds_at_most(step), step.phase.seconds);
    return step.phase;
  };
  // A second of reading, two of writing.
  SortPhase phase = predicted({});
  EXPECT_DOUBLE_EQ(phase.seconds, 3);
  EXPECT_DOUBLE_EQ(phase.disk_seconds, 3);
  EXPECT_EQ(phase.processor_seconds, 0);
  EXPECT_EQ(phase.bound, PhaseBound::disk);
  // A thread that waits for a request takes time to wake up.
  phase = predicted({}, 10'000);
  EXPECT_GT(phase.seconds, 3.01);
  EXPECT_LT(phase.seconds, 4);
  // Eight seconds of two threads.
  phase = predicted({.processor_seconds = 8, .lanes = 2});
  EXPECT_DOUBLE_EQ(phase.seconds, 5);
  EXPECT_DOUBLE_EQ(phase.processor_seconds, 8);
  EXPECT_EQ(phase.bound, PhaseBound::processor);
  phase = predicted({.processor_seconds = 4, .lanes = 2});
  EXPECT_LT(phase.seconds, 4);
  EXPECT_EQ(phase.bound, PhaseBound::disk);
  // Work that is done before the disk has anything to do is added.
  phase = predicted({.processor_seconds = 8, .lanes = 2, .ahead_seconds = 6, .ahead_lanes = 3});
  EXPECT_DOUBLE_EQ(phase.seconds, 2 + 5);
  EXPECT_DOUBLE_EQ(phase.processor_seconds, 14);
  EXPECT_EQ(phase.bound, PhaseBound::processor);
  // The first use of memory is processor work, too.
  phase = predicted({.touched_bytes = 40 * GiB});
  EXPECT_GT(phase.memory_seconds, phase.disk_seconds);
  EXPECT_DOUBLE_EQ(phase.processor_seconds, phase.memory_seconds);
  EXPECT_DOUBLE_EQ(phase.seconds, std::hypot(3, phase.memory_seconds));
  EXPECT_EQ(phase.bound, PhaseBound::memory);
}

// More of anything never takes less time.
TEST_F(CostsTest, WorkGrowsWithWhatThereIsToDo) {
  for (const Format& format : {u64, lines}) {
    SCOPED_TRACE(items::name_of(format.type));
    SortOptions chosen = options(format);
    chosen.threads = 1;
    Context context(chosen);
    const SortInput input = input_of(1 * GiB);
    const Costs costs(context, input, device());
    BucketPlan plan{.buckets = 32,
                    .arena_bytes = 2 * GiB,
                    .read_block_bytes = 1 * MiB,
                    .sorters = 1,
                    .sorter_threads = 1};
    SortPhase phase{.name = "distribute", .bytes_read = 1 * GiB, .bytes_written = 1 * GiB};
    const PhaseWork split = costs.split_work(phase, plan);
    const PhaseWork sort = costs.sort_work(phase, plan);
    EXPECT_GT(split.processor_seconds, 0.1);
    EXPECT_LT(split.processor_seconds, 10);
    EXPECT_GT(sort.processor_seconds, split.processor_seconds) << "to sort takes more";
    EXPECT_EQ(split.lanes, 1);
    EXPECT_EQ(sort.lanes, 1);
    EXPECT_EQ(split.touched_bytes, 1 * GiB) << "no more than what comes";
    EXPECT_EQ(sort.touched_bytes, format.numeric() ? 0 : 1 * GiB);
    EXPECT_EQ(sort.ahead_seconds, 0);
    EXPECT_LT(costs.look_work().processor_seconds, split.processor_seconds);
    EXPECT_GT(costs.look_work().processor_seconds, 0);
    EXPECT_GT(costs.merge_work().processor_seconds, costs.look_work().processor_seconds);
    // Twice as much to move; and requests that seek are requests.
    phase.bytes_read *= 2;
    phase.bytes_written *= 2;
    EXPECT_NEAR(costs.split_work(phase, plan).processor_seconds, 2 * split.processor_seconds, 0.01);
    EXPECT_GE(costs.sort_work(phase, plan).processor_seconds, 2 * sort.processor_seconds);
    phase.seeks = 1'000'000;
    EXPECT_GT(costs.split_work(phase, plan).processor_seconds, 2 * split.processor_seconds + 1);
    phase.seeks = 0;
    phase.bytes_read /= 2;
    phase.bytes_written /= 2;
    // More buckets are smaller; buckets of texts fall out of the caches.
    plan.buckets = 1024;
    EXPECT_EQ(costs.split_work(phase, plan).processor_seconds > split.processor_seconds,
              !format.numeric());
    EXPECT_LT(costs.sort_work(phase, plan).processor_seconds, sort.processor_seconds);
    // One bucket of texts is sorted before any of it is written, and then copied by one thread.
    plan.buckets = 1;
    const PhaseWork one = costs.sort_work(phase, plan);
    EXPECT_EQ(one.ahead_seconds > one.processor_seconds, !format.numeric());
    EXPECT_GE(one.processor_seconds + one.ahead_seconds, sort.processor_seconds);
  }
}

}  // namespace
}  // namespace penstock::external
