// Test labels: no-sanitizer (a sanitizer's memory moves the plans)

// Plans compared with the runs that follow them: the way, the passes, the space for temporaries,
// and the alternatives with other budgets.

#include "files/sort/plan/sort_planner.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/trials.h"
#include "files/run/space.h"
#include "files/sort/plan/probe.h"
#include "files/sort/sort_fixture.h"
#include "generate/generator.h"
#include "io/file.h"
#include "io/temporaries.h"
#include "os/sanitizer.h"

namespace penstock::external {
namespace {

class PlannerTest : public SortFixture {
 protected:
  void SetUp() override {
    SortFixture::SetUp();
    if (os::shadowed) GTEST_SKIP() << "a sanitizer keeps memory that a plan reckons with";
  }
  SortOptions options(const Format& format) const {
    SortOptions options = SortFixture::options(format);
    options.memory_bytes = budget_bytes();
    return options;
  }
};

// Budgets below and above the sort's own.
TEST_F(PlannerTest, AnotherBudgetDoesWhatTheAlternativesSay) {
  for (const Format& format : {u64, lines}) {
    SCOPED_TRACE(items::name_of(format.type));
    generate("in", format, 64 * MiB);
    SortOptions chosen = options(format);
    chosen.device =
        std::make_shared<const bowtie::DeviceProfile>(*bowtie::find_profile("nvme-ssd"));
    const uint64_t least_bytes = chosen.memory_bytes;
    for (const uint64_t times : {1, 4}) {
      chosen.memory_bytes = times * least_bytes;
      const auto plan = plan_sort(chosen);
      ASSERT_TRUE(plan) << plan.error().message();
      ASSERT_FALSE(plan->alternatives.empty());
      EXPECT_EQ(plan->alternatives.front().memory_bytes < chosen.memory_bytes, times > 1);
      uint64_t before_bytes = 0;
      for (const SortAlternative& other : plan->alternatives) {
        SCOPED_TRACE(other.memory_bytes / MiB);
        EXPECT_GT(other.memory_bytes, before_bytes);
        before_bytes = other.memory_bytes;
        SortOptions another = chosen;
        another.memory_bytes = other.memory_bytes;
        const auto same = plan_sort(another);
        ASSERT_TRUE(same) << same.error().message();
        EXPECT_EQ(other.method, same->method);
        EXPECT_EQ(other.passes, same->passes);
        // The program's own memory differs from time to time.
        EXPECT_NEAR(static_cast<double>(other.temp_bytes), static_cast<double>(same->temp_bytes),
                    8 * MiB);
        EXPECT_NEAR(other.seconds, same->seconds, 0.1 * same->seconds);
      }
    }
  }
}

// The disk and a few items are measured for a long sort, of an input that is mostly a hole.
TEST_F(PlannerTest, ALongSortIsPlannedWithMeasurements) {
  generate("in", u64, 32 * MiB);
  std::error_code error;
  std::filesystem::resize_file(path("in"), 1 * GiB, error);
  if (error) GTEST_SKIP() << "no file here can be so large";
  if (io::File::create_temporary(path("temporaries"))->caching() != io::Caching::direct)
    GTEST_SKIP() << "no disk is measured here";
  SortOptions chosen = options(u64);
  chosen.memory_bytes += 64 * MiB;
  // If K exceeds the number of items, the first K items are all of them.
  for (const std::optional<uint64_t> top : {std::optional<uint64_t>(), std::optional(GiB)}) {
    chosen.top = top;
    const auto plan = plan_sort(chosen);
    if (!plan && plan.error().code == ErrorCode::out_of_space)
      GTEST_SKIP() << plan.error().message();
    ASSERT_TRUE(plan) << plan.error().message();
    EXPECT_FALSE(plan->device_is_assumed);
    const SortPhase* const probe = find(plan->phases, "probe the disk");
    ASSERT_NE(probe, nullptr);
    EXPECT_GT(probe->bytes_written, 0u);
    const SortPhase* const trial = find(plan->phases, "try a few items");
    ASSERT_NE(trial, nullptr);
    EXPECT_GE(trial->bytes_read, 8 * MiB);
  }
}

// If files lie in memory the first measurement finds unused pages, so it is repeated.
TEST_F(PlannerTest, FilesInMemoryAreMeasuredMoreThanOnce) {
  const std::string memory = "/dev/shm";
  if (!io::lies_in_memory(memory)) GTEST_SKIP() << memory << " is no tmpfs here";
  if (auto space = io::space_of(memory); !space || space->free_bytes < 2 * GiB)
    GTEST_SKIP() << memory << " is too small";
  generate("in", u64, 32 * MiB);
  std::error_code error;
  std::filesystem::resize_file(path("in"), 1 * GiB, error);
  if (error) GTEST_SKIP() << "no file here can be so large";
  SortOptions chosen = options(u64);
  chosen.memory_bytes += 64 * MiB;
  chosen.temp_directories = {memory};
  auto plan = plan_sort(chosen);
  ASSERT_TRUE(plan) << plan.error().message();
  if (find(plan->phases, "probe the disk") == nullptr) {
    // The measurement failed: other processes may have taken the memory for a moment.
    const auto speed = probe_disk(memory, {.bytes = 32 * MiB, .depth = 4});
    std::cerr << "not measured: " << (speed ? "it works now" : speed.error().message()) << "\n";
    plan = plan_sort(chosen);
    ASSERT_TRUE(plan) << plan.error().message();
  }
  const SortPhase* const probe = find(plan->phases, "probe the disk");
  ASSERT_NE(probe, nullptr);
  EXPECT_GE(probe->bytes_written, 2 * (32 * MiB));
  const SortPhase* const trial = find(plan->phases, "try a few items");
  ASSERT_NE(trial, nullptr);
  EXPECT_GE(trial->bytes_read, 2 * (8 * MiB + 2 * MiB));
}

// For all ways the passes, the disk traffic and the space for temporaries are as planned.
TEST_F(PlannerTest, EachWayTakesWhatItsPlanSays) {
  struct Way {
    const char* name;
    Method method;
    Distribution distribution = Distribution::uniform;
    std::optional<double> top = {};  // share of all items
    bool to_device = false;
    bool unique = false;
    Compression compression = Compression::never;
  };
  const Way ways[] = {
      {.name = "distributed", .method = Method::distribute},
      {.name = "compressed", .method = Method::distribute, .compression = Compression::always},
      {.name = "with repeats",
       .method = Method::distribute,
       .distribution = Distribution::zipf,
       .unique = true},
      {.name = "merged", .method = Method::merge, .distribution = Distribution::sorted},
      {.name = "the first", .method = Method::distribute, .top = 0.45},
      {.name = "nearly all", .method = Method::distribute, .top = 0.8},
      {.name = "nearly all in order", .method = Method::distribute, .top = 0.8, .to_device = true},
  };
  for (const Way& way : ways) {
    for (const Format& format : {u64, records, lines}) {
      const auto known = generate::distributions_of(format.type);
      if (std::ranges::find(known, way.distribution) == known.end() || !tried()) continue;
      SCOPED_TRACE(fmt::format("{} {}", items::name_of(format.type), way.name));
      SortOptions chosen = options(format);
      generate("in", format, 16 * MiB, way.distribution);
      const std::string once = read(path("in"));
      // Data in order become two stretches.
      std::ofstream(path("in"), std::ios::binary | std::ios::app) << once;
      const uint64_t items = check(format, once).count * 2;
      chosen.memory_bytes = options(format).memory_bytes;
      if (way.top) chosen.top = static_cast<uint64_t>(*way.top * static_cast<double>(items));
      if (way.to_device) chosen.output = "/dev/null";
      chosen.unique = way.unique;
      chosen.compression = way.compression;
      const auto stats = sort_files(chosen);
      ASSERT_TRUE(stats) << stats.error().message();
      const SortPlan& plan = stats->predicted;
      EXPECT_EQ(plan.method, way.method);
      EXPECT_EQ(stats->method, way.method);
      EXPECT_EQ(plan.passes, stats->passes) << "of the plan";
      EXPECT_EQ(plan.input_bytes, 2 * once.size());
      // A sample errs by a few per cent.
      const auto at_most = [](uint64_t done, uint64_t planned) {
        EXPECT_LE(static_cast<double>(done), 1.1 * static_cast<double>(planned) + 2e6);
      };
      // The end of the first texts is searched for among all texts.
      const uint64_t looked_at = way.top && !format.fixed() ? plan.input_bytes / 4 : 0;
      at_most(stats->temp_bytes, plan.temp_bytes);
      at_most(stats->bytes_read, plan.bytes_read + looked_at);
      at_most(stats->bytes_written, plan.bytes_written);
      for (const SortPhase& planned : plan.phases) {
        SCOPED_TRACE(planned.name);
        const SortPhase* done = find(stats->phases, planned.name);
        ASSERT_NE(done, nullptr);
        at_most(done->bytes_read, planned.bytes_read + looked_at);
        at_most(done->bytes_written, planned.bytes_written);
        at_most(planned.bytes_read, done->bytes_read);
        if (!way.unique) at_most(planned.bytes_written, done->bytes_written);
      }
      for (const auto& [name, seconds] : stats->phase_seconds) EXPECT_GE(seconds, 0) << name;
      for (const SortPhase& done : stats->phases)
        EXPECT_NE(find(plan.phases, done.name), nullptr) << done.name;
    }
  }
}

}  // namespace
}  // namespace penstock::external
