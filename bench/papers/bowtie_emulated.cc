// Does streaming between hundreds of real files run as equation 2 predicts, on a disk that seeks?
//
// The disk is emulated: the data really move, and each request ends when the emulated device would
// have ended it (src/io/emulation.h). All rows say "emulated".
//
// The scale. Equation 2 depends on delta S / L, the length of a switch relative to a run, and L
// grows with the memory. So the paper's array (3.55 GB/s, 9 ms) with 8 GB of memory behaves like a
// device of 250 MB/s with 256 MiB and a switch of 9 ms times 3.55e9 / 250e6 times 256 MiB / 8 GB,
// for every number of streams. STXXL's blocks of 2 MiB shrink with the memory, too.
//
// The runs: one file of random numbers distributed to m buckets (D1, algorithm A2), with the
// paper's m for inputs of m times the memory; the merge of as many runs as STXXL would have for
// that (2 m, as half of its memory sorts), with our schedule and with STXXL's: a block whenever one
// is needed, and an eighth of the memory written at a time. A merge of random keys takes from its
// inputs at random, so this is all that is done here: a schedule sees nothing else of it.
//
// Source: "On High-Latency Bowtie Data Streaming", sections III and VII.

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <vector>

#include "base/random.h"
#include "bench/harness/bench.h"
#include "bench/harness/scratch.h"
#include "files/bowtie/computations.h"
#include "files/bowtie/device_profile.h"
#include "files/bowtie/run.h"
#include "io/emulation.h"
#include "io/engine.h"
#include "io/file.h"
#include "papers/bowtie/schedulers.h"
#include "papers/bowtie/simulator.h"
#include "penstock/base.h"

