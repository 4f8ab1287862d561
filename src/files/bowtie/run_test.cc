#include "files/bowtie/run.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <optional>
#include <string>
#include <thread>

#include "base/random.h"
#include "base/temporary_folder_fixture.h"
#include "base/trials.h"
#include "files/bowtie/spread_fixture.h"
#include "io/emulation.h"
#include "io/engine.h"
#include "io/whole_file_fixture.h"
#include "os/process_counts.h"
#include "os/sanitizer.h"
#include "penstock/base.h"
#include "test/support/injection.h"

namespace penstock::bowtie {
namespace {

using Bytes = std::vector<std::byte>;

void write_file(const std::string& path, const Bytes& bytes) {
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
}

Bytes read_file(const std::string& path) {
  const std::string text = io::read_whole(path);
  const auto* const begin = reinterpret_cast<const std::byte*>(text.data());
  return {begin, begin + text.size()};
}

Bytes random_bytes(Random& random, size_t bytes) {
  Bytes out(bytes);
  for (std::byte& byte : out) byte = static_cast<std::byte>(random.next());
  return out;
}

struct Emulated {
  explicit Emulated(const io::EmulatedDevice& device) { io::emulate(device); }
  ~Emulated() { io::emulate(std::nullopt); }
};
struct Injected {
  explicit Injected(const io::Injection& injection) { io::inject(injection); }
  ~Injected() { io::inject({}); }
};

// The moves of a random computation, determined by a seed and by positions alone, so that a model
// can repeat them: each takes a random piece of a random input that has not ended, and puts it into
// a random output, in pieces of items.
struct Script {
  uint64_t seed = 0;
  size_t item_bytes_max = 1;
  bool bursts = false;  // stays with one input and one output for a while

