// Test labels: ci, no-sanitizer, loops (a sanitizer's memory moves the plans)

// Predictions of a sort, compared with its requests.

#include "files/sort/plan/sort_prediction.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <stop_token>
#include <thread>

#include "base/random.h"
#include "base/trials.h"
#include "files/run/space.h"
#include "files/sort/sort_fixture.h"
#include "files/sort/ways/long_runs.h"
#include "generate/generator.h"
#include "io/emulation.h"
#include "io/file.h"
#include "io/temporaries.h"
#include "items/checker.h"
#include "os/memory.h"
#include "os/sanitizer.h"

namespace penstock::external {
namespace {

bowtie::DeviceProfile hard_disk() {
  return *bowtie::find_profile("hard-disk");
}

// Samples the disk space of this process's files in `folder`, including those without a name.
class DiskWatch {
 public:
  explicit DiskWatch(std::filesystem::path folder) : folder_(std::move(folder)) {}
  // Returns the largest space seen.
  uint64_t finish() {
    watch_.request_stop();
    watch_.join();
    return most_bytes_;
  }

 private:
  void watch(const std::stop_token& stop) {
    for (; !stop.stop_requested(); std::this_thread::sleep_for(std::chrono::milliseconds(1)))
      most_bytes_ = std::max(most_bytes_, bytes());
  }
  // Several descriptors may refer to one file.
  uint64_t bytes() const {
    std::map<ino_t, uint64_t> files;
    for (int descriptor = 0; descriptor < descriptors_max; ++descriptor) {
      struct stat file = {};
      if (::fstat(descriptor, &file) != 0 || !S_ISREG(file.st_mode)) continue;
      std::error_code closed;
      const auto link =
          std::filesystem::read_symlink(fmt::format("/proc/self/fd/{}", descriptor), closed);
      if (!closed && link.string().starts_with(folder_.string()) && link.filename() != "in")
        files[file.st_ino] = static_cast<uint64_t>(file.st_blocks) * 512;
    }
    uint64_t sum = 0;
    for (const auto& [inode, bytes] : files) sum += bytes;
    return sum;
  }

