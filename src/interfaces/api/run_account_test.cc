// Figures of simultaneous runs in one process (base/run_scope.h) equal those of each run alone.

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <barrier>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <thread>

#include "base/random.h"
#include "base/temporary_folder_fixture.h"
#include "penstock/files.h"

namespace penstock {
namespace {

constexpr uint64_t small_bytes = 1 * MiB;
constexpr uint64_t large_bytes = 64 * MiB;  // twice the budget

struct Figures {
  uint64_t bytes_read = 0;
  uint64_t bytes_written = 0;
  uint64_t seeks = 0;
  std::vector<SortPhase> phases = {};

  explicit Figures(const RunStats& stats)
      : bytes_read(stats.bytes_read), bytes_written(stats.bytes_written), seeks(stats.seeks) {}
  explicit Figures(const SortStats& stats) : Figures(static_cast<const RunStats&>(stats)) {
    phases = stats.phases;
  }
  explicit Figures(const PartitionFilesResult& result) : Figures(result.stats) {}
};

// Requests of a run's threads may change places: the seeks of a phase vary by `seeks_apart`.
void expect_equal(const Figures& got, const Figures& expected, uint64_t seeks_apart) {
  EXPECT_EQ(got.bytes_read, expected.bytes_read);
  EXPECT_EQ(got.bytes_written, expected.bytes_written);
  ASSERT_EQ(got.phases.size(), expected.phases.size());
  const auto expect_near = [&](uint64_t one, uint64_t other) {
    EXPECT_LE(std::max(one, other) - std::min(one, other), seeks_apart) << one << ", " << other;
  };
  if (got.phases.empty()) expect_near(got.seeks, expected.seeks);
  for (size_t i = 0; i < got.phases.size(); ++i) {
    const SortPhase& phase = got.phases[i];
    SCOPED_TRACE(phase.name);
    EXPECT_EQ(phase.name, expected.phases[i].name);
    EXPECT_EQ(phase.bytes_read, expected.phases[i].bytes_read);
    EXPECT_EQ(phase.bytes_written, expected.phases[i].bytes_written);
    expect_near(phase.seeks, expected.phases[i].seeks);
  }
}

class FiguresOfARun : public testing::Test {
 protected:
  void SetUp() override {
    write_numbers("small", small_bytes);
    write_numbers("large", large_bytes);
    write_lines("lines", small_bytes);
    for (const char* name : {"small", "lines"}) {
      FilesOptions given = options(std::string("sorted-") + name, name);
      given.inputs = {path(name)};
      ASSERT_TRUE(sort_files(given));
    }
  }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  void write_numbers(const std::string& name, uint64_t bytes) const {
    std::ofstream file(path(name), std::ios::binary);
    Random random(bytes);
    for (uint64_t i = 0; i < bytes / 8; ++i) {
      const uint64_t number = random.next();
      file.write(reinterpret_cast<const char*>(&number), sizeof number);
    }
  }
  void write_lines(const std::string& name, uint64_t bytes) const {
    std::ofstream file(path(name), std::ios::binary);
    Random random(bytes);
    while (static_cast<uint64_t>(file.tellp()) < bytes)
      file << random.below(100'000) << ',' << random.next() << '\n';
  }
  // `items` names an input. The disk has a given profile, so that no run measures it.
  FilesOptions options(const std::string& output, const std::string& items) const {
    return {.output = path(output),
            .items = {.name = items.ends_with("lines") ? "lines" : "u64"},
            .memory_bytes = 32 * MiB,
            .temp_directories = {folder_.string()},
            .device = std::make_shared<DeviceProfile>(published_profiles().back()),
            .output_rules = {.sync = false}};
  }

  const TemporaryFolder vanishing_;
  const std::filesystem::path folder_ = vanishing_.path();
};

// A source with the file's bytes. Its first read calls `meanwhile` before, which may be a run.
std::shared_ptr<Source> file_source(const std::string& path, std::function<void()> meanwhile) {
  auto file = std::make_shared<std::ifstream>(path, std::ios::binary);
  return callback_source([file, meanwhile = std::move(meanwhile)](
                             std::span<std::byte> into) mutable -> Result<size_t> {
    if (auto once = std::exchange(meanwhile, nullptr)) once();
    file->read(reinterpret_cast<char*>(into.data()), static_cast<std::streamsize>(into.size()));
    return static_cast<size_t>(file->gcount());
  });
}

// One run within another, whose source starts it: the result does not depend on timing.
TEST_F(FiguresOfARun, AreThoseOfTheRunAloneWhileItsSourceMakesAnother) {
  struct Case {
    const char* name;
    std::vector<std::string> inputs;
    std::function<Result<Figures>(const FilesOptions&)> run;
  };
  const auto figures = [](const auto& done) -> Result<Figures> {
    if (!done) return std::unexpected(done.error());
    return Figures(*done);
  };
  const Case cases[] = {
      {"sort", {"small"}, [&](const FilesOptions& all) { return figures(sort_files(all)); }},
      {"sort of lines",
       {"lines"},
       [&](const FilesOptions& all) { return figures(sort_files(all)); }},
      {"first items",
       {"small"},
       [&](const FilesOptions& all) { return figures(top_items(all, 9)); }},
      {"sort -m",
       {"sorted-small", "sorted-small"},
       [&](const FilesOptions& all) { return figures(sort_files(all, {.merge_only = true})); }},
      {"merge",
       {"sorted-small", "sorted-small"},
       [&](const FilesOptions& all) { return figures(merge_files(all)); }},
      {"partition",
       {"small"},
       [&](FilesOptions all) {
         all.output = path("part-{}");
         return figures(partition_files(all, {.parts = 3}));
       }},
      {"group",
       {"small"},
       [&](const FilesOptions& all) {
         return figures(group_files(all, {.aggregates = {.count = true}}));
       }},
      {"group of lines",
       {"lines"},
       [&](FilesOptions all) {
         all.items.keys = {"1,1"};
         all.items.separator = ',';
         return figures(group_files(all, {.aggregates = {.count = true}}));
       }},
      {"join",
       {"sorted-small", "sorted-small"},
       [&](const FilesOptions& all) { return figures(join_files(all)); }},
      {"join of lines",
       {"lines", "sorted-lines"},
       [&](FilesOptions all) {
         all.items.separator = ',';
         return figures(join_lines(all));
       }},
  };
  constexpr uint64_t seeks_apart = 8;
  std::optional<Figures> first;  // figures of the other run
  const auto other = [&] {
    FilesOptions all = options("other-{}", "small");
    all.inputs = {path("small")};
    const auto done = partition_files(all, {.parts = 30});
    ASSERT_TRUE(done) << done.error().message();
    expect_equal(Figures(*done), first.value_or(Figures(*done)), seeks_apart);
    if (!first) first = Figures(*done);
  };
  other();
  ASSERT_TRUE(first);
  ASSERT_GT(first->seeks, 2 * seeks_apart);
  for (const Case& each : cases) {
    SCOPED_TRACE(each.name);
    const auto run = [&](const std::function<void()>& meanwhile) {
      FilesOptions all = options("out", each.inputs.front());
      for (const std::string& input : each.inputs)
        all.sources.push_back(file_source(path(input), meanwhile));
      all.progress = [](const FilesProgress& now) {
        if (now.total_bytes > 0) {
          EXPECT_LE(now.done_bytes, now.total_bytes);
        }
      };
      return each.run(all);
    };
    const auto alone = run(nullptr);
    ASSERT_TRUE(alone) << alone.error().message();
    const auto beside = run(other);
    ASSERT_TRUE(beside) << beside.error().message();
    EXPECT_GT(alone->bytes_read, 0u) << "bytes of sources count";
    expect_equal(*beside, *alone, seeks_apart);
  }
}

// Two sorts larger than their budget and a merge, each in a thread.
TEST_F(FiguresOfARun, AreThoseOfTheRunAloneBesideOthersInThreads) {
  using Progress = std::pair<uint64_t, uint64_t>;  // largest `done` and the last total
  const auto run = [&](size_t i, Progress& most) -> Result<Figures> {
    FilesOptions all = options("out-" + std::to_string(i), "small");
    all.progress = [&](const FilesProgress& now) { most = {now.done_bytes, now.total_bytes}; };
    if (i == 2) {
      all.inputs = {path("sorted-small"), path("sorted-small")};
      auto done = merge_files(all);
      if (!done) return std::unexpected(done.error());
      return Figures(*done);
    }
    all.inputs = {path("large")};
    auto done = sort_files(all);
    if (!done) return std::unexpected(done.error());
    EXPECT_EQ(done->method, SortMethod::distribute);
    return Figures(*done);
  };
  Progress most;
  const auto sort_alone = run(0, most);
  const auto merge_alone = run(2, most);
  ASSERT_TRUE(sort_alone && merge_alone);
  std::array<Result<Figures>, 3> done = {std::unexpected(Error{}), std::unexpected(Error{}),
                                         std::unexpected(Error{})};
  std::array<Progress, 3> progress = {};
  {
    std::barrier together(3);
    std::vector<std::jthread> threads;
    for (size_t i = 0; i < done.size(); ++i) {
      threads.emplace_back([&, i] {
        together.arrive_and_wait();
        done[i] = run(i, progress[i]);
      });
    }
  }
  for (size_t i = 0; i < done.size(); ++i) {
    SCOPED_TRACE(i);
    ASSERT_TRUE(done[i]) << done[i].error().message();
    expect_equal(*done[i], i == 2 ? *merge_alone : *sort_alone, sort_alone->seeks / 8);
    EXPECT_LE(progress[i].first, done[i]->bytes_read + done[i]->bytes_written);
    if (progress[i].second > 0) {
      EXPECT_LE(progress[i].first, progress[i].second);
    }
  }
}

}  // namespace
}  // namespace penstock