  // Calls move(i, j, bytes) to move bytes from input i to output j; left(i) is i's rest.
  template <class Left, class Move>
  void play(uint32_t inputs, uint32_t outputs, Left left, Move move) const {
    Random random(seed);
    std::vector<uint32_t> live;
    for (uint32_t i = 0; i < inputs; ++i) {
      if (left(i) > 0) live.push_back(i);
    }
    uint32_t at = 0;
    uint32_t to = 0;
    uint64_t burst = 0;
    while (!live.empty()) {
      if (burst == 0) {
        at = static_cast<uint32_t>(random.below(live.size()));
        to = outputs == 0 ? 0 : static_cast<uint32_t>(random.below(outputs));
        burst = bursts ? 1 + random.below(200) : 1;
      }
      --burst;
      const uint32_t i = live[at];
      const uint64_t bytes = std::min<uint64_t>(left(i), 1 + random.below(item_bytes_max));
      if (!move(i, to, bytes)) return;
      if (left(i) == 0) {
        live.erase(live.begin() + at);
        burst = 0;
      }
    }
  }
};

std::vector<Bytes> model(const std::vector<Bytes>& inputs, uint32_t outputs, const Script& script) {
  std::vector<Bytes> result(outputs);
  std::vector<size_t> at(inputs.size());
  script.play(
      static_cast<uint32_t>(inputs.size()), outputs,
      [&](uint32_t i) { return inputs[i].size() - at[i]; },
      [&](uint32_t i, uint32_t j, uint64_t bytes) {
        if (outputs > 0) {
          result[j].insert(result[j].end(), inputs[i].begin() + static_cast<ptrdiff_t>(at[i]),
                           inputs[i].begin() + static_cast<ptrdiff_t>(at[i] + bytes));
        }
        at[i] += bytes;
        return true;
      });
  return result;
}

enum class Access { windows, pointers };

// The script as a computation.
Computation scripted(const Script& script, Access access) {
  return [=](Streams& streams) -> Status {
    std::vector<uint64_t> left;
    for (uint32_t i = 0; i < streams.inputs(); ++i) left.push_back(streams.input(i).bytes());
    std::vector<const std::byte*> from(streams.inputs());
    std::vector<std::byte*> to(streams.outputs());
    for (uint32_t i = 0; i < streams.inputs(); ++i) from[i] = streams.input(i).begin();
    for (uint32_t j = 0; j < streams.outputs(); ++j) to[j] = streams.output(j).begin();
    script.play(
        streams.inputs(), streams.outputs(), [&](uint32_t i) { return left[i]; },
        [&](uint32_t i, uint32_t j, uint64_t bytes) {
          if (access == Access::windows) {
            const auto window = streams.input(i).window(bytes);
            if (window.size() < bytes) return false;
            if (streams.outputs() > 0) {
              const auto room = streams.output(j).room(bytes);
              if (room.size() < bytes) return false;
              std::memcpy(room.data(), window.data(), bytes);
              streams.output(j).advance(bytes);
            }
            streams.input(i).advance(bytes);
          } else {
            for (uint64_t k = 0; k < bytes; ++k) {
              const auto value = static_cast<const volatile std::byte&>(from[i][k]);
              if (streams.outputs() > 0) to[j][k] = value;
            }
            from[i] += bytes;
            if (streams.outputs() > 0) to[j] += bytes;
          }
          left[i] -= bytes;
          return true;
        });
    if (access == Access::pointers) {
      for (uint32_t j = 0; j < streams.outputs(); ++j) streams.output(j).advance_to(to[j]);
    }
    return {};
  };
}

struct Case {
  uint64_t seed = 0;
  std::vector<Bytes> inputs;
  uint32_t outputs = 0;
  Script script;
  RunOptions options;
};

Case random_case(uint64_t seed) {
  Random random(seed);
  Case result;
  result.seed = seed;
  const uint64_t streams_max = random.below(4) == 0 ? 60 : 6;
  const auto inputs = static_cast<uint32_t>(1 + random.below(streams_max));
  result.outputs = static_cast<uint32_t>(random.below(streams_max + 1));
  const uint64_t bytes_max = (random.below(3) == 0 ? 4 * MiB : MiB) / inputs + 1;
  for (uint32_t i = 0; i < inputs; ++i)
    result.inputs.push_back(
        random_bytes(random, random.below(5) == 0 ? 0 : random.below(bytes_max)));
  result.options.block_bytes = size_t{4} * KiB << random.below(3);
  result.script = {.seed = random.next(), .bursts = random.below(2) == 0};
  // Items have up to a block, so that they lie across borders.
  result.script.item_bytes_max = 1 + random.below(result.options.block_bytes);
  const uint64_t blocks_min = 2 * (inputs + 1) + 2 * (result.outputs + 1) + inputs + result.outputs;
  result.options.memory_bytes =
      (blocks_min + random.below(20) * (inputs + result.outputs)) * result.options.block_bytes;
  result.options.depth = static_cast<unsigned>(1 + random.below(8));
  result.options.input_share = 0.2 + 0.6 * random.unit();
  if (random.below(2) == 0) result.options.caching = io::Caching::buffered;
  return result;
}

// One of A2 to A6 that suits the number of streams, with any groups.
std::optional<Schedule> random_schedule(Random& random, uint32_t inputs, uint32_t outputs) {
  const Bowtie bowtie{.inputs = inputs, .outputs = outputs, .memory_bytes = GiB};
  if (outputs == 0 || random.below(3) == 0) return std::nullopt;
  const auto c_r = static_cast<uint32_t>(1 + random.below(inputs));
  const auto c_w = static_cast<uint32_t>(1 + random.below(outputs));
  switch (random.below(3)) {
    case 0:
      return schedule_with(bowtie, Algorithm::a5, {c_r, c_w});
    case 1:
      return schedule_with(bowtie, inputs == 1 ? Algorithm::a2 : Algorithm::a6r, {1, c_w});
    default:
      return schedule_with(bowtie, outputs == 1 ? Algorithm::a4 : Algorithm::a6w, {c_r, 1});
  }
}

Result<RunResult> run_case(const Case& one, const TemporaryFolder& folder, Access access) {
  std::vector<Input> inputs;
  for (size_t i = 0; i < one.inputs.size(); ++i) {
    const std::string path = folder / fmt::format("in{}", i);
    write_file(path, one.inputs[i]);
    inputs.push_back({.path = path});
  }
  std::vector<Output> outputs;
  for (uint32_t j = 0; j < one.outputs; ++j)
    outputs.push_back({.path = folder / fmt::format("out{}", j)});
  return run(std::move(inputs), std::move(outputs), scripted(one.script, access), one.options);
}

void expect_outputs(const Case& one, const TemporaryFolder& folder, const RunResult& result) {
  const auto expected = model(one.inputs, one.outputs, one.script);
  uint64_t bytes = 0;
  for (uint32_t j = 0; j < one.outputs; ++j) {
    const Bytes written = read_file(folder / fmt::format("out{}", j));
    ASSERT_EQ(written.size(), expected[j].size()) << "output " << j;
    ASSERT_TRUE(written == expected[j]) << "output " << j;
    EXPECT_EQ(result.output_bytes[j], written.size());
    bytes += written.size();
  }
  EXPECT_EQ(result.bytes_written, bytes);
  uint64_t read = 0;
  for (const Bytes& input : one.inputs) read += input.size();
  EXPECT_EQ(result.bytes_read, read);
  EXPECT_LE(result.blocks_peak * result.block_bytes, one.options.memory_bytes);
}

TEST(Run, MovesTheSameBytesAsAPlainModel) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    if (!tried()) continue;
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Case one = random_case(seed);
    Random random(seed * 77);
    one.options.schedule =
        random_schedule(random, static_cast<uint32_t>(one.inputs.size()), one.outputs);
    const TemporaryFolder folder;
    const auto result =
        run_case(one, folder, random.below(2) == 0 ? Access::windows : Access::pointers);
    ASSERT_TRUE(result.has_value()) << result.error().message();
    expect_outputs(one, folder, *result);
  }
}