  static constexpr int descriptors_max = 1024;
  const std::filesystem::path folder_;
  uint64_t most_bytes_ = 0;
  std::jthread watch_{[this](const std::stop_token& stop) { watch(stop); }};
};

class PredictionTest : public SortFixture {
 protected:
  SortOptions options(const Format& format) const {
    ::malloc_trim(0);
    // A 32nd of a budget is kept back.
    const uint64_t needed_bytes = os::resident_memory().bytes + 28 * MiB;
    SortOptions options = SortFixture::options(format);
    options.memory_bytes = std::max<uint64_t>(32 * MiB, needed_bytes + needed_bytes / 31);
    return options;
  }
  void expect_sorted(const SortOptions& chosen) const {
    const auto before = check(chosen.format, read(chosen.inputs[0]));
    const auto after = check(chosen.format, read(chosen.output), chosen.descending);
    EXPECT_TRUE(after.sorted());
    EXPECT_EQ(after.count, before.count);
    EXPECT_EQ(after.checksum_hex(), before.checksum_hex());
  }
  // Expects bytes within a twentieth, and seeks within a factor.
  static void expect_as_predicted(const SortStats& stats, const std::string& name,
                                  double seeks_factor) {
    expect_at_most_as_predicted(stats, name, seeks_factor);
    if (testing::Test::HasFatalFailure()) return;
    EXPECT_GE(few + seeks_factor * static_cast<double>(find(stats.phases, name)->seeks),
              static_cast<double>(find(stats.predicted.phases, name)->seeks))
        << name;
  }
  // Expects seeks within an upper bound only: the prediction may be the largest possible number.
  static void expect_at_most_as_predicted(const SortStats& stats, const std::string& name,
                                          double seeks_factor = 1) {
    SCOPED_TRACE(name);
    const SortPhase* planned = find(stats.predicted.phases, name);
    const SortPhase* done = find(stats.phases, name);
    ASSERT_NE(planned, nullptr);
    ASSERT_NE(done, nullptr);
    auto near = [](uint64_t expected, uint64_t measured) {
      const auto tolerance = 0.05 * static_cast<double>(expected) + 2e6;
      EXPECT_NEAR(static_cast<double>(measured), static_cast<double>(expected), tolerance);
    };
    near(planned->bytes_read, done->bytes_read);
    near(planned->bytes_written, done->bytes_written);
    EXPECT_LE(static_cast<double>(done->seeks),
              few + seeks_factor * static_cast<double>(planned->seeks));
  }
  static constexpr double few = 8;
};

TEST_F(PredictionTest, PhasesAddUpToTheRun) {
  for (const Format& format : {u64, records, lines}) {
    for (const uint64_t bytes : {48 * MiB, 1 * MiB}) {
      generate("in", format, bytes);
      auto stats = sort_files(options(format));
      ASSERT_TRUE(stats) << stats.error().message();
      for (const auto& [phases, read, written, seeks] :
           {std::tuple{stats->phases, stats->bytes_read, stats->bytes_written, stats->seeks},
            std::tuple{stats->predicted.phases, stats->predicted.bytes_read,
                       stats->predicted.bytes_written, stats->predicted.seeks}}) {
        SortPhase sum;
        for (const SortPhase& phase : phases) {
          sum.bytes_read += phase.bytes_read;
          sum.bytes_written += phase.bytes_written;
          sum.seeks += phase.seeks;
        }
        EXPECT_EQ(sum.bytes_read, read);
        EXPECT_EQ(sum.bytes_written, written);
        EXPECT_EQ(sum.seeks, seeks);
      }
      for (const SortPhase& planned : stats->predicted.phases)
        EXPECT_NE(find(stats->phases, planned.name), nullptr) << planned.name;
    }
  }
}

// Predicted times are consistent: phases, resources, range, other budgets.
TEST_F(PredictionTest, SecondsAddUpAndFollowTheResources) {
  for (const Format& format : {u64, records, lines}) {
    SCOPED_TRACE(items::name_of(format.type));
    generate("in", format, 64 * MiB);
    for (const char* const name : {"hard-disk", "nvme-ssd"}) {
      SortOptions chosen = options(format);
      chosen.device = std::make_shared<const bowtie::DeviceProfile>(*bowtie::find_profile(name));
      auto plan = plan_sort(chosen);
      ASSERT_TRUE(plan) << plan.error().message();
      double seconds = 0;
      for (const SortPhase& phase : plan->phases) {
        seconds += phase.seconds;
        EXPECT_LE(phase.disk_seconds, phase.seconds * 1.0001) << phase.name;
        EXPECT_GE(phase.disk_seconds + phase.processor_seconds, phase.seconds * 0.9999)
            << phase.name;
        EXPECT_LE(phase.memory_seconds, phase.processor_seconds) << phase.name;
        // A disk of 200 MB/s keeps no processor busy.
        if (name == std::string("hard-disk")) {
          EXPECT_EQ(phase.bound, PhaseBound::disk) << phase.name;
        }
      }
      EXPECT_NEAR(plan->seconds, seconds, 1e-9);
      EXPECT_LT(plan->seconds_low, plan->seconds);
      EXPECT_GT(plan->seconds_high, plan->seconds);
      ASSERT_FALSE(plan->alternatives.empty());
      for (const SortAlternative& other : plan->alternatives) {
        if (other.memory_bytes < chosen.memory_bytes) continue;
        EXPECT_LE(other.passes, plan->passes);
        EXPECT_LE(other.temp_bytes, plan->temp_bytes);
        EXPECT_LE(other.seconds, plan->seconds * 1.1) << other.memory_bytes / MiB;
      }
      EXPECT_EQ(plan->alternatives.back().method, Method::in_memory);
    }
  }
}

TEST_F(PredictionTest, TheUsualDistributionSeeksAsPredicted) {
  for (const Format& format : {u64, records, lines}) {
    SCOPED_TRACE(items::name_of(format.type));
    generate("in", format, 64 * MiB);
    auto stats = sort_files(options(format));
    ASSERT_TRUE(stats) << stats.error().message();
    EXPECT_EQ(stats->method, Method::distribute);
    EXPECT_FALSE(stats->predicted.long_runs);
    expect_as_predicted(*stats, "distribute", 1.5);
    if (format.numeric()) {
      expect_as_predicted(*stats, "sort", 2);
      continue;
    }
    // Several sorters of texts read and write side by side, in an order that no plan knows. On a
    // busy machine they may work in turn: one run to read and one to write for each bucket.
    const SortPhase* sort = find(stats->phases, "sort");
    ASSERT_NE(sort, nullptr);
    EXPECT_LE(sort->seeks, 5 * find(stats->predicted.phases, "sort")->seeks);
    EXPECT_GE(sort->seeks, stats->predicted.buckets / 2);
  }
}

TEST_F(PredictionTest, AnInputThatFitsIsReadAndWrittenInOneRun) {
  for (const Format& format : {u64, records, lines}) {
    for (const uint64_t bytes : {2 * MiB, 16 * MiB}) {
      generate("in", format, bytes);
      SortOptions chosen = options(format);
      chosen.memory_bytes += 2 * bytes;
      chosen.threads = 4;
      chosen.device = std::make_shared<const bowtie::DeviceProfile>(hard_disk());
      auto stats = sort_files(chosen);
      ASSERT_TRUE(stats) << stats.error().message();
      ASSERT_EQ(stats->method, Method::in_memory);
      EXPECT_EQ(find(stats->predicted.phases, "sort and write")->seeks, 1u);
      expect_as_predicted(*stats, "read", 1);
      EXPECT_EQ(find(stats->phases, "sort and write")->seeks, 1u);
    }
  }
}

// Spilled buckets are read as far as there is room, and then all of these are written. (A sort that
// cuts its output does not distribute with the executor.)
TEST_F(PredictionTest, ReadingAndWritingTakeTurnsOnADiskThatSeeksSlowly) {
  io::emulate(io::EmulatedDevice{
      .read_bytes_per_s = 2e9, .write_bytes_per_s = 2e9, .switch_seconds = 1.1e-3});
  for (const Format& format : {u64, Format{Type::kv64, 16}, records, lines}) {
    SCOPED_TRACE(items::name_of(format.type));
    generate("in", format, 40 * MiB);
    const uint64_t items = check(format, read(path("in"))).count;
    SortOptions chosen = options(format);
    chosen.top = items - 1;
    auto stats = sort_files(chosen);
    ASSERT_TRUE(stats) << stats.error().message();
    ASSERT_EQ(stats->method, Method::distribute);
    EXPECT_FALSE(stats->predicted.long_runs);
    const auto sorted = check(format, read(chosen.output));
    EXPECT_TRUE(sorted.sorted());
    EXPECT_EQ(sorted.count, items - 1);
    const SortPhase* planned = find(stats->predicted.phases, "sort");
    const SortPhase* done = find(stats->phases, "sort");
    ASSERT_TRUE(planned != nullptr && done != nullptr);
    EXPECT_LE(static_cast<double>(done->seeks), 1.2 * static_cast<double>(planned->seeks) + 4);
    EXPECT_LE(planned->seeks, 2 * done->seeks);
  }
}

// Only as much goes to a temporary as the sort takes beside its items.
TEST_F(PredictionTest, ALittleMoreThanMemoryStaysThereOnADiskThatSeeksSlowly) {
  if (os::shadowed) GTEST_SKIP() << "what a sanitizer takes of the memory moves the plan";
  SortOptions chosen = options(lines);
  chosen.device = std::make_shared<const bowtie::DeviceProfile>(hard_disk());
  Result<SortPlan> plan;
  // A little more than fits. The steps are fine, because the process's own memory moves the plan.
  for (uint64_t bytes = 10 * MiB; bytes < 32 * MiB; bytes += MiB / 4) {
    generate("in", lines, bytes);
    plan = plan_sort(chosen);
    ASSERT_TRUE(plan) << plan.error().message();
    if (plan->spilled_bytes > 2 * MiB) break;
  }
  ASSERT_GT(plan->spilled_bytes, 2 * MiB);
  EXPECT_FALSE(plan->long_runs);
  auto stats = sort_files(chosen);
  ASSERT_TRUE(stats) << stats.error().message();
  ASSERT_EQ(stats->method, Method::distribute);
  expect_sorted(chosen);
  EXPECT_LT(3 * stats->spilled_bytes, stats->bytes);
  EXPECT_LE(stats->seeks, 24u);
  expect_at_most_as_predicted(*stats, "distribute", 1.5);
  expect_at_most_as_predicted(*stats, "sort", 1.5);
}

// Buckets of numbers are written when they become sorted, unless their places depend on repeats
// that are dropped before them.
TEST_F(PredictionTest, NumbersThatFitAreWrittenBucketByBucket) {
  generate("in", u64, 16 * MiB);
  SortOptions chosen = options(u64);
  chosen.memory_bytes += 64 * MiB;
  chosen.threads = 4;
  auto stats = sort_files(chosen);
  ASSERT_TRUE(stats) << stats.error().message();
  EXPECT_EQ(stats->method, Method::in_memory);
  EXPECT_GT(find(stats->predicted.phases, "sort and write")->seeks, 1u);
  expect_at_most_as_predicted(*stats, "sort and write");
  chosen.unique = true;
  stats = sort_files(chosen);
  ASSERT_TRUE(stats) << stats.error().message();
  EXPECT_EQ(find(stats->predicted.phases, "sort and write")->seeks, 1u);
  expect_as_predicted(*stats, "sort and write", 1);
}

TEST_F(PredictionTest, ASortedInputIsCopiedInOnePass) {
  for (const Format& format : {u64, lines}) {
    SCOPED_TRACE(items::name_of(format.type));
    generate("in", format, 48 * MiB, Distribution::sorted);
    const SortOptions chosen = options(format);
    const auto stats = sort_files(chosen);
    ASSERT_TRUE(stats) << stats.error().message();
    EXPECT_EQ(stats->method, Method::merge);
    EXPECT_EQ(stats->passes, 1u);
    EXPECT_EQ(stats->temp_bytes, 0u);
    expect_sorted(chosen);
    expect_as_predicted(*stats, "copy", 2);
  }
}

// On a disk that does not seek slowly sorters write when they have something, each at its place.
TEST_F(PredictionTest, AnInputThatFitsIsWrittenInNoMoreRunsThanRequests) {
  for (const unsigned threads : {1u, 2u, 8u}) {
    for (const Format& format : {u64, records, lines}) {
      generate("in", format, 2 * MiB);
      SortOptions chosen = options(format);
      chosen.threads = threads;
      auto stats = sort_files(chosen);
      ASSERT_TRUE(stats) << stats.error().message();
      EXPECT_EQ(stats->method, Method::in_memory);
      expect_as_predicted(*stats, "read", 1);
      expect_at_most_as_predicted(*stats, "sort and write");
    }
  }
}

TEST_F(PredictionTest, ADiskThatSeeksSlowlyGetsLongRuns) {
  for (const Format& format :
       {u64, Format{Type::i32, 4, 0, 4}, Format{Type::kv64, 16}, records, lines}) {
    if (!tried()) continue;
    SCOPED_TRACE(items::name_of(format.type));
    generate("in", format, 48 * MiB);
    SortOptions chosen = options(format);
    chosen.descending = format.type == Type::i32 || format.type == Type::lines;
    auto usual = sort_files(chosen);
    ASSERT_TRUE(usual) << usual.error().message();
    chosen.device = std::make_shared<const bowtie::DeviceProfile>(hard_disk());
    chosen.memory_bytes =
        options(format).memory_bytes;  // a sanitizer keeps some memory of the first sort
    auto stats = sort_files(chosen);
    ASSERT_TRUE(stats) << stats.error().message();
    EXPECT_TRUE(stats->predicted.long_runs);
    EXPECT_EQ(stats->passes, 2u);
    expect_sorted(chosen);
    expect_as_predicted(*stats, "distribute", 2);
    expect_as_predicted(*stats, "sort", 2);
    EXPECT_LT(4 * stats->seeks, usual->seeks);
  }
}

// The space of temporaries that were read is freed while the output grows.
TEST_F(PredictionTest, OutputAndTemporariesTakeLittleMoreThanTheInput) {
  for (const Format& format : {u64, records, lines}) {
    generate("in", format, 96 * MiB);
    const auto input_bytes = static_cast<double>(std::filesystem::file_size(path("in")));
    for (const bool long_runs : {false, true}) {
      SCOPED_TRACE(testing::Message() << items::name_of(format.type) << long_runs);
      SortOptions chosen = options(format);
      if (long_runs) chosen.device = std::make_shared<const bowtie::DeviceProfile>(hard_disk());
      DiskWatch watch(directory_);
      auto stats = sort_files(chosen);
      const auto most_bytes = static_cast<double>(watch.finish());
      ASSERT_TRUE(stats) << stats.error().message();
      EXPECT_EQ(stats->predicted.long_runs, long_runs);
      EXPECT_GT(static_cast<double>(stats->temp_bytes), 0.8 * input_bytes);
      // In long runs each bucket has a file, which stays until its output is written.
      const double a_bucket = long_runs ? 1.0 / stats->predicted.buckets : 0;
      EXPECT_LE(most_bytes, (1.1 + a_bucket) * input_bytes);
      EXPECT_GE(most_bytes, 0.9 * input_bytes) << "what there is was not seen";
    }
  }
}

// More buckets than memory has streams for: of short lines, whose pairs take several times their
// size, and with many inputs. The second case has a too frequent text.
TEST_F(PredictionTest, LongRunsTakeTwoStepsForTooManyBuckets) {
  if (os::shadowed) GTEST_SKIP() << "what a sanitizer takes of the memory moves the plan";
  Random random(seed_of_run());
  for (const bool heavy : {false, true}) {
    for (uint64_t file = 0; file < 100; ++file) {
      std::string text;
      while (text.size() < (file == 0 ? 40 * MiB : 4 * KiB)) {
        uint64_t bits = random.next();
        for (uint64_t left = 1 + random.below(6); left > 0; --left, bits >>= 8)
          text += static_cast<char>('a' + bits % 26);
        text += heavy && random.below(12) == 0 ? "\nsame\n" : "\n";
      }
      std::ofstream(path(fmt::format("in{}", file)), std::ios::binary) << text;
    }
    SortOptions chosen = options(lines);
    chosen.memory_bytes += 4 * MiB;  // for memory that plans leave to the program's allocator
    chosen.device = std::make_shared<const bowtie::DeviceProfile>(hard_disk());
    chosen.inputs.clear();
    Result<SortPlan> plan;
    for (uint64_t file = 0; file < 100; ++file) {
      chosen.inputs.push_back(path(fmt::format("in{}", file)));
      plan = plan_sort(chosen);
      ASSERT_TRUE(plan) << plan.error().message();
      if (plan->long_runs && plan->passes == 3) break;
    }
    ASSERT_EQ(plan->passes, 3u);
    auto stats = sort_files(chosen);
    ASSERT_TRUE(stats) << stats.error().message();
    EXPECT_TRUE(stats->predicted.long_runs);
    EXPECT_GE(stats->passes, 3u);
    // Each input is a seek, beside those of the distribution.
    EXPECT_LE(static_cast<double>(find(stats->phases, "distribute")->seeks - chosen.inputs.size()),
              few + 2 * static_cast<double>(find(plan->phases, "distribute")->seeks));
    EXPECT_LE(static_cast<double>(find(stats->phases, "sort")->seeks),
              few + 2 * static_cast<double>(find(plan->phases, "sort")->seeks));
    if (!heavy) expect_at_most_as_predicted(*stats, "sort", 2);
    std::string all;
    for (const std::string& input : chosen.inputs) all += read(input);
    const auto sorted = check(lines, read(path("out")));
    EXPECT_TRUE(sorted.sorted());
    EXPECT_EQ(sorted.checksum_hex(), check(lines, all).checksum_hex());
  }
}

// Distributing the items of one key once more would change nothing.
TEST(LongRuns, DistributeAgainOnlyBucketsThatBecomeSmaller) {
  LongRunsPlan plan{.bytes = 800, .bucket_bytes_max = 10, .levels = 2};
  EXPECT_FALSE(plan.goes_again(10));
  EXPECT_TRUE(plan.goes_again(11));
  EXPECT_TRUE(plan.goes_again(700));
  EXPECT_FALSE(plan.goes_again(701));
  plan.levels = 1;
  EXPECT_FALSE(plan.goes_again(11));
}

TEST_F(PredictionTest, LongRunsKeepTheOrderOfEqualKeysAndDropRepeats) {
  Random random(3);
  std::vector<std::pair<uint64_t, uint64_t>> pairs(48 * MiB / 16);
  for (size_t i = 0; i < pairs.size(); ++i) {
    // A key that is a third of all items exceeds a bucket.
    pairs[i] = {random.below(3) == 0 ? 2500 : random.below(5000), i};
  }
  auto text = [&] {
    return std::string(reinterpret_cast<const char*>(pairs.data()), pairs.size() * 16);
  };
  std::ofstream(path("in"), std::ios::binary) << text();
  std::ranges::stable_sort(pairs, {}, &std::pair<uint64_t, uint64_t>::first);
  for (const bool unique : {false, true}) {
    SortOptions chosen = options({Type::kv64, 16});
    chosen.device = std::make_shared<const bowtie::DeviceProfile>(hard_disk());
    chosen.unique = unique;
    auto stats = sort_files(chosen);
    ASSERT_TRUE(stats) << stats.error().message();
    EXPECT_TRUE(stats->predicted.long_runs);
    if (unique) {
      pairs.erase(std::ranges::unique(pairs, {}, &std::pair<uint64_t, uint64_t>::first).begin(),
                  pairs.end());
    }
    EXPECT_TRUE(read(path("out")) == text());
    EXPECT_EQ(stats->items, pairs.size());
  }
}

TEST_F(PredictionTest, SeveralInputsOfAnyDistributionInLongRuns) {
  for (const Format& format : {u64, lines}) {
    for (const Distribution distribution :
         {Distribution::all_equal, Distribution::zipf, Distribution::low_bits_only,
          Distribution::one_bucket, Distribution::common_prefix}) {
      if (std::ranges::count(generate::distributions_of(format.type), distribution) == 0) continue;
      if (!tried()) continue;
      SCOPED_TRACE(generate::name_of(distribution));
      generate("in", format, 32 * MiB, distribution);
      const std::string all = read(path("in"));
      size_t cut = all.size() / 3 / 8 * 8;
      if (!format.fixed()) cut = all.find('\n', cut) + 1;
      std::ofstream(path("a"), std::ios::binary) << all.substr(0, cut);
      std::ofstream(path("b"), std::ios::binary);
      std::ofstream(path("c"), std::ios::binary) << all.substr(cut);
      SortOptions chosen = options(format);
      chosen.inputs = {path("a"), path("b"), path("c")};
      chosen.device = std::make_shared<const bowtie::DeviceProfile>(hard_disk());
      auto stats = sort_files(chosen);
      ASSERT_TRUE(stats) << stats.error().message();
      const auto sorted = check(format, read(path("out")));
      EXPECT_TRUE(sorted.sorted());
      EXPECT_EQ(sorted.checksum_hex(), check(format, all).checksum_hex());
    }
  }
}

// The memory that a plan names saves a pass, and a little less does not.
TEST_F(PredictionTest, TheMemoryThatSavesAPassDoesSo) {
  for (const Format& format : {u64, records}) {
    SCOPED_TRACE(items::name_of(format.type));
    generate("in", format, 160 * MiB);
    SortOptions chosen = options(format);
    auto plan = plan_sort(chosen);
    ASSERT_TRUE(plan) << plan.error().message();
    ASSERT_EQ(plan->passes, 2u);
    const uint64_t enough = plan->fewer_passes_memory_bytes;
    if (enough == 0) GTEST_SKIP() << "this machine has no memory for the whole input";
    EXPECT_GT(enough, chosen.memory_bytes);
    EXPECT_LT(enough, 160 * MiB * 3 + 256 * MiB);
    chosen.memory_bytes = enough;
    plan = plan_sort(chosen);
    ASSERT_TRUE(plan) << plan.error().message();
    EXPECT_EQ(plan->passes, 1u);
    EXPECT_EQ(plan->fewer_passes_memory_bytes, 0u);
    chosen.memory_bytes = enough * 4 / 5;
    plan = plan_sort(chosen);
    ASSERT_TRUE(plan) << plan.error().message();
    EXPECT_EQ(plan->passes, 2u);
  }
}

TEST_F(PredictionTest, AMergePredictsItsSeeks) {
  SortOptions chosen = options(u64);
  chosen.inputs.clear();
  chosen.merge_only = true;
  for (int i = 0; i < 6; ++i) {
    chosen.inputs.push_back(path(fmt::format("in{}", i)));
    generate(fmt::format("in{}", i), u64, 8 * MiB, Distribution::sorted);
  }
  chosen.device = std::make_shared<const bowtie::DeviceProfile>(hard_disk());
  auto stats = sort_files(chosen);
  ASSERT_TRUE(stats) << stats.error().message();
  EXPECT_EQ(stats->method, Method::merge);
  EXPECT_GT(stats->predicted.seconds, 0);
  expect_as_predicted(*stats, "merge", 2.5);
}

TEST_F(PredictionTest, ASmallInputHasAPredictionWithItsAssumptions) {
  const Format format = {Type::u64, 8};
  generate("in", format, 1 * MiB);
  SortOptions chosen = options(format);
  const auto plan = plan_sort(chosen);
  ASSERT_TRUE(plan) << plan.error().message();
  ASSERT_TRUE(plan->device);
  EXPECT_TRUE(plan->device_is_assumed);
  EXPECT_NE(plan->device->name.find("not measured"), std::string::npos) << plan->device->name;
  // The disk alone takes that long: it reads the input once and writes the output once.
  EXPECT_GE(plan->seconds, static_cast<double>(MiB) / plan->device->read_bytes_per_s +
                               static_cast<double>(MiB) / plan->device->write_bytes_per_s);
  EXPECT_LT(plan->seconds, 0.1);
  for (const SortPhase& phase : plan->phases) EXPECT_NE(phase.name, "probe the disk");
  chosen.device = std::make_shared<bowtie::DeviceProfile>(*bowtie::find_profile("nvme-ssd"));
  const auto known = plan_sort(chosen);
  ASSERT_TRUE(known) << known.error().message();
  EXPECT_FALSE(known->device_is_assumed);
  EXPECT_EQ(known->method, plan->method);
  // An empty input has no prediction.
  std::ofstream(path("in"), std::ios::binary | std::ios::trunc);
  const auto empty = plan_sort(options(format));
  ASSERT_TRUE(empty) << empty.error().message();
  EXPECT_EQ(empty->seconds, 0);
}

TEST_F(PredictionTest, TemporariesInMemoryAreReportedAndCounted) {
  const std::string memory = "/dev/shm";
  const uint64_t input_bytes = 48 * MiB;
  if (!io::lies_in_memory(memory)) GTEST_SKIP() << memory << " is no tmpfs here";
  if (io::lies_in_memory(path("temporaries"))) GTEST_SKIP() << "the test's folder is one, too";
  if (auto space = io::space_of(memory); !space || space->free_bytes < 2 * input_bytes)
    GTEST_SKIP() << memory << " is too small";
  const Format format = {Type::u64, 8};
  generate("in", format, input_bytes);
  SortOptions chosen = options(format);
  std::vector<std::string> told;
  chosen.notice = [&](const std::string& text) { told.push_back(text); };
  auto stats = sort_files(chosen);
  ASSERT_TRUE(stats) << stats.error().message();
  EXPECT_GT(stats->temp_bytes, 0u);
  EXPECT_EQ(stats->temp_memory_bytes, 0u);
  EXPECT_EQ(stats->predicted.temp_memory_bytes, 0u);
  EXPECT_TRUE(told.empty());

  chosen.temp_directories = {memory};
  stats = sort_files(chosen);
  ASSERT_TRUE(stats) << stats.error().message();
  expect_sorted(chosen);
  EXPECT_EQ(stats->temp_memory_bytes, stats->temp_bytes);
  EXPECT_EQ(stats->predicted.temp_memory_bytes, stats->predicted.temp_bytes);
  ASSERT_EQ(told.size(), 1u);
  EXPECT_NE(told[0].find(memory), std::string::npos) << told[0];

  // A plan for more than there is does not begin.
  const auto refused = files::check_space({.output = path("out"),
                                           .temp_directories = {memory},
                                           .temp_bytes = 1024 * TiB,
                                           .memory_bytes = chosen.memory_bytes});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::out_of_memory) << refused.error().message();
}

// The lists of blocks in temporaries are memory, too: eight terabytes have 4 million blocks of 2
// MiB, and little memory has smaller blocks.
TEST_F(PredictionTest, MoreInputThanItsListsAllowIsRefusedBeforeTheStart) {
  std::ofstream(path("in"), std::ios::binary);
  std::error_code refused;
  std::filesystem::resize_file(path("in"), 8 * TiB, refused);
  if (refused) GTEST_SKIP() << "no file of 8 TiB here: " << refused.message();
  SortOptions chosen = options({items::Type::u64, 8});
  chosen.resume = true;  // zeros are sorted, and would be merged
  chosen.device = std::make_shared<bowtie::DeviceProfile>(*bowtie::find_profile("nvme-ssd"));
  const auto plan = plan_sort(chosen);
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().code, ErrorCode::out_of_memory) << plan.error().message();
  EXPECT_EQ(plan.error().subject, "-S");
  EXPECT_FALSE(std::filesystem::exists(path("out")));
  // The memory that the message asks for suffices. (There may be no disk for it.)
  const std::string& hint = plan.error().hint;
  const size_t digit = hint.find_first_of("0123456789");
  ASSERT_NE(digit, std::string::npos) << hint;
  chosen.memory_bytes = (std::stoull(hint.substr(digit)) + 2) * MiB;
  const auto again = plan_sort(chosen);
  EXPECT_TRUE(again || again.error().code == ErrorCode::out_of_space) << again.error().message();
}

