// Test labels: no-sanitizer

// Repeats all operations of the library in one process: its memory, mappings, descriptors and threads must not grow.
//
// A round runs all operations with small inputs, and checks their results. Resources that a round leaves are reused
// by the next one, so that nothing may grow after the first rounds. ./check runs a few rounds; PENSTOCK_SOAK_SECONDS
// sets a time, and progress is printed after each tenth.

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/random.h"
#include "base/temporary_folder_fixture.h"
#include "base/trials.h"
#include "os/limits.h"
#include "os/memory.h"
#include "os/process_counts.h"
#include "penstock/bowtie.h"
#include "penstock/containers.h"
#include "penstock/file_stream.h"
#include "penstock/files.h"
#include "penstock/partition.h"
#include "penstock/region.h"
#include "penstock/rewire.h"
#include "penstock/sort.h"
#include "penstock/source.h"
#include "penstock/stream.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;

// The resources of this process, as the system counts them.
struct Footprint {
  uint64_t memory_bytes = 0;
  uint64_t mappings = 0;
  uint64_t descriptors = 0;
  uint64_t threads = 0;
};

Footprint footprint() {
  return {.memory_bytes = os::resident_memory().bytes,
          .mappings = os::mappings().used,
          .descriptors = os::descriptors(),
          .threads = os::threads()};
}

class Soak : public testing::Test {
 protected:
  std::string file(const char* name) const { return folder_ / name; }

  std::vector<uint64_t> numbers(size_t count) {
    std::vector<uint64_t> made(count);
    std::ranges::generate(made, [&] { return random_.next(); });
    return made;
  }
  void write(const char* name, std::span<const uint64_t> numbers) const {
    std::ofstream(file(name), std::ios::binary | std::ios::trunc)
        .write(reinterpret_cast<const char*>(numbers.data()),
               static_cast<std::streamsize>(numbers.size_bytes()));
  }
  FilesOptions files(std::vector<std::string> inputs, const char* output,
                     const char* format) const {
    FilesOptions options;
    options.inputs = std::move(inputs);
    options.output = file(output);
    options.items.name = format;
    options.memory_bytes = 32 * MiB;
    options.temp_directories = {folder_.path()};
    return options;
  }

  void memory() {
    std::vector<uint64_t> keys = numbers(1 << 18);
    ASSERT_TRUE(penstock::sort(keys, SortOptions{.threads = 2}));
    ASSERT_TRUE(std::ranges::is_sorted(keys));
    std::string text;
    for (const uint64_t key : keys) text += std::to_string(key);
    std::vector<std::string_view> views;
    for (size_t at = 0; at + 16 <= text.size(); at += 16)
      views.push_back(std::string_view(text).substr(at, 16));
    ASSERT_TRUE(penstock::sort(std::span(views), SortOptions{.threads = 2}));
    ASSERT_TRUE(std::ranges::is_sorted(views));
    auto parts = partition<uint64_t>(keys, {.by = ByHash{.bits = 6}, .threads = 2});
    ASSERT_TRUE(parts) << parts.error().message();
    uint64_t items = 0;
    for (uint32_t i = 0; i < parts->buckets(); ++i) items += parts->bucket(i).size();
    ASSERT_EQ(items, keys.size());
  }

  void files_of_numbers() {
    write("a", numbers(1 << 22));  // the size of the budget
    write("b", numbers(1 << 16));
    for (const char* name : {"a", "b"}) {
      const auto sorted = sort_files(files({file(name)}, "sorted", "u64"));
      ASSERT_TRUE(sorted) << sorted.error().message();
      fs::rename(file("sorted"), file(name));
    }
    const auto merged = merge_files(files({file("a"), file("b")}, "merged", "u64"));
    ASSERT_TRUE(merged) << merged.error().message();
    const auto checked = check_file(files({file("merged")}, "", "u64"));
    ASSERT_TRUE(checked) << checked.error().message();
    ASSERT_EQ(checked->count, (1u << 22) + (1u << 16));
    ASSERT_FALSE(checked->first_unsorted);
    const auto parts = partition_files(files({file("merged")}, "part-{}", "u64"), {.parts = 40});
    ASSERT_TRUE(parts) << parts.error().message();
    const auto joined = join_files(files({file("merged"), file("b")}, "joined", "u64"));
    ASSERT_TRUE(joined) << joined.error().message();
  }