TEST(Run, ServesShortAndLateTransfers) {
  for (uint64_t seed = 100; seed < 110; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    const Injected injected(
        {.seed = seed, .short_transfer = 0.2, .delay = 0.1, .delay_us_max = 200});
    const Case one = random_case(seed);
    const TemporaryFolder folder;
    const auto result = run_case(one, folder, Access::windows);
    ASSERT_TRUE(result.has_value()) << result.error().message();
    expect_outputs(one, folder, *result);
  }
}

TEST(Run, EndsWithTheFirstErrorOfTheDeviceAndLeavesNothing) {
  for (uint64_t seed = 200; seed < 230; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Random random(seed);
    Case one = random_case(seed);
    one.options.on_error = ErrorPolicy::zeros;
    const bool reads = one.outputs == 0 || random.below(2) == 0;
    const TemporaryFolder folder;
    const Injected injected(
        {.seed = seed,
         .error = reads ? EIO : ENOSPC,
         .error_after = random.below(20),
         .error_operation = reads ? io::Operation::read : io::Operation::write});
    const auto result =
        run_case(one, folder, random.below(2) == 0 ? Access::windows : Access::pointers);
    if (result) continue;  // fewer calls than the failing one
    EXPECT_EQ(result.error().code, reads ? ErrorCode::io : ErrorCode::out_of_space);
    EXPECT_EQ(folder.files(), one.inputs.size());
  }
}