// If nothing is spilled the input is read in one run, each file of it.
TEST(SplitTraffic, ReadsAndWritesInTurn) {
  SplitTraffic traffic{.input_bytes = 64 * MiB,
                       .input_files = 3,
                       .read_block_bytes = 1 * MiB,
                       .write_block_bytes = 1 * MiB};
  EXPECT_EQ(predict_split("distribute", traffic).seeks, 3u);
  EXPECT_EQ(predict_split("distribute", traffic).bytes_read, 64 * MiB);
  EXPECT_EQ(predict_split("distribute", traffic).bytes_written, 0u);
  // A block of the input, a block of a bucket, and so on: each seeks.
  traffic.spilled_bytes = 64 * MiB;
  EXPECT_EQ(predict_split("distribute", traffic).seeks, 3u + 2 * 64);
  EXPECT_EQ(predict_split("distribute", traffic).bytes_written, 64 * MiB);
  // Larger read blocks: many bucket blocks are written behind each.
  traffic.write_block_bytes = 4 * MiB;
  EXPECT_EQ(predict_split("distribute", traffic).seeks, 3u + 2 * 16 + 1);
  // Four writes behind a read: to another of four files in three cases of four.
  traffic.read_block_bytes = 4 * MiB;
  traffic.write_block_bytes = 1 * MiB;
  traffic.spill_files = 4;
  EXPECT_EQ(predict_split("distribute", traffic).seeks, 3u + 2 * 16 + 48 * 3 / 4);
  // Buckets that memory holds when it becomes full are written in one run each.
  traffic.kept_bytes = 60 * MiB;
  traffic.spilled_bytes = 4 * MiB;
  traffic.buckets = 16;
  EXPECT_LT(predict_split("distribute", traffic).seeks, 3u + 16 + 2 * 4);
}

