// Test labels: ci, no-sanitizer (a sanitizer's memory would count as the program's)

// Compares the account of a call (base/run_scope.h) with the resident memory of the process.
//
// Each operation runs on inputs several times as large as its budget, in a process that holds
// memory of its own. Its account has to stay within the budget, and the growth of the process, as
// the kernel counts it, within the account. If a memory cgroup can be made, a child in it is tested
// the same way, with the kernel's own memory included.

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <thread>

#include "base/random.h"
#include "base/temporary_folder_fixture.h"
#include "files/source/fixture.h"
#include "io/file.h"
#include "os/memory.h"
#include "os/memory_group.h"
#include "os/sanitizer.h"
#include "penstock/files.h"

namespace penstock {
namespace {

constexpr uint64_t budget_bytes = 32 * MiB;
constexpr uint64_t input_bytes = 72 * MiB;
// Pages of code that a run touches first, pages that other parts of the process touch meanwhile,
// and the kernel's delay: each thread's last 64 pages are counted only now and then.
constexpr uint64_t tolerance_bytes = 4 * MiB;

// The growth of the process while work() ran; nullopt if the system does not report it.
template <class Work>
std::optional<uint64_t> growth_of(const Work& work) {
  if (os::shadowed || !os::reset_peak_resident_memory()) {
    work();
    return std::nullopt;
  }
  const uint64_t before = os::resident_memory().bytes;
  work();
  const uint64_t peak = os::resident_memory().peak_bytes;
  return peak > before ? peak - before : 0;
}

const RunStats& stats_of(const PartitionFilesResult& done) {
  return done.stats;
}
template <class Stats>
const Stats& stats_of(const Stats& stats) {
  return stats;
}

class MemoryOfACall : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder_ / "temporaries"); }
  void TearDown() override {
    EXPECT_TRUE(std::filesystem::is_empty(folder_ / "temporaries")) << "temporaries were left";
  }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  // Writes at least `bytes` bytes of lines made by make(random).
  template <class Make>
  void write(const std::string& name, uint64_t bytes, const Make& make) const {
    std::ofstream file(path(name), std::ios::binary);
    Random random(bytes);
    for (uint64_t done = 0; done < bytes;) {
      const std::string item = make(random);
      file.write(item.data(), static_cast<std::streamsize>(item.size()));
      done += item.size();
    }
  }
  void write_numbers(const std::string& name, uint64_t bytes) const {
    write(name, bytes, [](Random& random) {
      std::string some(64 * KiB, '\0');
      for (size_t i = 0; i < some.size(); i += 8) {
        const uint64_t number = random.next();
        std::memcpy(some.data() + i, &number, 8);
      }
      return some;
    });
  }
  void write_lines(const std::string& name, uint64_t bytes) const {
    write(name, bytes, [](Random& random) {
      return std::to_string(random.next()) + "," + std::to_string(random.below(5000)) + "," +
             std::string(random.below(40), 'x') + "\n";
    });
  }
  FilesOptions options(std::vector<std::string> inputs, ItemFormat items) const {
    for (std::string& input : inputs) input = path(input);
    return {.inputs = std::move(inputs),
            .output = path("out"),
            .items = std::move(items),
            .memory_bytes = budget_bytes,
            .temp_directories = {path("temporaries")},
            .output_rules = {.sync = false}};
  }

  // `operation` returns a result with stats.
  template <class Operation>
  void expect_kept(const char* what, const Operation& operation) const {
    SCOPED_TRACE(what);
    decltype(operation()) done;
    auto growth = growth_of([&] { done = operation(); });
    auto is_little = [&] { return done && growth && *growth < stats_of(*done).peak_bytes / 4; };
    // A reader that gets no processor has few blocks at a time: then the operation is repeated.
    for (int again = 0; again < 3 && is_little(); ++again)
      growth = growth_of([&] { done = operation(); });
    ASSERT_TRUE(done) << done.error().message();
    const auto& stats = stats_of(*done);
    EXPECT_EQ(stats.memory_scope, MemoryScope::call);
    EXPECT_LE(stats.peak_bytes, budget_bytes);
    if (!growth) return;
    std::printf("%-20s account %5.1f MiB, growth %5.1f, %.1f s\n", what,
                static_cast<double>(stats.peak_bytes) / MiB, static_cast<double>(*growth) / MiB,
                stats.seconds);
    EXPECT_LE(*growth, stats.peak_bytes + tolerance_bytes);
    EXPECT_GE(*growth, stats.peak_bytes / 4) << "what is measured is the call";
  }

  const TemporaryFolder vanishing_;
  const std::filesystem::path folder_ = vanishing_.path();
};