TEST(Run, ProducesFromMemoryWithoutInputs) {
  const TemporaryFolder folder;
  std::vector<Output> outputs;
  for (int j = 0; j < 5; ++j) {
    outputs.push_back({.path = folder / fmt::format("out{}", j), .bytes_max = 8 * MiB});
  }
  const auto result = run({}, std::move(outputs),
                          [](Streams& streams) -> Status {
                            for (uint64_t k = 0; k < 500'000; ++k)
                              streams.output(static_cast<uint32_t>(k * k % 5)).append(&k, 8);
                            return {};
                          },
                          {.memory_bytes = MiB});
  ASSERT_TRUE(result.has_value()) << result.error().message();
  EXPECT_EQ(result->bytes_written, 4'000'000u);
  EXPECT_EQ(result->schedule.algorithm, Algorithm::a1);
}

TEST(Run, AStretchOfAFileBeginsAndEndsAnywhere) {
  Random random(5);
  const TemporaryFolder folder;
  const Bytes bytes = random_bytes(random, 300'000);
  write_file(folder / "in", bytes);
  for (auto [offset, length] : {std::pair<size_t, size_t>{1, 299'998},
                                {4097, 0},
                                {12'345, 100'000},
                                {299'999, 1},
                                {4096, 8192}}) {
    auto copy = [](Streams& streams) -> Status {
      for (;;) {
        const auto window = streams.input(0).window();
        if (window.empty()) break;
        streams.output(0).append(window.data(), window.size());
        streams.input(0).advance(window.size());
      }
      return {};
    };
    const auto result =
        run({{.path = folder / "in", .offset = offset, .bytes = length}},
            {{.path = folder / "out"}}, copy, {.memory_bytes = MiB, .block_bytes = 8192});
    ASSERT_TRUE(result.has_value()) << result.error().message();
    const Bytes expected(bytes.begin() + static_cast<ptrdiff_t>(offset),
                         bytes.begin() + static_cast<ptrdiff_t>(offset + length));
    EXPECT_TRUE(read_file(folder / "out") == expected) << offset;
  }
}

TEST(Run, WritesAtAnyOffsetOfAnOpenFile) {
  Random random(6);
  const TemporaryFolder folder;
  const Bytes bytes = random_bytes(random, 100'000);
  auto file = io::File::create_output(folder / "both");
  ASSERT_TRUE(file.has_value());
  std::vector<Output> outputs;
  outputs.push_back({.file = &*file, .offset = 0, .bytes_max = bytes.size()});
  outputs.push_back({.file = &*file, .offset = bytes.size(), .bytes_max = bytes.size()});
  const auto result = run({}, std::move(outputs),
                          [&](Streams& streams) -> Status {
                            for (size_t at = 0; at < bytes.size(); at += 1000) {
                              for (uint32_t j = 0; j < 2; ++j)
                                streams.output(j).append(bytes.data() + at, 1000);
                            }
                            return {};
                          },
                          {.memory_bytes = 256 * KiB, .block_bytes = 4096});
  ASSERT_TRUE(result.has_value()) << result.error().message();
  ASSERT_TRUE(file->publish().has_value());
  Bytes twice = bytes;
  twice.insert(twice.end(), bytes.begin(), bytes.end());
  EXPECT_TRUE(read_file(folder / "both") == twice);
}

TEST(Run, ReadsAPipeToItsEnd) {
  for (size_t bytes : {size_t{0}, size_t{1}, size_t{8192}, size_t{100'000}}) {
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    Random random(bytes);
    const Bytes sent = random_bytes(random, bytes);
    std::thread writer([&] {
      size_t at = 0;
      while (at < sent.size()) {
        const auto written = ::write(ends[1], sent.data() + at, sent.size() - at);
        if (written <= 0) break;
        at += static_cast<size_t>(written);
      }
      ::close(ends[1]);
    });
    Bytes received;
    uint64_t known = 0;
    const auto result = run({{.path = fmt::format("/dev/fd/{}", ends[0])}}, {},
                            [&](Streams& streams) -> Status {
                              InputStream& in = streams.input(0);
                              for (;;) {
                                const auto window = in.window();
                                if (window.empty()) break;
                                received.insert(received.end(), window.begin(), window.end());
                                in.advance(window.size());
                              }
                              known = in.bytes();
                              return {};
                            },
                            {.memory_bytes = 64 * KiB, .block_bytes = 4096});
    writer.join();
    ::close(ends[0]);
    ASSERT_TRUE(result.has_value()) << result.error().message();
    EXPECT_TRUE(received == sent);
    EXPECT_EQ(known, sent.size());
  }
}

// Limits the descriptors to `in_all` during its lifetime.
class FewDescriptors {
 public:
  explicit FewDescriptors(size_t in_all) {
    EXPECT_EQ(::getrlimit(RLIMIT_NOFILE, &before_), 0);
    const rlimit few = {in_all, before_.rlim_max};
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  }
  ~FewDescriptors() { ::setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_ = {};
};

// `more`: the number of descriptors that the run may open, if limited.
void expect_thousands_of_inputs_read(std::optional<size_t> more) {
  const TemporaryFolder folder;
  constexpr uint32_t files = 500;
  std::vector<Input> inputs;
  for (uint64_t i = 0; i < files; ++i) {
    Bytes bytes(10'000);
    std::memcpy(bytes.data(), &i, sizeof i);
    write_file(folder / fmt::format("{}", i), bytes);
    inputs.push_back({.path = folder / fmt::format("{}", i)});
  }
  size_t descriptors_max = 0;
  const auto result = run(std::move(inputs), {},
                          [&](Streams& streams) -> Status {
                            std::optional<FewDescriptors> few;
                            if (more) few.emplace(os::descriptors() + *more);
                            for (uint64_t round = 0; round < 10; ++round) {
                              for (uint64_t i = 0; i < files; ++i) {
                                InputStream& in = streams.input(static_cast<uint32_t>(i));
                                const auto window = in.window(1000);
                                uint64_t first = 0;
                                std::memcpy(&first, window.data(), sizeof first);
                                EXPECT_EQ(first, round == 0 ? i : 0);
                                in.advance(1000);
                              }
                              if (!more)
                                descriptors_max = std::max(descriptors_max, os::descriptors());
                            }
                            return {};
                          },
                          {.memory_bytes = 16 * MiB, .block_bytes = 4096});
  ASSERT_TRUE(result.has_value()) << result.error().message();
  EXPECT_EQ(result->bytes_read, files * 10'000u);
  EXPECT_LT(descriptors_max, 450u);
}

TEST(Run, ThousandsOfInputsNeedFewDescriptors) {
  expect_thousands_of_inputs_read({});
}

TEST(Run, ThousandsOfInputsDoWithFewerDescriptorsThanAreWanted) {
  expect_thousands_of_inputs_read(200);
}

// So few descriptors that all open files have requests in flight.
TEST(Run, ThousandsOfInputsWaitForDescriptors) {
  expect_thousands_of_inputs_read(20);
}

// Not even closing other inputs frees enough descriptors.
TEST(Run, WithoutDescriptorsForItsInputsItEnds) {
  if (os::shadowed) GTEST_SKIP() << "a sanitizer looks at memory through a pipe";
  const TemporaryFolder folder;
  std::vector<Input> inputs;
  for (uint32_t i = 0; i < 500; ++i) {
    write_file(folder / fmt::format("{}", i), Bytes(10'000));
    inputs.push_back({.path = folder / fmt::format("{}", i)});
  }
  const auto result = run(std::move(inputs), {},
                          [&](Streams& streams) -> Status {
                            const FewDescriptors few(0);
                            for (uint32_t i = 0; i < 500; ++i) {
                              InputStream& in = streams.input(i);
                              while (const size_t bytes = in.window(1).size()) in.advance(bytes);
                            }
                            return {};
                          },
                          {.memory_bytes = 4 * MiB, .block_bytes = 4096});
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().system_errno, EMFILE);
}

TEST(Run, ASourceThatCannotBeMadeEndsTheRun) {
  const TemporaryFolder folder;
  Bytes compressed(100'000);
  compressed[0] = std::byte{0x1f};  // gzip
  compressed[1] = std::byte{0x8b};
  compressed[2] = std::byte{8};
  write_file(folder / "in", compressed);
  const auto refuse = [](const io::File&) -> Result<std::unique_ptr<Source>> {
    return failure(ErrorCode::corrupt, "understand the file", "in");
  };
  const auto result = run({{.path = folder / "in", .source = {}, .source_of = refuse}}, {},
                          [&](Streams& streams) -> Status {
                            InputStream& in = streams.input(0);
                            while (const size_t bytes = in.window(1).size()) in.advance(bytes);
                            return {};
                          },
                          {.memory_bytes = 4 * MiB});
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().code, ErrorCode::corrupt);
}

TEST(Run, AnErrorOfTheComputationIsTheRunsAndNoOutputGetsAName) {
  const TemporaryFolder folder;
  const auto result = run({}, {{.path = folder / "out"}},
                          [](Streams& streams) -> Status {
                            const uint64_t item = 1;
                            streams.output(0).append(&item, sizeof item);
                            return failure(ErrorCode::corrupt, "understand an item", "test");
                          },
                          {.memory_bytes = MiB});
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().code, ErrorCode::corrupt);
  EXPECT_EQ(folder.files(), 0u);
}

TEST(Run, AnExceptionOfTheComputationPassesThrough) {
  const TemporaryFolder folder;
  EXPECT_THROW((void)run({}, {{.path = folder / "out"}},
                         [](Streams&) -> Status { throw std::runtime_error("mine"); },
                         {.memory_bytes = MiB}),
               std::runtime_error);
  EXPECT_EQ(folder.files(), 0u);
}

TEST(Run, CanBeCancelled) {
  const TemporaryFolder folder;
  std::atomic<bool> cancel = false;
  const auto result = run({}, {{.path = folder / "out"}},
                          [&](Streams& streams) -> Status {
                            const uint64_t item = 1;
                            for (uint64_t k = 0; streams.output(0).append(&item, 8); ++k)
                              if (k == 100'000) cancel = true;
                            return {};
                          },
                          {.memory_bytes = MiB, .cancel = &cancel});
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().code, ErrorCode::cancelled);
}

TEST(Run, ReportsACancelToAComputationThatAsksForNothing) {
  const TemporaryFolder folder;
  std::atomic<bool> cancel = false;
  Status seen;
  const auto result = run({}, {{.path = folder / "out"}},
                          [&](Streams& streams) -> Status {
                            EXPECT_TRUE(streams.status().has_value());
                            cancel = true;
                            seen = streams.status();
                            return {};
                          },
                          {.memory_bytes = MiB, .cancel = &cancel});
  ASSERT_FALSE(seen.has_value());
  EXPECT_EQ(seen.error().code, ErrorCode::cancelled);
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().code, ErrorCode::cancelled);
}

// The pipe's writer sends nothing before the run has ended.
TEST(Run, EndsEarlyWithoutWaitingForASilentPipe) {
  const TemporaryFolder folder;
  write_file(folder / "in", Bytes(100'000));
  for (const bool fails : {false, true}) {
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    const auto result = run({{.path = folder / "in"}, {.path = fmt::format("/dev/fd/{}", ends[0])}},
                            {{.path = folder / "out"}},
                            [&](Streams& streams) -> Status {
                              const auto window = streams.input(0).window(10);
                              streams.output(0).append(window.data(), 10);
                              if (fails)
                                return failure(ErrorCode::corrupt, "like what it sees", "in");
                              return {};
                            },
                            {.memory_bytes = 256 * KiB, .block_bytes = 4096});
    ::close(ends[0]);
    ::close(ends[1]);
    ASSERT_EQ(result.has_value(), !fails);
    if (!fails) {
      EXPECT_EQ(read_file(folder / "out").size(), 10u);
    } else {
      EXPECT_EQ(result.error().code, ErrorCode::corrupt);
    }
  }
}

TEST(Run, NeedNotReadItsInputsToTheirEnds) {
  Random random(9);
  const TemporaryFolder folder;
  write_file(folder / "in", random_bytes(random, MiB));
  const auto result = run({{.path = folder / "in"}}, {{.path = folder / "out"}},
                          [](Streams& streams) -> Status {
                            const auto window = streams.input(0).window(10);
                            streams.output(0).append(window.data(), 10);
                            return {};
                          },
                          {.memory_bytes = 128 * KiB, .block_bytes = 4096});
  ASSERT_TRUE(result.has_value()) << result.error().message();
  EXPECT_EQ(result->bytes_written, 10u);
  EXPECT_LT(result->bytes_read, MiB);
}

TEST(Run, LeavesThePointersCodeByItsRecoveryPoint) {
  Random random(10);
  const TemporaryFolder folder;
  write_file(folder / "in", random_bytes(random, MiB));
  const Injected injected({.error = EIO, .error_after = 5, .error_operation = io::Operation::read});
  bool came_to_the_end = false;
  const auto result =
      run({{.path = folder / "in"}}, {},
          [&](Streams& streams) -> Status {
            uint64_t sum = 0;
            const InputStream& in = streams.input(0);
            for (const std::byte* at = in.begin(); at < in.end(); ++at)
              sum += static_cast<uint64_t>(*at);
            came_to_the_end = sum != 1;
            return {};
          },
          {.memory_bytes = 64 * KiB, .block_bytes = 4096, .on_error = ErrorPolicy::recover});
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().code, ErrorCode::io);
  EXPECT_FALSE(came_to_the_end);
}

TEST(Run, ReportsTooSmallAMemory) {
  const TemporaryFolder folder;
  std::vector<Output> outputs;
  for (int j = 0; j < 100; ++j) outputs.push_back({.path = folder / fmt::format("{}", j)});
  const auto result = run({}, std::move(outputs), [](Streams&) -> Status { return {}; },
                          {.memory_bytes = 100 * KiB});
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().code, ErrorCode::out_of_memory);
  EXPECT_FALSE(result.error().hint.empty());
}

// A policy whose only action can never be done.
class IdleScheduler final : public Scheduler {
 public:
  IdleScheduler() : Scheduler({.input_memory_bytes = 0, .output_memory_bytes = MiB}) {}
  Action next(const View&) override { return {.kind = Action::Kind::compute}; }
};

TEST(Run, APolicyThatMovesNothingIsNoticed) {
  const TemporaryFolder folder;
  IdleScheduler scheduler;
  const auto result = run({}, {{.path = folder / "out"}},
                          [](Streams& streams) -> Status {
                            const uint64_t item = 1;
                            while (streams.output(0).append(&item, 8)) {
                            }
                            return {};
                          },
                          {.memory_bytes = MiB, .block_bytes = 4096, .scheduler = &scheduler});
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().code, ErrorCode::invalid_argument);
}

// ---- Against the theorems.

// Figure 5 d of the paper, drawn by the executor itself.
TEST(Run, ItsBucketsAreTheTheoremsStaircase) {
  for (auto [n, m] : {std::pair{1u, 16u}, {12u, 1u}, {6u, 10u}}) {
    SCOPED_TRACE(fmt::format("{} x {}", n, m));
    const TemporaryFolder folder;
    const uint64_t bytes = 48 * MiB;
    std::vector<Input> inputs;
    for (uint32_t i = 0; i < n; ++i) {
      write_file(folder / fmt::format("in{}", i), Bytes(bytes / n / 4096 * 4096));
      inputs.push_back({.path = folder / fmt::format("in{}", i)});
    }
    std::vector<Output> outputs;
    for (uint32_t j = 0; j < m; ++j) outputs.push_back({.path = folder / fmt::format("out{}", j)});
    const auto result = run(std::move(inputs), std::move(outputs), spread(n * 7 + m),
                            {.memory_bytes = 4 * MiB,
                             .block_bytes = 4096,
                             .comeback_blocks = 0,
                             .record_staircases = true});
    ASSERT_TRUE(result.has_value()) << result.error().message();
    ASSERT_EQ(result->staircases.size(), 1u);
    const Staircases& stairs = result->staircases.front();
    auto expect_near = [](const MeasuredStairs& measured, const std::vector<double>& predicted) {
      if (predicted.empty()) return;
      ASSERT_EQ(measured.bytes.size(), predicted.size());
      EXPECT_GT(measured.steps, 2u);
      for (size_t i = 0; i < predicted.size(); ++i)
        EXPECT_NEAR(measured.bytes[i], predicted[i], 0.2 * predicted[0]) << "stair " << i;
    };
    expect_near(stairs.input, input_staircase(stairs.schedule));
    expect_near(stairs.output, output_staircase(stairs.schedule));
    EXPECT_FALSE(input_staircase(stairs.schedule).empty() &&
                 output_staircase(stairs.schedule).empty());
  }
}

TEST(Run, NamesTheEmulatedDeviceAndTakesItsTime) {
  const TemporaryFolder folder;
  write_file(folder / "in", Bytes(8 * MiB));
  const Emulated emulated(
      {.read_bytes_per_s = 200e6, .write_bytes_per_s = 200e6, .switch_seconds = 0.001});
  std::vector<Output> outputs;
  for (int j = 0; j < 8; ++j) outputs.push_back({.path = folder / fmt::format("{}", j)});
  const auto result = run({{.path = folder / "in"}}, std::move(outputs), spread(1),
                          {.memory_bytes = 2 * MiB, .block_bytes = 4096, .comeback_blocks = 0});
  ASSERT_TRUE(result.has_value()) << result.error().message();
  EXPECT_FALSE(result->emulated.empty());
  ASSERT_TRUE(result->prediction.has_value());
  const io::EmulatedTraffic traffic = io::emulated_traffic();
  EXPECT_EQ(traffic.switches, result->switches());
  EXPECT_EQ(traffic.bytes_read, result->bytes_read);
  EXPECT_EQ(traffic.bytes_written, result->bytes_written);
  // A device cannot be faster than its busy time.
  EXPECT_GE(result->seconds, traffic.busy_seconds - 0.001);
}

// ---- penstock/bowtie.h

Status interleave(Streams& streams) {
  for (bool any = true; any;) {
    any = false;
    for (uint32_t i = 0; i < streams.inputs(); ++i) {
      const auto window = streams.input(i).window(1);
      if (window.empty()) continue;
      any = true;
      if (!streams.output(0).append(window.data(), 1)) return streams.status();
      streams.input(i).advance(1);
    }
  }
  return streams.status();
}

TEST(RunOfPaths, BytesGoFromFilesAndPipesToFiles) {
  const TemporaryFolder folder;
  std::ofstream(folder / "letters") << "ace";
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  std::jthread writer([&] { std::ofstream(folder / "pipe") << "bdfgh"; });
  const auto done = run({.inputs = {folder / "letters", folder / "pipe"},
                         .outputs = {folder / "out"},
                         .memory_bytes = 4 * MiB,
                         .device = std::make_shared<const DeviceProfile>(paper_array())},
                        interleave);
  ASSERT_TRUE(done) << done.error().message();
  const Bytes out = read_file(folder / "out");
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(out.data()), out.size()), "abcdefgh");
  EXPECT_EQ(done->bytes_written, 8u);
  EXPECT_EQ(done->output_bytes, std::vector<uint64_t>{8});
  EXPECT_GT(done->memory_peak_bytes, 0u);
  EXPECT_LE(done->memory_peak_bytes, 4 * MiB);
  EXPECT_TRUE(done->predicted_seconds.has_value());
}

TEST(RunOfPaths, AfterAnErrorThereIsNoOutput) {
  const TemporaryFolder folder;
  std::ofstream(folder / "in") << "text";
  const auto refused =
      run({.inputs = {folder / "in"}, .outputs = {folder / "out"}, .memory_bytes = 4 * MiB},
          [](Streams& streams) -> Status {
            (void)streams.output(0).append("x", 1);
            return failure(ErrorCode::unsorted, "like it");
          });
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::unsorted);
  EXPECT_FALSE(std::filesystem::exists(folder / "out"));
  const auto missing = run({.inputs = {folder / "none"}}, interleave);
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, ErrorCode::not_found);
}

TEST(RunOfPaths, TooManyStreamsForTheMemoryAreReported) {
  const TemporaryFolder folder;
  Options options{.memory_bytes = 64 * KiB, .block_bytes = 64 * KiB};
  for (int i = 0; i < 50; ++i) {
    options.inputs.push_back(folder / ("in-" + std::to_string(i)));
    std::ofstream(options.inputs.back()) << "x";
  }
  options.outputs = {folder / "out"};
  const auto refused = run(options, interleave);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::out_of_memory) << refused.error().message();
  EXPECT_FALSE(std::filesystem::exists(folder / "out"));
}

}  // namespace
}  // namespace penstock::bowtie