TEST(BucketTraffic, OneWriterContinuesAtItsPlace) {
  // Each bucket is read from a file of its own, and written.
  BucketTraffic traffic{.output_bytes = 64 * MiB,
                        .spilled_bytes = 64 * MiB,
                        .spilled_block_bytes = 1 * MiB,
                        .buckets = 8,
                        .request_bytes = 1 * MiB,
                        .in_flight_bytes = 8 * MiB};
  EXPECT_EQ(predict_buckets("sort", traffic).seeks, 1u + 8 + 8);
  // Several buckets share a file, in which their blocks lie apart.
  traffic.buckets_per_spill_file = 4;
  EXPECT_EQ(predict_buckets("sort", traffic).seeks, 1u + 8 + 48 + 8);
  // Half of a bucket exceeds the queues: reads and writes alternate.
  traffic.buckets_per_spill_file = 1;
  traffic.in_flight_bytes = 4 * MiB;
  EXPECT_EQ(predict_buckets("sort", traffic).seeks, 1u + 32 + 32);
  // Nothing was spilled: the disk only writes.
  traffic.spilled_bytes = 0;
  EXPECT_EQ(predict_buckets("sort", traffic).seeks, 8u);
  EXPECT_EQ(predict_buckets("sort", traffic).bytes_read, 0u);
  EXPECT_EQ(predict_buckets("sort", traffic).bytes_written, 64 * MiB);
}