// Inputs are larger than the budget, in every format; the sorts take every path.
TEST_F(MemoryOfACall, SortIsWithinItsAccount) {
  write_numbers("numbers", input_bytes);
  write_lines("lines", input_bytes);
  expect_kept("numbers", [&] { return sort_files(options({"numbers"}, {.name = "u64"})); });
  expect_kept("pairs",
              [&] { return sort_files(options({"numbers"}, {.name = "kv64"}), {.stable = true}); });
  expect_kept("records", [&] {
    return sort_files(options({"numbers"}, {.name = "record", .record_bytes = 64}));
  });
  expect_kept("first numbers",
              [&] { return top_items(options({"numbers"}, {.name = "u64"}), 1'000'000); });
  expect_kept("lines", [&] { return sort_files(options({"lines"}, {})); });
  expect_kept("lines by a number",
              [&] { return sort_files(options({"lines"}, {.keys = {"2,2n"}, .separator = ','})); });
  expect_kept("rows",
              [&] { return sort_files(options({"lines"}, {.keys = {"2:n"}, .csv = true})); });
  expect_kept("first lines", [&] { return top_items(options({"lines"}, {}), 50'000); });
  expect_kept("a source to a sink", [&] {
    FilesOptions given = options({}, {.name = "u64"});
    auto file = std::make_shared<std::ifstream>(path("numbers"), std::ios::binary);
    given.sources = {callback_source([file](std::span<std::byte> into) -> Result<size_t> {
      file->read(reinterpret_cast<char*>(into.data()), static_cast<std::streamsize>(into.size()));
      return static_cast<size_t>(file->gcount());
    })};
    given.sink = callback_sink([](std::span<const std::byte>) -> Status { return {}; });
    return sort_files(given);
  });
}

TEST_F(MemoryOfACall, CompressedInputsAreWithinTheAccount) {
  std::string text = source::random_text(4 * MiB, 1);
  for (size_t i = 60; i < text.size(); i += 61) text[i] = '\n';
  const char* names[] = {"gz", "zst", "lz4", "xz", "lz", "bz2"};
  for (size_t i = 0; i < std::size(names); ++i) {
    const std::string frame = source::all_formats[i](text);
    std::ofstream file(path(names[i]), std::ios::binary);
    for (int copies = 0; copies < 4; ++copies) file << frame;
    file << source::all_formats[i]("the end\n");
  }
  expect_kept("compressed lines",
              [&] { return sort_files(options({"gz", "zst", "lz4", "xz", "lz", "bz2"}, {})); });
}

TEST_F(MemoryOfACall, OtherOperationsAreWithinTheirAccounts) {
  write_numbers("numbers", 48 * MiB);
  write_numbers("fewer", 16 * MiB);  // all different: more groups than the memory holds
  write_lines("lines", 24 * MiB);
  for (const char* name : {"numbers", "lines"}) {
    FilesOptions given = options({name}, {.name = name == std::string("lines") ? "lines" : "u64"});
    given.output = path(std::string("sorted-") + name);
    ASSERT_TRUE(sort_files(given));
  }
  const std::vector<std::string> two_numbers = {"sorted-numbers", "sorted-numbers"};
  const std::vector<std::string> two_lines = {"sorted-lines", "sorted-lines"};
  expect_kept("merge of numbers",
              [&] { return merge_files(options(two_numbers, {.name = "u64"})); });
  expect_kept("merge of lines", [&] { return merge_files(options(two_lines, {})); });
  expect_kept("check of numbers",
              [&] { return check_file(options({"sorted-numbers"}, {.name = "u64"})); });
  expect_kept("partition", [&] {
    FilesOptions parts = options({"numbers"}, {.name = "u64"});
    parts.output = path("part-{}");
    return partition_files(parts, {.parts = 7});
  });
  expect_kept("group of numbers", [&] {
    return group_files(options({"fewer"}, {.name = "u64"}), {.aggregates = {.count = true}});
  });
  expect_kept("group of lines",
              [&] { return group_files(options({"lines"}, {}), {.aggregates = {.count = true}}); });
  expect_kept("group of rows", [&] {
    return group_files(options({"lines"}, {.keys = {"2"}, .csv = true}),
                       {.aggregates = {.count = true}});
  });
  expect_kept("highest counts", [&] {
    return group_files(options({"lines"}, {}), {.aggregates = {.count = true}, .top = 1000});
  });
  expect_kept("join of numbers", [&] { return join_files(options(two_numbers, {.name = "u64"})); });
  expect_kept("join of lines",
              [&] { return join_lines(options({"lines", "lines"}, {.separator = ','}), {}); });
}

// The test has to fail for a run that keeps 16 MiB which are not charged.
TEST_F(MemoryOfACall, UnchargedMemoryIsDetected) {
  write_numbers("numbers", 2 * budget_bytes);
  FilesOptions given = options({"numbers"}, {.name = "u64"});
  std::unique_ptr<char[]> not_charged;
  given.progress = [&](const FilesProgress&) {
    if (not_charged != nullptr) return;
    not_charged.reset(new char[16 * MiB]);
    std::memset(not_charged.get(), 1, 16 * MiB);
  };
  Result<SortStats> done;
  const auto growth = growth_of([&] { done = sort_files(given); });
  ASSERT_TRUE(done) << done.error().message();
  if (!growth) GTEST_SKIP() << "the system does not tell the peak of a part of a run";
  EXPECT_GT(*growth, done->peak_bytes + tolerance_bytes);
}

// The bytes that a memory cgroup counted for a child that ran work(); work()'s result is in
// `account_bytes`. Returns nullopt if no cgroup can be made.
template <class Work>
std::optional<uint64_t> counted_of(const Work& work, uint64_t& account_bytes) {
  const auto group = os::MemoryGroup::make();
  int ends[2];
  if (!group || ::pipe(ends) != 0) return std::nullopt;
  const pid_t child = ::fork();
  if (child == 0) {
    std::ofstream(group->processes_file()) << "0";
    const uint64_t bytes = work();
    ::_exit(::write(ends[1], &bytes, sizeof bytes) == sizeof bytes ? 0 : 1);
  }
  ::close(ends[1]);
  const bool told = child > 0 && ::read(ends[0], &account_bytes, sizeof account_bytes) > 0;
  ::close(ends[0]);
  if (child > 0) ::waitpid(child, nullptr, 0);
  return told ? std::optional(group->peak_bytes()) : std::nullopt;
}

TEST_F(MemoryOfACall, EqualsTheCountOfAMemoryGroup) {
  if (os::shadowed) GTEST_SKIP() << "a sanitizer's own memory is counted as well";
  const auto trial = io::File::create_temporary(folder_.string());
  ASSERT_TRUE(trial) << trial.error().message();
  if (trial->caching() != io::Caching::direct)
    GTEST_SKIP() << "files in " << folder_ << " lie in the page cache, which the group counts";
  write_numbers("numbers", input_bytes);
  write_lines("lines", input_bytes);
  uint64_t ignored = 0;
  const auto nothing = counted_of([] { return uint64_t{1}; }, ignored);
  if (!nothing) GTEST_SKIP() << "no memory cgroup can be made here";
  constexpr uint64_t not_charged_bytes = 16 * MiB;
  struct Case {
    const char* name;
    bool lines = false;
    bool forgets = false;
  };
  for (const auto& [name, lines, forgets] :
       {Case{"numbers"}, Case{"lines", true}, Case{"and what nobody charged", false, true}}) {
    SCOPED_TRACE(name);
    uint64_t account_bytes = 0;
    const auto counted = counted_of(
        [&]() -> uint64_t {
          FilesOptions given =
              options({lines ? "lines" : "numbers"}, {.name = lines ? "lines" : "u64"});
          std::unique_ptr<char[]> not_charged;
          given.progress = [&](const FilesProgress&) {
            if (!forgets || not_charged != nullptr) return;
            not_charged.reset(new char[not_charged_bytes]);
            std::memset(not_charged.get(), 1, not_charged_bytes);
          };
          const auto done = sort_files(given);
          return done ? done->peak_bytes : 0;
        },
        account_bytes);
    ASSERT_TRUE(counted);
    ASSERT_GT(account_bytes, 0u) << "the sort failed";
    const uint64_t grown = *counted - std::min(*counted, *nothing);
    std::printf("%-20s account %5.1f MiB, memory group %5.1f\n", name,
                static_cast<double>(account_bytes) / MiB, static_cast<double>(grown) / MiB);
    EXPECT_LE(account_bytes, budget_bytes);
    EXPECT_GE(grown, account_bytes / 4);
    if (forgets) {
      EXPECT_GT(grown, account_bytes + tolerance_bytes);
    } else {
      EXPECT_LE(grown, account_bytes + tolerance_bytes);
    }
  }
}

// Two sorts at the same time, in a program that holds memory of its own.
class TwoSorts : public MemoryOfACall {
 protected:
  struct Size {
    uint64_t held_bytes;
    uint64_t budget_bytes;
    uint64_t input_bytes;
  };
  void expect_both_kept(const Size& size) const {
    const auto held = std::make_unique_for_overwrite<char[]>(size.held_bytes);
    std::memset(held.get(), 1, size.held_bytes);
    write_numbers("numbers", size.input_bytes);
    write_lines("lines", size.input_bytes);
    std::array<Result<SortStats>, 2> done;
    auto sort = [&](size_t i) {
      FilesOptions given =
          options({i == 0 ? "numbers" : "lines"}, {.name = i == 0 ? "u64" : "lines"});
      given.output = path("out-" + std::to_string(i));
      given.memory_bytes = size.budget_bytes;
      done[i] = sort_files(given);
    };
    FilesOptions process = options({"numbers"}, {.name = "u64"});
    process.memory_scope = MemoryScope::process;
    process.memory_bytes = size.budget_bytes;
    EXPECT_EQ(sort_files(process).error().code, ErrorCode::out_of_memory);
    const auto growth = growth_of([&] {
      std::jthread other([&] { sort(1); });
      sort(0);
    });
    uint64_t both_bytes = 0;
    for (const auto& one : done) {
      ASSERT_TRUE(one) << one.error().message();
      EXPECT_EQ(one->method, SortMethod::distribute);
      EXPECT_LE(one->peak_bytes, size.budget_bytes);
      both_bytes += one->peak_bytes;
    }
    if (!growth) return;
    std::printf(
        "two sorts within %zu MiB: accounts %.1f and %.1f MiB, growth of the process %.1f\n",
        static_cast<size_t>(size.budget_bytes / MiB),
        static_cast<double>(done[0]->peak_bytes) / MiB,
        static_cast<double>(done[1]->peak_bytes) / MiB, static_cast<double>(*growth) / MiB);
    EXPECT_LE(*growth, both_bytes + 2 * tolerance_bytes);
    EXPECT_GE(*growth, both_bytes / 4);
  }
};

TEST_F(TwoSorts, KeepToTheirBudgetsInAProgramThatHoldsMore) {
  expect_both_kept(
      {.held_bytes = 256 * MiB, .budget_bytes = budget_bytes, .input_bytes = 3 * budget_bytes});
}

TEST_F(TwoSorts, DISABLED_FullSize) {
  expect_both_kept({.held_bytes = 8 * GiB, .budget_bytes = 256 * MiB, .input_bytes = 768 * MiB});
}

}  // namespace
}  // namespace penstock
