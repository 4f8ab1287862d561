// A bit that flips in a temporary, on the disk or on the way: the run ends with an error that says
// so, or its output is right all the same (the bit was in a sample). It is never wrong.

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <memory>

#include "bowtie/device_profile.h"
#include "external/external_sort.h"
#include "external/group_files.h"
#include "external/merge_files.h"
#include "external/partition_files.h"
#include "external/sort_fixture.h"
#include "file/engine.h"

namespace penstock::external {
namespace {

using record::Distribution;
using record::Format;
using record::Type;

const Format u64 = {Type::u64, 8};
const Format records = {Type::record, 100, 0, 10};
const Format lines = {Type::lines, 1};

class Damage : public SortFixture {
 protected:
  void SetUp() override {
    directory_ =
        std::filesystem::temp_directory_path() / ("penstock-damage-" + std::to_string(::getpid()));
    std::filesystem::create_directories(directory_ / "out");
    std::filesystem::create_directories(directory_ / "temporaries");
  }
  void TearDown() override {
    file::inject({});
    std::filesystem::remove_all(directory_);
  }

  // All that a run leaves in the folder for outputs.
  std::string outputs() const {
    std::map<std::string, std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator(directory_ / "out"))
      found[entry.path()] = read(entry.path());
    std::string all;
    for (const auto& [name, text] : found) all += name + '\n' + text;
    return all;
  }
  void clear() const {
    for (const auto& entry : std::filesystem::directory_iterator(directory_ / "out"))
      std::filesystem::remove(entry.path());
  }

  // In one read after the other, until the run reads less often. `streams`: it works with the start
  // of a block before the block's end has come, and may stumble over the bit before.
  template <class Run>
  void expect_noticed(Run run, bool streams = false) {
    auto first = run();
    ASSERT_TRUE(first) << first.error().message();
    const std::string wanted = outputs();
    uint64_t noticed = 0;
    uint64_t untouched = 0;
    for (uint64_t flip = 1; untouched < 2; flip = 3 * flip + 1) {
      SCOPED_TRACE(flip);
      clear();
      file::inject({.seed = flip, .flip = flip});
      auto result = run();
      file::inject({});
      if (result) {
        ASSERT_TRUE(outputs() == wanted) << "a wrong output";
        ++untouched;
        continue;
      }
      untouched = 0;
      const std::string message = result.error().message();
      if (message.find("trust a temporary") != std::string::npos) {
        ++noticed;
        EXPECT_EQ(result.error().code, ErrorCode::corrupt) << message;
        EXPECT_NE(message.find("at offset"), std::string::npos) << message;
      } else {
        EXPECT_TRUE(streams) << message;
      }
    }
    EXPECT_GT(noticed, 0u);
  }
  SortOptions sort_options(const Format& format, uint64_t bytes) {
    write(path("in"), generate(format, Distribution::uniform, bytes));
    SortOptions options;
    options.inputs = {path("in")};
    options.output = path("out/sorted");
    options.format = format;
    options.temp_directories = {path("temporaries")};
    return options;
  }
  // The test program takes more, and less, from run to run.
  static Result<SortStats> sort(SortOptions options) {
    options.memory_bytes = budget_bytes();
    return sort_files(options);
  }
  static uint64_t files_budget_bytes() { return budget_bytes() + 8 * MiB; }
  FilesOptions files_options(const Format& format, std::vector<std::string> inputs) {
    return {
        .inputs = std::move(inputs), .format = format, .temp_directories = {path("temporaries")}};
  }
};

TEST_F(Damage, OfABucketIsNoticed) {
  for (const Format& format : {u64, Format{Type::kv64, 16}, records, lines}) {
    SCOPED_TRACE(record::name_of(format.type));
    const SortOptions options = sort_options(format, 24 * MiB);
    expect_noticed([&] { return sort(options); });
  }
}

TEST_F(Damage, OfACompressedBucketIsNoticed) {
  SortOptions options = sort_options(lines, 30 * MiB);
  options.compression = Compression::always;
  expect_noticed([&] { return sort(options); });
}

TEST_F(Damage, OfABucketOfAFrequentKeyIsNoticed) {
  SortOptions options = sort_options(records, MiB);
  write(path("in"), generate(records, Distribution::zipf, 30 * MiB));
  expect_noticed([&] { return sort(options); });
}

TEST_F(Damage, OfLongRunsIsNoticed) {
  for (const Format& format : {u64, lines}) {
    SCOPED_TRACE(record::name_of(format.type));
    SortOptions options = sort_options(format, 40 * MiB);
    options.device =
        std::make_shared<const bowtie::DeviceProfile>(*bowtie::find_profile("hard-disk"));
    expect_noticed([&] {
      auto stats = sort(options);
      EXPECT_TRUE(!stats || stats->predicted.long_runs);
      return stats;
    });
  }
}

TEST_F(Damage, OfWhatMayBeAmongTheFirstIsNoticed) {
  SortOptions options = sort_options(records, 60 * MiB);
  options.top = 400'000;
  expect_noticed([&] { return sort(options); });
}

TEST_F(Damage, BetweenThePassesOfAMergeIsNoticed) {
  std::vector<std::string> inputs;
  for (int i = 0; i < 1500; ++i) {
    inputs.push_back(path("in" + std::to_string(i)));
    write(inputs.back(), std::to_string(100'000 + i * 7919 % 100'000) + "\nz\n");
  }
  MergeFilesOptions options{.files = files_options(lines, inputs), .output = path("out/merged")};
  expect_noticed(
      [&] {
        options.files.memory_bytes = files_budget_bytes();
        auto done = merge_files(options);
        EXPECT_TRUE(!done || done->passes > 1);
        return done;
      },
      true);
}

TEST_F(Damage, BetweenThePassesOfAPartitionIsNoticed) {
  write(path("in"), generate(lines, Distribution::uniform, 2 * MiB));
  PartitionFilesOptions options{.files = files_options(lines, {path("in")}),
                                .output_pattern = path("out/part-{}"),
                                .by = PartitionBy::hash,
                                .parts = 300};
  expect_noticed(
      [&] {
        options.files.memory_bytes = files_budget_bytes();
        auto done = partition_files(options);
        EXPECT_TRUE(!done || done->stats.passes > 1);
        return done;
      },
      true);
}

TEST_F(Damage, OfGroupsIsNoticed) {
  const Format pairs = {Type::kv64, 16};
  write(path("in"), generate(pairs, Distribution::uniform, 30 * MiB));
  GroupFilesOptions options{.files = files_options(pairs, {path("in")}),
                            .output = path("out/groups"),
                            .aggregates = {.count = true},
                            .sorted = true};
  expect_noticed(
      [&] {
        options.files.memory_bytes = files_budget_bytes();
        return group_files(options);
      },
      true);
}

}  // namespace
}  // namespace penstock::external