  void files_of_lines() {
    std::ofstream lines(file("lines"), std::ios::trunc);
    for (int i = 0; i < 200'000; ++i) lines << random_.below(5000) << " some text\n";
    lines.close();
    FilesOptions options = files({file("lines")}, "ordered", "lines");
    options.items.keys = {"1,1n"};
    const auto sorted = sort_files(options, {.stable = true});
    ASSERT_TRUE(sorted) << sorted.error().message();
    options.output = file("groups");
    const auto groups = group_files(options, {.aggregates = {.count = true}});
    ASSERT_TRUE(groups) << groups.error().message();
    ASSERT_EQ(groups->groups, 5000u);
    auto log = SourceStream::open(file("ordered"));
    ASSERT_TRUE(log) << log.error().message();
    uint64_t count = 0;
    for (const char* at = log->begin<char>(); !log->at_end(at); ++at) count += *at == '\n';
    ASSERT_EQ(count, 200'000u);
  }

  void streams() {
    constexpr uint64_t bytes = 16 * MiB;
    auto pipe = RemapStream::open({.bytes = bytes});
    ASSERT_TRUE(pipe) << pipe.error().message();
    std::jthread producer([&] {
      std::fill_n(pipe->writer<uint8_t>(), bytes, uint8_t{1});
      (void)pipe->finish(bytes);
    });
    ASSERT_EQ(
        std::accumulate(pipe->reader<uint8_t>(), pipe->reader<uint8_t>() + bytes, uint64_t{0}),
        bytes);
    auto squares = PullStream::open(
        {.bytes = bytes}, [](std::span<std::byte> block, uint64_t offset) -> Result<size_t> {
          std::ranges::fill(block, static_cast<std::byte>(offset >> 20));
          return block.size();
        });
    ASSERT_TRUE(squares) << squares.error().message();
    const auto* const made = squares->begin<uint8_t>();
    ASSERT_EQ(made[0], 0);
    ASSERT_GT(made[bytes - 1], 0);
    {
      auto out = FileWriter::open(file("stream"));
      ASSERT_TRUE(out) << out.error().message();
      std::fill_n(out->begin<uint8_t>(), bytes, uint8_t{2});
      ASSERT_TRUE(out->finish(bytes));
    }
    auto in = FileReader::open(file("stream"));
    ASSERT_TRUE(in) << in.error().message();
    ASSERT_EQ(std::accumulate(in->begin<uint8_t>(), in->begin<uint8_t>() + bytes, uint64_t{0}),
              2 * bytes);
  }

  void processes() {
    auto stream = ProcessStream::open({.bytes = 8 * MiB}, Side::consumer);
    ASSERT_TRUE(stream) << stream.error().message();
    const pid_t child = ::fork();
    if (child == 0) {
      auto ours = ProcessStream::attach(stream->fd(), Side::producer);
      if (!ours) ::_exit(1);
      std::fill_n(ours->writer<uint8_t>(), 8 * MiB, uint8_t{3});
      ::_exit(ours->finish(8 * MiB) ? 0 : 1);
    }
    const auto* const begin = stream->reader<uint8_t>();
    ASSERT_EQ(std::accumulate(begin, begin + 8 * MiB, uint64_t{0}), 3 * 8 * MiB);
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_EQ(status, 0);
  }

  void rewired() {
    auto pool = PagePool::open({.page_bytes = 64 * KiB, .bytes_max = 64 * MiB});
    ASSERT_TRUE(pool) << pool.error().message();
    {
      auto table = RewiredTable::open(*pool, {.bytes = 8 * MiB});
      ASSERT_TRUE(table) << table.error().message();
      auto* const rows = table->begin<uint64_t>();
      for (uint64_t round = 1; round <= 4; ++round) {
        rows[round << 13] = round;
        auto snapshot = table->snapshot();
        ASSERT_TRUE(snapshot) << snapshot.error().message();
        rows[round << 13] = 0;
        ASSERT_EQ(snapshot->begin<uint64_t>()[round << 13], round);
      }
    }
    auto vector = RewiredVector<uint64_t>::open(*pool);
    ASSERT_TRUE(vector) << vector.error().message();
    for (uint64_t i = 0; i < 1 << 20; ++i) vector->push_back(i);
    ASSERT_EQ((*vector)[12345], 12345u);
    auto counts = RewiredHash<uint64_t, uint32_t>::open(*pool);
    ASSERT_TRUE(counts) << counts.error().message();
    for (uint64_t i = 0; i < 100'000; ++i) ASSERT_TRUE(counts->insert(random_.below(5000), 1));
    ASSERT_LE(counts->size(), 5000u);
  }

  void round() {
    memory();
    files_of_numbers();
    files_of_lines();
    streams();
    processes();
    rewired();
  }

  const TemporaryFolder folder_;
  Random random_{seed_of_run()};
};

TEST_F(Soak, NothingGrows) {
  using Clock = std::chrono::steady_clock;
  const char* const asked = std::getenv("PENSTOCK_SOAK_SECONDS");
  const std::chrono::duration<double> time(asked != nullptr ? std::atof(asked) : 0);
  const uint64_t threads = os::threads();  // before the first thread starts
  constexpr int warm_rounds = 2;
  for (int i = 0; i < warm_rounds && !HasFatalFailure(); ++i) round();
  if (HasFatalFailure()) return;
  const Footprint first = footprint();
  const auto start = Clock::now();
  uint64_t rounds = 0;
  double told = 0;
  do {
    ASSERT_NO_FATAL_FAILURE(round()) << "round " << rounds;
    ++rounds;
    os::wait_until_threads_are_gone(threads);
    const Footprint now = footprint();
    if (const double share = (Clock::now() - start) / time; asked != nullptr && share >= told) {
      std::printf("%6.0f s, %llu rounds: %llu KiB, %llu mappings, %llu descriptors, %llu threads\n",
                  std::chrono::duration<double>(Clock::now() - start).count(),
                  static_cast<unsigned long long>(rounds),
                  static_cast<unsigned long long>(now.memory_bytes >> 10),
                  static_cast<unsigned long long>(now.mappings),
                  static_cast<unsigned long long>(now.descriptors),
                  static_cast<unsigned long long>(now.threads));
      std::fflush(stdout);
      told += 0.1;
    }
    ASSERT_EQ(now.descriptors, first.descriptors) << "round " << rounds;
    ASSERT_EQ(now.threads, threads) << "round " << rounds;
    // (The C library has several heaps for threads, each of which grows to the largest need of any round: 26 MiB more after
    // 40 rounds, and then nothing.)
    ASSERT_LE(now.mappings, first.mappings + 16) << "round " << rounds;
    ASSERT_LE(now.memory_bytes, first.memory_bytes + 48 * MiB) << "round " << rounds;
  } while (Clock::now() - start < time);
}

}  // namespace
}  // namespace penstock
