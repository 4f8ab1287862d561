// Test labels: ci, no-sanitizer (whole sorts, again and again with another fault, take minutes
// under one)

// A bit that flips in a temporary, on the disk or on the way: the run ends with an error that says
// so, or its output is right all the same (the bit was in a sample). The output is never wrong.
//
// A bit that flips in memory, in a bucket that is not yet sorted, is noticed likewise.

#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <memory>

#include "base/trials.h"
#include "files/bowtie/device_profile.h"
#include "files/ops/group/group_files.h"
#include "files/ops/merge/merge_files.h"
#include "files/ops/partition/partition_files.h"
#include "files/sort/external_sort.h"
#include "files/sort/sort_fixture.h"
#include "io/engine.h"
#include "os/sanitizer.h"
#include "test/support/injection.h"

namespace penstock::external {
namespace {

class Damage : public SortFixture {
 protected:
  void SetUp() override {
    SortFixture::SetUp();
    std::filesystem::create_directories(directory_ / "out");
  }

  // Names and contents of all files in the folder for outputs.
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

  // Distance from one fault to the next.
  static uint64_t step() { return 12 / trials(4); }
  static uint64_t buckets_step() { return 8 / trials(4); }
  // Damages one read after the other, until the run makes fewer reads. `streams`: the run uses the
  // start of a block before its end is read, and may fail before its check does.
  template <class Run>
  void expect_noticed(Run run, bool streams = false) {
    auto first = run();
    ASSERT_TRUE(first) << first.error().message();
    const std::string wanted = outputs();
    uint64_t noticed = 0;
    uint64_t untouched = 0;
    for (uint64_t flip = 1; untouched < 2; flip = step() * flip + 1) {
      SCOPED_TRACE(flip);
      clear();
      io::inject({.seed = flip, .flip = flip});
      auto result = run();
      io::inject({});
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
  // Damages one bucket after the other, until there are no more. `by_others`: an item may become
  // invalid, which is reported before the sums are compared.
  template <class Run>
  void expect_memory_noticed(Run run, bool by_others = false) {
    auto first = run();
    ASSERT_TRUE(first) << first.error().message();
    const std::string wanted = outputs();
    uint64_t noticed = 0;
    for (uint64_t forget = 1;; forget = buckets_step() * forget + 1) {
      SCOPED_TRACE(forget);
      clear();
      io::inject({.seed = forget, .forget = forget});
      auto result = run();
      io::inject({});
      if (result) {
        ASSERT_TRUE(outputs() == wanted) << "a wrong output";
        break;
      }
      EXPECT_EQ(outputs(), "");
      EXPECT_EQ(result.error().code, ErrorCode::corrupt);
      const std::string message = result.error().message();
      const bool by_sum = message.find("trust the sorted items") != std::string::npos;
      EXPECT_TRUE(by_sum || by_others) << message;
      EXPECT_TRUE(!by_sum || message.find("the memory") != std::string::npos) << message;
      ++noticed;
    }
    EXPECT_GT(noticed, 0u);
  }
  SortOptions sort_options(const Format& format, uint64_t bytes) {
    write(path("in"), generate(format, Distribution::uniform, bytes));
    SortOptions options = SortFixture::options(format);
    options.output = path("out/sorted");
    return options;
  }
  // The test program's own memory differs from run to run.
  static Result<SortStats> sort(SortOptions options) {
    options.memory_bytes = budget_bytes();
    return sort_files(options);
  }
  static uint64_t files_budget_bytes() { return budget_bytes() + 8 * MiB; }
  files::FilesOptions files_options(const Format& format, std::vector<std::string> inputs,
                                    const std::string& output) {
    return {{.inputs = std::move(inputs),
             .output = path(output),
             .temp_directories = {path("temporaries")}},
            format};
  }
};

TEST_F(Damage, InABucketIsNoticed) {
  for (const Format& format : {u64, Format{Type::kv64, 16}, records, lines}) {
    SCOPED_TRACE(items::name_of(format.type));
    const SortOptions options = sort_options(format, 24 * MiB);
    expect_noticed([&] { return sort(options); });
  }
}

TEST_F(Damage, InACompressedBucketIsNoticed) {
  for (const Format& format : {lines, u64, Format{Type::kv64, 16}}) {
    SCOPED_TRACE(items::name_of(format.type));
    SortOptions options = sort_options(format, 30 * MiB);
    options.compression = Compression::always;
    expect_noticed([&] { return sort(options); });
  }
}

TEST_F(Damage, InABucketOfAFrequentKeyIsNoticed) {
  SortOptions options = sort_options(records, MiB);
  write(path("in"), generate(records, Distribution::zipf, 30 * MiB));
  expect_noticed([&] { return sort(options); });
}

TEST_F(Damage, InLongRunsIsNoticed) {
  for (const Format& format : {u64, lines}) {
    SCOPED_TRACE(items::name_of(format.type));
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

TEST_F(Damage, InCandidatesForTheFirstItemsIsNoticed) {
  SortOptions options = sort_options(records, 60 * MiB);
  options.top = 400'000;
  expect_noticed([&] { return sort(options); });
}

// Outputs of sorts in memory, by buckets, in long runs, of first items, sorted data, few keys.
TEST_F(Damage, InAVerifiedOutputIsNoticed) {
  for (const Format& format : {u64, records, lines}) {
    SCOPED_TRACE(items::name_of(format.type));
    SortOptions options = sort_options(format, 4 * MiB);
    options.verify = true;
    options.unique = format.type == Type::lines;
    expect_noticed([&] { return sort(options); });
  }
}

TEST_F(Damage, VerifiedSortsOfAllWaysSeeNoDamage) {
  for (const Format& format : {u64, records, lines}) {
    SCOPED_TRACE(items::name_of(format.type));
    for (const Distribution distribution : {Distribution::uniform, Distribution::zipf}) {
      SortOptions options = sort_options(format, MiB);
      write(path("in"), generate(format, distribution, 24 * MiB));
      options.verify = true;
      for (const bool unique : {false, true}) {
        options.unique = unique;
        auto sorted = sort(options);
        ASSERT_TRUE(sorted) << sorted.error().message();
      }
      SortOptions again = options;  // in order already, and a merge of stretches
      again.inputs = {path("out/sorted"), path("out/sorted")};
      again.output = path("out/twice");
      auto twice = sort(again);
      ASSERT_TRUE(twice) << twice.error().message();
      options.unique = false;
      for (const uint64_t top : {uint64_t{0}, uint64_t{10}, uint64_t{100'000}}) {
        options.top = top;
        auto first = sort(options);
        ASSERT_TRUE(first) << top << ' ' << first.error().message();
      }
      options.top.reset();
      options.device =
          std::make_shared<const bowtie::DeviceProfile>(*bowtie::find_profile("hard-disk"));
      auto on_runs = sort(options);
      ASSERT_TRUE(on_runs) << on_runs.error().message();
    }
  }
}

TEST_F(Damage, AVerifiedSortOfRowsWithAHeaderSeesNoDamage) {
  std::string text = "id,\"name\nand more\"\n";
  for (int i = 0; i < 200'000; ++i)
    text += std::to_string(i * 7919 % 200'003) + ",\"a\n\"\"b\"\"\"\n";
  write(path("in"), text);
  SortOptions options = SortFixture::options(lines);
  options.format.csv = ',';
  options.format.header_lines = 1;
  options.output = path("out/sorted");
  options.verify = true;
  options.threads = 8;
  auto sorted = sort(options);
  ASSERT_TRUE(sorted) << sorted.error().message();
  EXPECT_EQ(sorted->items, 200'000u);
  EXPECT_EQ(sorted->phases.back().name, "verify");
  EXPECT_LE(sorted->phases.back().bytes_written, 0u);
}

TEST_F(Damage, AVerifiedSortCanBeCancelled) {
  SortOptions options = sort_options(u64, 16 * MiB);
  std::atomic<bool> cancel{false};
  options.verify = true;
  options.cancel = &cancel;
  options.progress = [&](const FilesProgress& now) {
    if (std::string_view(now.phase) == "verify") cancel = true;
  };
  // Progress is reported some ten times a second.
  io::inject({.delay = 1, .delay_us_max = 200'000});
  auto sorted = sort(options);
  io::inject({});
  ASSERT_FALSE(sorted);
  EXPECT_EQ(sorted.error().code, ErrorCode::interrupted);
  EXPECT_EQ(outputs(), "");
}

TEST_F(Damage, AnOutputThatCannotBeReadBackIsNotVerified) {
  SortOptions options = sort_options(u64, MiB);
  options.verify = true;
  for (const auto& change : std::vector<std::function<void(SortOptions&)>>{
           [](SortOptions& o) { o.output = "/dev/null"; }, [](SortOptions& o) { o.output = "-"; },
           [](SortOptions& o) { o.compressed = CompressedFormat::gzip; },
           [](SortOptions& o) { o.merge_only = true; }, [](SortOptions& o) { o.resume = true; }}) {
    SortOptions changed = options;
    change(changed);
    const auto refused = sort(changed);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::unsupported) << refused.error().message();
  }
}

TEST_F(Damage, InMemoryIsNoticedInEveryFormat) {
  for (const Format& format : {u64, Format{Type::u32, 4, 0, 4}, Format{Type::f64, 8},
                               Format{Type::kv64, 16}, records, lines}) {
    SCOPED_TRACE(items::name_of(format.type));
    for (const uint64_t bytes : {4 * MiB, 24 * MiB}) {
      SortOptions options = sort_options(format, bytes);
      options.descending = bytes == 4 * MiB;
      expect_memory_noticed([&] { return sort(options); }, format.type == Type::lines);
    }
  }
}

TEST_F(Damage, InMemoryIsNoticedWhenRepeatsAreDropped) {
  for (const Format& format : {u64, Format{Type::kv64, 16}, records, lines}) {
    SCOPED_TRACE(items::name_of(format.type));
    SortOptions options = sort_options(format, MiB);
    write(path("in"), generate(format, Distribution::zipf, 24 * MiB));
    options.unique = true;
    expect_memory_noticed([&] { return sort(options); }, format.type == Type::lines);
  }
}

// Most of the input is one key: its bucket is not sorted, and larger than memory. A piece of the
// bucket ends within an item.
TEST_F(Damage, InMemoryIsNoticedInABucketOfAFrequentKey) {
  if (os::shadowed) GTEST_SKIP() << "the sanitizer takes more memory from run to run";
  for (const Format& format : {Format{Type::kv64, 16}, records, lines}) {
    SCOPED_TRACE(items::name_of(format.type));
    for (const bool unique : {false, true}) {
      SortOptions options = sort_options(format, MiB);
      const std::string others = generate(format, Distribution::uniform, 4 * MiB);
      std::string frequent(format.fixed() ? format.record_bytes : 101, '7');
      if (!format.fixed()) frequent.back() = '\n';
      std::string all;
      while (all.size() < 40 * MiB) {
        if (format.fixed() && all.size() % 3 == 0) frequent.back() ^= 1;  // behind the key
        all += frequent;
      }
      write(path("in"), all + others);
      options.unique = unique;
      expect_memory_noticed([&] { return sort(options); }, !format.fixed());
    }
  }
}

TEST_F(Damage, InMemoryIsNoticedInLongRunsAndFirstItems) {
  for (const Format& format : {u64, records}) {
    SCOPED_TRACE(items::name_of(format.type));
    SortOptions options = sort_options(format, 40 * MiB);
    options.device =
        std::make_shared<const bowtie::DeviceProfile>(*bowtie::find_profile("hard-disk"));
    expect_memory_noticed([&] {
      auto stats = sort(options);
      EXPECT_TRUE(!stats || stats->predicted.long_runs);
      return stats;
    });
  }
  SortOptions options = sort_options(records, 60 * MiB);
  options.top = 400'000;
  expect_memory_noticed([&] { return sort(options); });
}

// A run that is cut off, at one place after the other, and the run that resumes it: the bit flips
// in the first one, whose sums are in the journal, or in the second. When the sums differ, the
// state is not used again.
TEST_F(Damage, InMemoryIsNoticedByAResumedRun) {
  uint64_t went_on = 0;          // runs after one or more buckets were done
  uint64_t noticed[2] = {0, 0};  // by the second run: its own faults, and the first run's
  struct Case {
    Format format;
    Distribution distribution;
    bool unique;
  };
  for (const auto& [format, distribution, unique] :
       {Case{u64, Distribution::zipf, false},
        Case{Format{Type::kv64, 16}, Distribution::uniform, true},
        Case{records, Distribution::zipf, true}, Case{lines, Distribution::uniform, false}}) {
    SCOPED_TRACE(items::name_of(format.type));
    SortOptions options = sort_options(format, MiB);
    write(path("in"), generate(format, distribution, 24 * MiB));
    options.unique = unique;
    options.resume = true;
    auto whole = sort(options);
    ASSERT_TRUE(whole) << whole.error().message();
    const std::string wanted = outputs();
    options.notice = [&](const std::string& notice) {
      went_on += notice.starts_with("resuming: ") && !notice.starts_with("resuming: 0 of");
    };
    for (const bool in_the_first : {true, false}) {
      SCOPED_TRACE(in_the_first);
      const io::Injection forget = {.seed = 5, .forget = 1};
      for (uint64_t syncs = 1;; syncs += 20 / trials(4)) {
        SCOPED_TRACE(syncs);
        clear();
        io::Injection cut_off = in_the_first ? forget : io::Injection{};
        cut_off.error = EIO;
        cut_off.error_after = syncs;
        cut_off.error_operation = io::Operation::sync;
        io::inject(cut_off);
        auto first = sort(options);
        io::inject({});
        if (first) break;
        if (first.error().message().find("trust the sorted items") != std::string::npos) break;
        ASSERT_EQ(first.error().code, ErrorCode::io) << first.error().message();
        if (!std::filesystem::exists(resume_folder(options))) continue;
        if (!in_the_first) io::inject(forget);
        auto second = sort(options);
        io::inject({});
        // The changed bucket was not recorded, or no bucket was left to be changed.
        if (second) {
          ASSERT_TRUE(outputs() == wanted) << "a wrong output";
          continue;
        }
        ++noticed[in_the_first];
        EXPECT_EQ(second.error().code, ErrorCode::corrupt);
        EXPECT_NE(second.error().message().find("trust the sorted items"), std::string::npos)
            << second.error().message();
        EXPECT_EQ(outputs(), "");
        EXPECT_FALSE(std::filesystem::exists(resume_folder(options)));
      }
    }
  }
  EXPECT_GT(noticed[false], 0u);
  EXPECT_GT(noticed[true], 0u);
  EXPECT_GT(went_on, 0u);
}

TEST_F(Damage, BetweenThePassesOfAMergeIsNoticed) {
  std::vector<std::string> inputs;
  for (int i = 0; i < 1500; ++i) {
    inputs.push_back(path("in" + std::to_string(i)));
    write(inputs.back(), std::to_string(100'000 + i * 7919 % 100'000) + "\nz\n");
  }
  files::MergeFilesOptions options{files_options(lines, inputs, "out/merged")};
  expect_noticed(
      [&] {
        options.memory_bytes = files_budget_bytes();
        auto done = merge_files(options);
        EXPECT_TRUE(!done || done->passes > 1);
        return done;
      },
      true);
}

TEST_F(Damage, BetweenThePassesOfAPartitionIsNoticed) {
  write(path("in"), generate(lines, Distribution::uniform, 2 * MiB));
  files::PartitionFilesOptions options{.files = files_options(lines, {path("in")}, "out/part-{}"),
                                       .by = files::PartitionBy::hash,
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

TEST_F(Damage, InGroupsIsNoticed) {
  const Format pairs = {Type::kv64, 16};
  write(path("in"), generate(pairs, Distribution::uniform, 30 * MiB));
  files::GroupFilesOptions options{.files = files_options(pairs, {path("in")}, "out/groups"),
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