namespace penstock::bench {
namespace {

using namespace penstock::papers;  // includes penstock::bowtie

struct Scale {
  uint64_t memory_bytes;
  uint64_t distribute_bytes;
  uint64_t merge_bytes;
  uint64_t block_merge_bytes;  // STXXL's merge is slow, and always the same
  size_t block_bytes;
  double bytes_per_s;
  std::vector<uint32_t> buckets;
};

Scale scale_of(const Options& options) {
  if (options.quick) return {8 * MiB, 48 * MiB, 48 * MiB, 8 * MiB, 16 * KiB, 250e6, {16}};
  return {256 * MiB, 2 * GiB, GiB, 128 * MiB, 64 * KiB, 250e6, {64, 256, 512}};
}

io::EmulatedDevice device_of(const Scale& scale) {
  constexpr double paper_memory_bytes = 8e9;
  const DeviceProfile& array = paper_array();
  const double speed = array.read_bytes_per_s / scale.bytes_per_s;
  const double memory = static_cast<double>(scale.memory_bytes) / paper_memory_bytes;
  return {.read_bytes_per_s = scale.bytes_per_s,
          .write_bytes_per_s = scale.bytes_per_s,
          .switch_seconds = array.switch_seconds.at(1, 64) * speed * memory};
}

// Emulates the device during its lifetime.
class Emulation {
 public:
  explicit Emulation(const io::EmulatedDevice& device) { io::emulate(device); }
  ~Emulation() { io::emulate(std::nullopt); }
};

constexpr uint64_t seed = 42;

// Number k of the input.
uint64_t number(uint64_t k) {
  return mix64(seed + k);
}

Status make_input(const std::string& path, uint64_t bytes) {
  auto file = io::File::create_output(path);
  if (!file) return std::unexpected(file.error());
  std::vector<uint64_t> numbers(2 * MiB / sizeof(uint64_t));
  for (uint64_t at = 0; at < bytes; at += 2 * MiB) {
    for (size_t k = 0; k < numbers.size(); ++k) numbers[k] = number(at / sizeof(uint64_t) + k);
    auto written = io::write_exactly(*file, at, reinterpret_cast<const std::byte*>(numbers.data()),
                                     std::min<uint64_t>(2 * MiB, bytes - at));
    if (!written) return written;
  }
  return file->publish();
}

// Checks that every number is in the bucket of its first bits, and none is missing.
Result<uint64_t> check_buckets(const Scratch& scratch, uint32_t buckets, uint64_t bytes) {
  uint64_t sum = 0;
  for (uint64_t k = 0; k < bytes / sizeof(uint64_t); ++k) sum += number(k);
  uint64_t digest = 0;
  uint64_t count = 0;
  std::vector<uint64_t> numbers(2 * MiB / sizeof(uint64_t));
  const unsigned shift = 64 - static_cast<unsigned>(std::bit_width(buckets - 1));
  for (uint32_t j = 0; j < buckets; ++j) {
    auto file = io::File::open_read(scratch.file(fmt::format("bucket{}", j)));
    if (!file) return std::unexpected(file.error());
    auto size = file->size();
    if (!size) return std::unexpected(size.error());
    for (uint64_t at = 0; at < *size; at += 2 * MiB) {
      const uint64_t here = std::min<uint64_t>(2 * MiB, *size - at);
      auto read = io::read_exactly(*file, at, reinterpret_cast<std::byte*>(numbers.data()), here);
      if (!read) return std::unexpected(read.error());
      for (size_t k = 0; k < here / sizeof(uint64_t); ++k) {
        if (numbers[k] >> shift != j)
          return failure(ErrorCode::corrupt, "find only its own numbers in a bucket", file->path());
        sum -= numbers[k];
        ++count;
      }
    }
    digest = mix64(digest ^ *size);
  }
  if (sum != 0 || count != bytes / sizeof(uint64_t))
    return failure(ErrorCode::corrupt, "find all numbers in the buckets", "bowtie-emulated");
  return digest;
}

// Reads its inputs like a merge of random keys.
Computation random_merge() {
  return [](Streams& streams) -> Status {
    constexpr size_t item_bytes = 256;
    Random random(seed);
    std::vector<uint32_t> live(streams.inputs());
    for (uint32_t i = 0; i < live.size(); ++i) live[i] = i;
    while (!live.empty()) {
      const size_t at = random.below(live.size());
      InputStream& input = streams.input(live[at]);
      const auto window = input.window(item_bytes);
      if (window.size() < item_bytes) {
        if (auto status = input.status(); !status) return status;
        live.erase(live.begin() + static_cast<ptrdiff_t>(at));
        continue;
      }
      const auto room = streams.output(0).room(item_bytes);
      if (room.empty()) return streams.output(0).status();
      std::memcpy(room.data(), window.data(), item_bytes);
      streams.output(0).advance(item_bytes);
      input.advance(item_bytes);
    }
    return {};
  };
}

// Equal ranges of a file.
std::vector<Input> stretches(const io::File& file, uint64_t bytes, uint32_t count) {
  std::vector<Input> inputs;
  const uint64_t each = bytes / count / io::sector_bytes * io::sector_bytes;
  for (uint32_t i = 0; i < count; ++i)
    inputs.push_back({.file = &file, .offset = i * each, .bytes = each});
  return inputs;
}

// Adds the rows of one run; returns the prediction over the measurement.
double add_rows(Report& report, const std::string& name, const RunResult& result) {
  const double measured = result.bytes_per_s();
  report.add(name + ", measured", "MB/s", {measured / 1e6});
  report.add(name + ", switches", "", {static_cast<double>(result.switches())});
  report.add(name + ", bytes a run", "MB", {result.run_bytes / 1e6});
  report.add(name + ", device alone", "s", {result.seconds_reading + result.seconds_writing});
  report.add(name + ", device and computation", "s", {result.seconds_overlapped});
  report.add(name + ", computation alone", "s", {result.seconds_computing_alone});
  if (!result.prediction) return 0;
  const double predicted = result.prediction->throughput_bytes_per_s;
  report.add(name + ", predicted by equation 2", "MB/s", {predicted / 1e6});
  report.add(name + ", switches predicted", "", {result.prediction->traffic.switches});
  const auto bytes = static_cast<double>(result.bytes_read + result.bytes_written);
  if (const auto simulated = simulate(result.schedule, BowtieRun{.bytes = bytes}))
    report.add(name + ", switches simulated", "", {static_cast<double>(simulated->switches())});
  return predicted / measured;
}

Result<Report> run_bowtie_emulated(const Options& options) {
  Report report;
  const Scale scale = scale_of(options);
  auto scratch = Scratch::make(options.directory);
  if (!scratch) return std::unexpected(scratch.error());
  const std::string input_path = scratch->file("input");
  if (auto made = make_input(input_path, scale.distribute_bytes); !made)
    return std::unexpected(made.error());
  const io::EmulatedDevice device = device_of(scale);
  report.add(device.describe() + "; memory", "MiB",
             {static_cast<double>(scale.memory_bytes) / MiB});

  const RunOptions run_options{
      .memory_bytes = scale.memory_bytes, .block_bytes = scale.block_bytes, .comeback_blocks = 0};
  double farthest = 1;
  double first_rate = 0;
  for (const uint32_t buckets : scale.buckets) {
    std::vector<Output> outputs;
    for (uint32_t j = 0; j < buckets; ++j)
      outputs.push_back({.path = scratch->file(fmt::format("bucket{}", j))});
    const items::Format format{.type = items::Type::u64};
    const auto bits = static_cast<unsigned>(std::bit_width(buckets - 1));
    Result<RunResult> result;
    {
      const Emulation emulation(device);
      result = run({{.path = input_path}}, std::move(outputs),
                   distribute(format, by_key_bits(format, 0, bits)), run_options);
    }
    if (!result) return std::unexpected(result.error());
    const double ratio = add_rows(report, fmt::format("emulated, 1 to {}", buckets), *result);
    report.ratio(fmt::format("predicted_over_measured_m{}", buckets), ratio);
    if (std::abs(std::log(ratio)) > std::abs(std::log(farthest))) farthest = ratio;
    if (first_rate == 0) first_rate = result->bytes_per_s();
    auto digest = check_buckets(*scratch, buckets, scale.distribute_bytes);
    if (!digest) return std::unexpected(digest.error());
    report.hash(*digest);
    for (uint32_t j = 0; j < buckets; ++j)
      (void)std::remove(scratch->file(fmt::format("bucket{}", j)).c_str());
  }
  report.ratio("predicted_over_measured", farthest);

  // The merge for the first row's problem: a run for each half of the memory.
  const uint32_t runs = 2 * scale.buckets.front();
  auto input = io::File::open_read(input_path);
  if (!input) return std::unexpected(input.error());
  const std::string output_path = scratch->file("merged");
  double ours = 0;
  {
    const Emulation emulation(device);
    auto result = run(stretches(*input, scale.merge_bytes, runs), {{.path = output_path}},
                      random_merge(), run_options);
    if (!result) return std::unexpected(result.error());
    const double ratio = add_rows(report, fmt::format("emulated, {} to 1", runs), *result);
    report.ratio(fmt::format("predicted_over_measured_n{}", runs), ratio);
    ours = result->bytes_per_s();
    report.hash(result->bytes_written);
  }
  {
    const Emulation emulation(device);
    const uint64_t stxxl_block_bytes = scale.block_bytes;  // 2 MiB / 8 GB of the memory
    const uint64_t batch_bytes = scale.memory_bytes / 8;
    BlockScheduler scheduler(
        {.inputs = runs, .block_bytes = stxxl_block_bytes, .write_batch_bytes = batch_bytes});
    RunOptions block_options = run_options;
    block_options.scheduler = &scheduler;
    block_options.memory_bytes = batch_bytes + (2 * runs + 8) * stxxl_block_bytes;
    auto result = run(stretches(*input, scale.block_merge_bytes, runs), {{.path = output_path}},
                      random_merge(), block_options);
    if (!result) return std::unexpected(result.error());
    (void)add_rows(report, fmt::format("emulated, {} to 1, STXXL's schedule", runs), *result);
    report.hash(result->bytes_written);
    report.ratio("vs_stxxl_schedule", first_rate / result->bytes_per_s());
    report.ratio("merge_vs_stxxl_schedule", ours / result->bytes_per_s());
  }
  return report;
}

const Registration registration{"bowtie-emulated",
                                "distribution and merge of real files on an emulated disk array",
                                run_bowtie_emulated};

}  // namespace
}  // namespace penstock::bench