// The reader fills memory bucket by bucket, and all of that is then written in one run.
TEST(BucketTraffic, ReadingAndWritingInTurnsSeekOnceATurn) {
  BucketTraffic traffic{.output_bytes = 64 * MiB,
                        .spilled_bytes = 64 * MiB,
                        .spilled_block_bytes = 1 * MiB,
                        .buckets = 8,
                        .request_bytes = 1 * MiB,
                        .turn_bytes = 16 * MiB};
  EXPECT_EQ(predict_buckets("sort", traffic).seeks, 8u + 4);
  // Kept buckets are only written.
  traffic.spilled_bytes = 32 * MiB;
  EXPECT_EQ(predict_buckets("sort", traffic).seeks, 4u + 4);
}

// Each writer has a place of its own.
TEST(BucketTraffic, EveryRequestOfSeveralWritersSeeks) {
  BucketTraffic traffic{.output_bytes = 64 * MiB, .buckets = 8, .request_bytes = 1 * MiB};
  traffic.writers = 4;
  const uint64_t seeks = predict_buckets("sort", traffic).seeks;
  traffic.output_bytes *= 2;
  EXPECT_EQ(predict_buckets("sort", traffic).seeks, seeks + 64);
  traffic.writers = 1;
  EXPECT_EQ(predict_buckets("sort", traffic).seeks, 8u);
}

}  // namespace
}  // namespace penstock::external
