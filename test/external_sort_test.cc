// Test labels: loops

// Tests of the whole external sort: every distribution of every format, on both mechanisms that
// move blocks, within a budget that makes it distribute; and failures.

#include "files/sort/external_sort.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/random.h"
#include "base/trials.h"
#include "files/sort/sort_fixture.h"
#include "generate/generator.h"
#include "items/checker.h"
#include "os/memory.h"
#include "os/sanitizer.h"
#include "test/support/injection.h"

namespace penstock::external {
namespace {

const Format formats[] = {
    {Type::u32, 4, 0, 4}, {Type::u64, 8}, {Type::i32, 4, 0, 4}, {Type::i64, 8},
    {Type::f32, 4, 0, 4}, {Type::f64, 8}, {Type::kv64, 16},     {Type::record, 100, 0, 10},
    {Type::lines, 1},
};

constexpr uint64_t input_bytes = 14 * MiB;
constexpr uint64_t too_little_bytes = 1 * MiB;

class ExternalSortTest : public SortFixture {
 protected:
  SortOptions options(const Format& format) const {
    SortOptions options = SortFixture::options(format);
    options.memory_bytes = budget_bytes();
    return options;
  }
  // The test's own memory is not the sort's. A sanitizer's memory may grow by more than the
  // least budget between this measurement and the sort's own: then the sort runs once more.
  static Result<SortStats> sort(SortOptions options) {
    for (int attempt = 0;; ++attempt) {
      options.memory_bytes = budget_bytes();
      auto stats = sort_files(options);
      if (stats || stats.error().code != ErrorCode::out_of_memory || !os::shadowed || attempt == 5)
        return stats;
    }
  }
  // Sorts `data` and checks the output.
  SortStats sort_and_check(const SortOptions& options, const std::string& data) {
    write(options.inputs[0], data);
    auto stats = sort(options);
    EXPECT_TRUE(stats) << stats.error().message();
    if (!stats) return {};
    auto expected = check(options.format, data);
    auto sorted = check(options.format, read(options.output), options.descending);
    EXPECT_TRUE(sorted.sorted());
    EXPECT_EQ(sorted.count, expected.count);
    EXPECT_EQ(sorted.checksum_hex(), expected.checksum_hex());
    EXPECT_EQ(stats->items, expected.count);
    return *stats;
  }
};

class EveryFormat : public ExternalSortTest,
                    public testing::WithParamInterface<std::tuple<size_t, pool::Mechanism>> {};

TEST_P(EveryFormat, SortsEveryDistribution) {
  auto [index, mechanism] = GetParam();
  const Format& format = formats[index];
  if (!pool::Pool::open({.block_bytes = 64 * KiB, .blocks_max = 2, .mechanism = mechanism})) {
    GTEST_SKIP() << pool::name_of(mechanism) << " is not to be had on this kernel";
  }
  size_t turn = mechanism == pool::Mechanism::mremap ? 0 : 1;
  for (Distribution distribution : generate::distributions_of(format.type)) {
    // A sanitizer makes everything several times slower: there each distribution runs on one of the
    // two mechanisms, in turn.
    if (os::shadowed && turn++ % 2 == 1) continue;
    if (!tried()) continue;
    SCOPED_TRACE(std::string(generate::name_of(distribution)));
    SortOptions chosen = options(format);
    chosen.mechanism = mechanism;
    SortStats stats = sort_and_check(chosen, generate(format, distribution, input_bytes));
    EXPECT_NE(stats.method, Method::empty);
    if (distribution == Distribution::uniform) {
      EXPECT_EQ(stats.method, Method::distribute);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Formats, EveryFormat,
    testing::Combine(testing::Range(size_t{0}, std::size(formats)),
                     testing::Values(pool::Mechanism::mremap, pool::Mechanism::uffd_move)),
    [](const auto& param) {
      return std::string(items::name_of(formats[std::get<0>(param.param)].type)) + "_" +
             pool::name_of(std::get<1>(param.param));
    });

TEST_F(ExternalSortTest, SortsDescending) {
  for (const Format& format : formats) {
    SCOPED_TRACE(std::string(items::name_of(format.type)));
    SortOptions chosen = options(format);
    chosen.descending = true;
    sort_and_check(chosen, generate(format, Distribution::uniform, input_bytes));
    sort_and_check(chosen, generate(format, Distribution::uniform, 100 * KiB));
  }
}

TEST_F(ExternalSortTest, StableSortKeepsTheOrderOfEqualKeys) {
  Random random(3);
  for (bool descending : {false, true}) {
    std::vector<std::pair<uint64_t, uint64_t>> pairs(input_bytes / 16);
    for (size_t i = 0; i < pairs.size(); ++i) pairs[i] = {random.below(5000), i};
    std::string data(reinterpret_cast<const char*>(pairs.data()), pairs.size() * 16);
    SortOptions chosen = options({Type::kv64, 16});
    chosen.stable = true;
    chosen.descending = descending;
    sort_and_check(chosen, data);
    std::stable_sort(pairs.begin(), pairs.end(), [&](const auto& a, const auto& b) {
      return descending ? a.first > b.first : a.first < b.first;
    });
    EXPECT_TRUE(read(path("out")) ==
                std::string(reinterpret_cast<const char*>(pairs.data()), pairs.size() * 16));
  }
}

TEST_F(ExternalSortTest, StableSortKeepsTheOrderOfEqualRecords) {
  Random random(4);
  Format format{Type::record, 40, 8, 12};
  std::vector<std::string> records(input_bytes / 40);
  for (size_t i = 0; i < records.size(); ++i) {
    records[i] = std::string(40, 'x');
    std::memcpy(records[i].data(), &i, 8);
    uint64_t key = random.below(3000);
    std::memcpy(records[i].data() + 8, "same beg", 8);
    std::memcpy(records[i].data() + 16, &key, 4);
  }
  std::string data;
  for (const auto& text : records) data += text;
  SortOptions chosen = options(format);
  chosen.stable = true;
  sort_and_check(chosen, data);
  std::stable_sort(records.begin(), records.end(), [](const std::string& a, const std::string& b) {
    return std::memcmp(a.data() + 8, b.data() + 8, 12) < 0;
  });
  std::string expected;
  for (const auto& text : records) expected += text;
  EXPECT_TRUE(read(path("out")) == expected);
}

TEST_F(ExternalSortTest, UniqueKeepsTheFirstOfEachKey) {
  for (uint64_t bytes : {input_bytes, uint64_t{64 * KiB}}) {
    Random random(5);
    std::vector<uint64_t> keys(bytes / 8);
    for (uint64_t& key : keys) key = random.below(keys.size() / 3) * 1'000'003;
    SortOptions chosen = options({Type::u64, 8});
    chosen.unique = true;
    write(path("in"), {reinterpret_cast<const char*>(keys.data()), keys.size() * 8});
    ASSERT_TRUE(sort(chosen));
    std::sort(keys.begin(), keys.end());
    keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
    EXPECT_TRUE(read(path("out")) ==
                std::string(reinterpret_cast<const char*>(keys.data()), keys.size() * 8));
  }
}

TEST_F(ExternalSortTest, LinesMatchAPlainSort) {
  for (uint64_t bytes : {input_bytes, uint64_t{5000}}) {
    std::string data = generate({Type::lines, 1}, Distribution::common_prefix, bytes);
    data += "no newline at the end";
    write(path("in"), data);
    auto stats = sort(options({Type::lines, 1}));
    ASSERT_TRUE(stats) << stats.error().message();
    std::vector<std::string> lines;
    for (size_t at = 0; at < data.size();) {
      size_t end = std::min(data.find('\n', at), data.size());
      lines.push_back(data.substr(at, end - at) + "\n");
      at = end + 1;
    }
    std::sort(lines.begin(), lines.end(), [](std::string_view a, std::string_view b) {
      return a.substr(0, a.size() - 1) < b.substr(0, b.size() - 1);
    });
    std::string expected;
    for (const auto& line : lines) expected += line;
    EXPECT_TRUE(read(path("out")) == expected);
  }
}

TEST_F(ExternalSortTest, SmallAndOddInputs) {
  for (size_t items :
       {size_t{0}, size_t{1}, size_t{2}, size_t{511}, size_t{512}, size_t{513}, size_t{100'001}}) {
    sort_and_check(options({Type::u64, 8}),
                   generate({Type::u64, 8}, Distribution::uniform, items * 8));
    sort_and_check(options({Type::record, 100, 0, 10}),
                   generate({Type::record, 100, 0, 10}, Distribution::uniform, items * 100));
  }
  sort_and_check(options({Type::lines, 1}), "");
  sort_and_check(options({Type::lines, 1}), "\n");
  sort_and_check(options({Type::lines, 1}), "b\na");
}

TEST_F(ExternalSortTest, OutputMayNameTheInput) {
  SortOptions chosen = options({Type::u64, 8});
  std::string data = generate(chosen.format, Distribution::uniform, input_bytes);
  chosen.output = chosen.inputs[0];
  sort_and_check(chosen, data);
}

TEST_F(ExternalSortTest, SeveralInputsAreOneSet) {
  SortOptions chosen = options({Type::lines, 1});
  std::string data = generate(chosen.format, Distribution::uniform, input_bytes);
  size_t cut = data.find('\n', data.size() / 3) + 1;
  write(path("a"), data.substr(0, cut));
  write(path("b"), "");
  write(path("c"), data.substr(cut, data.size() - cut - 1));  // the last newline is missing
  chosen.inputs = {path("a"), path("b"), path("c")};
  ASSERT_TRUE(sort(chosen));
  EXPECT_EQ(check(chosen.format, read(path("out"))).checksum_hex(),
            check(chosen.format, data).checksum_hex());
}

TEST_F(ExternalSortTest, APipeOfAnyLengthIsSorted) {
  ::signal(SIGPIPE, SIG_IGN);  // a failing sort must not end the test
  for (uint64_t bytes : {uint64_t{0}, uint64_t{80}, uint64_t{MiB}, input_bytes, 4 * input_bytes}) {
    SCOPED_TRACE(bytes);
    SortOptions chosen = options({Type::u64, 8});
    std::string data = generate(chosen.format, Distribution::uniform, bytes);
    std::string fifo = path("fifo");
    ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
    std::jthread feeder([&] { write(fifo, data); });
    chosen.inputs = {fifo};
    auto stats = sort(chosen);
    ASSERT_TRUE(stats) << stats.error().message();
    feeder.join();
    ::unlink(fifo.c_str());
    auto sorted = check(chosen.format, read(path("out")));
    EXPECT_TRUE(sorted.sorted());
    EXPECT_EQ(sorted.checksum_hex(), check(chosen.format, data).checksum_hex());
  }
}

// Reads the output of sort_files() from a pipe.
class PipedOutput {
 public:
  explicit PipedOutput(const std::string& fifo) : fifo_(fifo) {
    EXPECT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
    reader_ = std::jthread([this] { data_ = io::read_whole(fifo_); });
  }
  std::string take() {
    reader_.join();
    ::unlink(fifo_.c_str());
    return std::move(data_);
  }

 private:
  std::string fifo_;
  std::string data_;
  std::jthread reader_;
};

// A pipe cannot be written out of order, in whatever order a large copy goes.
TEST_F(ExternalSortTest, APipeTakesAnyDistribution) {
  for (const Format& format : {formats[1], Format{Type::record, 200'000, 0, 8}}) {
    std::string data = generate(formats[1], Distribution::all_equal, 12'000'000);
    write(path("in"), data);
    PipedOutput output(path("fifo"));
    SortOptions chosen = options(format);
    chosen.output = path("fifo");
    auto stats = sort(chosen);
    EXPECT_TRUE(stats) << stats.error().message();
    EXPECT_TRUE(output.take() == data);
  }
}

// The sample sees few of the short lines: the run must keep its budget all the same, and must not abort.
TEST_F(ExternalSortTest, ManyMoreLinesThanTheSampleSaw) {
  std::string data(6'000'000, '\n');
  for (int i = 0; i < 60'000; ++i)
    data += std::to_string(i * 7919 % 60'000) + std::string(120, 'x') + "\n";
  sort_and_check(options({Type::lines, 1}), data);
}

TEST_F(ExternalSortTest, UniqueTakesLongEqualLines) {
  std::string line(100'000, 'y');
  std::string data;
  for (int i = 0; i < 160; ++i) data += (i % 2 == 0 ? line : std::to_string(i) + line) + "\n";
  write(path("in"), data);
  SortOptions chosen = options({Type::lines, 1});
  chosen.unique = true;
  auto stats = sort(chosen);
  ASSERT_TRUE(stats) << stats.error().message();
  EXPECT_EQ(stats->items, 81u);
}

TEST_F(ExternalSortTest, PipesAndFilesTogether) {
  ::signal(SIGPIPE, SIG_IGN);
  std::string sorted;
  for (int i = 1'000'000; i < 3'000'000; ++i) sorted += std::to_string(i) + "\n";
  std::string few = "1500000\n0\n999\n";
  for (bool merge_only : {false, true}) {
    SortOptions chosen = options({Type::lines, 1});
    chosen.merge_only = merge_only;
    std::string fifo = path("fifo");
    ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
    write(path("file"), merge_only ? "5\n" : sorted);
    std::jthread feeder([&] { write(fifo, merge_only ? sorted : few); });
    chosen.inputs = {fifo, path("file")};
    auto stats = sort(chosen);
    EXPECT_TRUE(stats) << stats.error().message();
    feeder.join();
    ::unlink(fifo.c_str());
    auto result = check(chosen.format, read(path("out")));
    EXPECT_TRUE(result.sorted());
    EXPECT_EQ(result.count, merge_only ? 2'000'001u : 2'000'003u);
  }
}

TEST_F(ExternalSortTest, LargeRecordsKeepTheBudget) {
  SortOptions chosen = options({Type::record, 200'000, 1000, 70'000});
  std::string data = generate(formats[1], Distribution::uniform, 70 * 200'000);
  SortStats stats = sort_and_check(chosen, data);
  EXPECT_LT(stats.bytes_read, 4 * data.size());
}

TEST_F(ExternalSortTest, MergesSortedInputsAndRefusesOthers) {
  SortOptions chosen = options({Type::lines, 1});
  chosen.merge_only = true;
  chosen.inputs.clear();
  std::vector<std::string> all;
  Random random(6);
  for (int file = 0; file < 150; ++file) {  // more than the fan-in of so little memory
    std::vector<std::string> lines(random.below(2000));
    for (auto& line : lines) line = std::to_string(random.next());
    std::sort(lines.begin(), lines.end());
    std::string data;
    for (auto& line : lines) data += line + "\n";
    chosen.inputs.push_back(path("part" + std::to_string(file)));
    write(chosen.inputs.back(), data);
    all.insert(all.end(), lines.begin(), lines.end());
  }
  auto stats = sort(chosen);
  ASSERT_TRUE(stats) << stats.error().message();
  EXPECT_GT(stats->passes, 1u);
  std::sort(all.begin(), all.end());
  std::string expected;
  for (auto& line : all) expected += line + "\n";
  EXPECT_TRUE(read(path("out")) == expected);

  write(chosen.inputs[3], "b\na\n");
  auto refused = sort(chosen);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::unsorted);
  EXPECT_NE(refused.error().message().find("part3"), std::string::npos)
      << refused.error().message();
  EXPECT_TRUE(read(path("out")) == expected) << "a failed run changed the output";
}

TEST_F(ExternalSortTest, SortedStretchesAreMergedWhereTheyLie) {
  for (const Format& format : formats) {
    for (const bool descending : {false, true}) {
      SCOPED_TRACE(std::string(name_of(format.type)) + (descending ? " descending" : ""));
      SortOptions chosen = options(format);
      chosen.descending = descending;
      std::string data;
      for (const uint64_t part : {3, 2, 6})
        data += generate(format, descending ? Distribution::reverse : Distribution::sorted,
                         input_bytes / part);
      const SortStats stats = sort_and_check(chosen, data);
      EXPECT_EQ(stats.method, Method::merge);
      EXPECT_EQ(stats.temp_bytes, 0u);
    }
  }
}

// The input is read once and written once, for every way of reading keys.
TEST_F(ExternalSortTest, CopiesSortedInputs) {
  for (const Format& format : formats) {
    for (const bool descending : {false, true}) {
      SortOptions chosen = options(format);
      chosen.descending = descending;
      const std::string data =
          generate(format, descending ? Distribution::reverse : Distribution::sorted, input_bytes);
      const SortStats stats = sort_and_check(chosen, data);
      SCOPED_TRACE(std::string(name_of(format.type)) + (descending ? " descending" : ""));
      EXPECT_EQ(stats.method, Method::merge);
      EXPECT_EQ(stats.passes, 1u);
      EXPECT_EQ(stats.bytes_written, stats.predicted.bytes_written);
      EXPECT_EQ(read(chosen.output), data);
    }
  }
}

// A descending input is distributed as any other, and the in-memory sort reverses its buckets.
TEST_F(ExternalSortTest, NumbersInTheOppositeOrderAreDistributed) {
  for (const Format& format : formats) {
    if (!format.numeric()) continue;
    for (const bool descending : {false, true}) {
      SCOPED_TRACE(std::string(name_of(format.type)) + (descending ? " descending" : ""));
      SortOptions chosen = options(format);
      chosen.descending = descending;
      // The input ends within a sector.
      const std::string data =
          generate(format, descending ? Distribution::sorted : Distribution::reverse,
                   input_bytes + 3 * format.record_bytes);
      const SortStats stats = sort_and_check(chosen, data);
      EXPECT_EQ(stats.method, Method::distribute);
    }
  }
}

TEST_F(ExternalSortTest, FilesThatFollowEachOtherAreCopiedAndRepairedAtTheirSeams) {
  SortOptions chosen = options({Type::lines, 1});
  const std::string data = generate(chosen.format, Distribution::sorted, input_bytes);
  const size_t middle = data.find('\n', data.size() / 2);
  chosen.inputs = {path("in"), path("behind")};
  write(chosen.inputs[0], data.substr(0, middle));  // the last line lacks its newline
  write(chosen.inputs[1], data.substr(middle + 1, data.size() - middle - 2));
  auto stats = sort(chosen);
  ASSERT_TRUE(stats) << stats.error().message();
  EXPECT_EQ(stats->passes, 1u);
  EXPECT_EQ(read(chosen.output), data);
}

// More files than a merge takes at once.
TEST_F(ExternalSortTest, AnyNumberOfFilesIsCopied) {
  SortOptions chosen = options({Type::u64, 8});
  const std::string data = generate(chosen.format, Distribution::sorted, input_bytes);
  constexpr size_t files = 300;
  const size_t bytes = data.size() / files / 8 * 8;
  chosen.inputs.clear();
  for (size_t i = 0; i < files; ++i) {
    chosen.inputs.push_back(path("in" + std::to_string(i)));
    write(chosen.inputs[i], data.substr(i * bytes, i + 1 == files ? data.npos : bytes));
  }
  auto stats = sort(chosen);
  ASSERT_TRUE(stats) << stats.error().message();
  EXPECT_EQ(stats->passes, 1u);
  EXPECT_EQ(read(chosen.output), data);
}

// The sample misses the item: the copy is abandoned, and its output overwritten.
TEST_F(ExternalSortTest, OneItemOutOfOrderIsFoundWhereverItIs) {
  for (const Format& format : {Format{Type::u64, 8}, Format{Type::f32, 4, 0, 4},
                               Format{Type::kv64, 16}, Format{Type::record, 100, 0, 10}}) {
    const std::string sorted = generate(format, Distribution::sorted, input_bytes);
    const size_t items = sorted.size() / format.record_bytes;
    Random random(items);
    // The second item, the last, the first of a checked window, and random ones.
    for (const size_t place : {size_t{1}, items - 1, size_t{2048}, random.below(items - 1) + 1,
                               random.below(items - 1) + 1}) {
      SCOPED_TRACE(std::string(name_of(format.type)) + " " + std::to_string(place));
      std::string data = sorted;
      data.replace(place * format.record_bytes, format.record_bytes,
                   sorted.substr(0, format.record_bytes));
      EXPECT_EQ(sort_and_check(options(format), data).method, Method::merge);
    }
  }
}

// A temporary checks each written block once.
TEST_F(ExternalSortTest, TemporariesOfNearlySortedInputsCanBeRead) {
  SortOptions chosen = options({Type::u64, 8});
  std::string data = generate(chosen.format, Distribution::sorted, input_bytes);
  data.replace(data.size() - 8, 8, data.substr(0, 8));
  write(chosen.inputs[0], data);
  chosen.memory_bytes = budget_bytes();
  auto sorted = sort_to_temporary(chosen);
  ASSERT_TRUE(sorted) << sorted.error().message();
  std::string found(data.size(), 0);
  for (size_t at = 0; at < found.size(); at += 3 * MiB) {
    const size_t bytes = std::min<size_t>(3 * MiB, found.size() - at);
    auto status =
        io::read_exactly(sorted->file, at, reinterpret_cast<std::byte*>(&found[at]), bytes);
    ASSERT_TRUE(status) << status.error().message();
  }
  EXPECT_TRUE(check(chosen.format, found).sorted());
  EXPECT_EQ(check(chosen.format, found).checksum_hex(), check(chosen.format, data).checksum_hex());
}

TEST_F(ExternalSortTest, DropsRepeatsInSortedInputs) {
  SortOptions chosen = options({Type::u64, 8});
  chosen.unique = true;
  const std::string data = generate(chosen.format, Distribution::sorted, input_bytes / 2);
  std::string twice;
  for (size_t at = 0; at < data.size(); at += 8) twice += data.substr(at, 8) + data.substr(at, 8);
  write(chosen.inputs[0], twice);
  auto stats = sort(chosen);
  ASSERT_TRUE(stats) << stats.error().message();
  const auto sorted = check(chosen.format, read(chosen.output));
  EXPECT_TRUE(sorted.sorted());
  EXPECT_EQ(sorted.duplicates, 0u);
}

// A line that is longer than the windows of a merge of so many stretches is merged all the same.
TEST_F(ExternalSortTest, ALineLongerThanTheWindowsOfAMergeIsMerged) {
  SortOptions chosen = options({Type::lines, 1});
  Random random(41);
  std::string data;
  for (int stretch = 0; stretch < 24; ++stretch) {
    std::vector<std::string> lines(60'000);
    for (std::string& line : lines) line = std::to_string(random.next());
    if (stretch == 11) lines[777] = std::string(220'000, '7');
    std::sort(lines.begin(), lines.end());
    for (const std::string& line : lines) data += line + "\n";
  }
  const SortStats stats = sort_and_check(chosen, data);
  EXPECT_EQ(stats.predicted.method, Method::merge);
  EXPECT_EQ(stats.method, Method::merge);
}

TEST_F(ExternalSortTest, DisorderIsFoundWhereItIs) {
  SortOptions chosen = options({Type::lines, 1});
  write(path("in"), "a\nb\nb\nd\nc\n");
  auto disorder = files::find_disorder({chosen, chosen.unique});
  ASSERT_TRUE(disorder && *disorder);
  EXPECT_EQ((*disorder)->place.line, 5u);
  EXPECT_EQ((*disorder)->text, "c");
  chosen.unique = true;
  disorder = files::find_disorder({chosen, chosen.unique});
  ASSERT_TRUE(disorder && *disorder);
  EXPECT_EQ((*disorder)->place.line, 3u);
  write(path("in"), "a\nb\nc");
  disorder = files::find_disorder({chosen, chosen.unique});
  ASSERT_TRUE(disorder);
  EXPECT_FALSE(*disorder);
}

// ---- failures

class FailingSort : public ExternalSortTest {
 protected:
  void TearDown() override {
    io::inject({});
    ExternalSortTest::TearDown();
  }
  // Expects the run to fail with this code, and to leave the input and the old output intact.
  void expect_failure(const SortOptions& chosen, ErrorCode code) {
    EXPECT_TRUE(fails_cleanly(chosen, code));
  }
  // Returns false if the run does not fail.
  bool fails_cleanly(SortOptions chosen, ErrorCode code) {
    std::string input = read(chosen.inputs[0]);
    write(chosen.output, "old");
    auto stats = chosen.memory_bytes == too_little_bytes ? sort_files(chosen) : sort(chosen);
    io::inject({});
    if (stats) return false;
    EXPECT_EQ(stats.error().code, code) << stats.error().message();
    EXPECT_EQ(read(chosen.output), "old");
    EXPECT_TRUE(read(chosen.inputs[0]) == input);
    for (const auto& entry : std::filesystem::directory_iterator(directory_)) {
      std::string name = entry.path().filename().string();
      EXPECT_TRUE(name == "in" || name == "out" || name == "temporaries") << name << " was left";
    }
    return true;
  }
  // Fails each request of one kind in turn, until a run has fewer requests.
  void fail_after_any_number(const SortOptions& chosen, int error, io::Operation operation,
                             ErrorCode code) {
    uint64_t after = 0;
    int failures = 0;
    for (;; after += 1 + after / 2, ++failures) {
      SCOPED_TRACE("seed and number of requests " + std::to_string(after));
      io::inject(
          {.seed = after, .error = error, .error_after = after, .error_operation = operation});
      if (!fails_cleanly(chosen, code)) break;
    }
    EXPECT_GE(failures, 6);
  }
};

TEST_F(FailingSort, AnErrorAtAnyRequestEndsCleanly) {
  for (const Format& format : {formats[1], formats[8]}) {
    write(path("in"), generate(format, Distribution::uniform, input_bytes));
    fail_after_any_number(options(format), ENOSPC, io::Operation::write, ErrorCode::out_of_space);
    fail_after_any_number(options(format), EIO, io::Operation::read, ErrorCode::io);
  }
}

TEST_F(FailingSort, ShortTransfersAndDelaysDoNotMatter) {
  for (const Format& format : {formats[1], formats[7], formats[8]}) {
    io::inject({.seed = 99, .short_transfer = 0.3, .delay = 0.05, .delay_us_max = 300});
    sort_and_check(options(format), generate(format, Distribution::uniform, input_bytes));
    io::inject({});
  }
}

TEST_F(FailingSort, CancellationEndsCleanly) {
  write(path("in"), generate(formats[1], Distribution::uniform, input_bytes));
  std::atomic<bool> cancel{true};
  SortOptions chosen = options(formats[1]);
  chosen.cancel = &cancel;
  expect_failure(chosen, ErrorCode::interrupted);
}

// While the sort samples, other threads of the program may take memory that was counted as the sort's.
TEST_F(FailingSort, MemoryThatIsTakenMeanwhileIsAnErrorOrDoesNotMatter) {
  for (const auto& [format, top] :
       {std::pair{formats[1], uint64_t{0}}, std::pair{formats[8], uint64_t{0}},
        std::pair{formats[1], input_bytes / 8 * 3 / 4}}) {
    const std::string data = generate(format, Distribution::uniform, input_bytes);
    write(path("in"), data);
    int failures = 0;
    for (uint64_t taken_bytes = 6 * MiB; taken_bytes <= 40 * MiB; taken_bytes += 2 * MiB) {
      SCOPED_TRACE(taken_bytes / MiB);
      std::vector<char> taken;
      SortOptions chosen = options(format);
      if (top > 0) chosen.top = top;
      chosen.progress = [&](const FilesProgress&) {
        if (taken.empty()) taken.assign(taken_bytes, 1);
      };
      auto stats = sort_files(chosen);
      ASSERT_FALSE(taken.empty());
      if (stats) {
        EXPECT_EQ(stats->items, top > 0 ? top : check(format, data).count);
      } else {
        EXPECT_EQ(stats.error().code, ErrorCode::out_of_memory) << stats.error().message();
        if (++failures == 2) break;
      }
    }
    EXPECT_EQ(failures, 2);
  }
}

TEST_F(FailingSort, BadInputsAreRefusedBeforeAnythingIsWritten) {
  write(path("in"), "123456789");
  expect_failure(options(formats[1]), ErrorCode::corrupt);
  SortOptions chosen = options(formats[1]);
  chosen.memory_bytes = too_little_bytes;
  write(path("in"), "12345678");
  expect_failure(chosen, ErrorCode::out_of_memory);
  chosen = options(formats[1]);
  chosen.inputs.push_back(path("missing"));
  expect_failure(chosen, ErrorCode::not_found);
}

TEST_F(ExternalSortTest, ThePlanIsWhatHappens) {
  write(path("in"), generate(formats[1], Distribution::uniform, input_bytes));
  auto plan = plan_sort(options(formats[1]));
  ASSERT_TRUE(plan) << plan.error().message();
  auto stats = sort_files(options(formats[1]));
  ASSERT_TRUE(stats);
  EXPECT_EQ(plan->method, stats->method);
  EXPECT_EQ(plan->passes, stats->passes);
  EXPECT_NEAR(static_cast<double>(plan->bytes_written), static_cast<double>(stats->bytes_written),
              0.05 * static_cast<double>(plan->bytes_written));
  EXPECT_LE(stats->temp_bytes, plan->temp_bytes * 11 / 10);
}

}  // namespace
}  // namespace penstock::external
