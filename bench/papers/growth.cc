// How does the cost grow with the length of a stream, and with the number of streams?
//
// Lengths, from 1 GB to 100 TB of addresses: every point moves the same amount of data, in pieces
// of one block, spread evenly over the stream by jumping forward (streams up to that amount are
// read in full). Each point is a process of its own; "page tables" is their growth at the end, the
// stream still open, "memory" the peak of resident memory beyond the process's own. growth_time_*:
// the cost of a GB in the longest stream relative to the 1 GB stream; 1.0 is flat, less is cheaper.
//
// Numbers, from 1 to 10,000 streams in one process: all are opened, each is used a little (two
// blocks of 4 KiB written and read by one thread), all are closed. A RemapStream takes 7 mappings,
// so the default vm.max_map_count allows 9,000 of them. growth_streams_*: the cost of a stream at
// the largest number relative to that at 10. The ratios without a stream's name are the worst.

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "bench/harness/bench.h"
#include "bench/harness/isolated.h"
#include "bench/harness/loops.h"
#include "os/memory.h"
#include "penstock/base.h"
#include "penstock/stream.h"

namespace penstock::bench {
namespace {

constexpr size_t block_bytes = 2 * MiB;
constexpr uint64_t GB = 1'000'000'000;
constexpr uint64_t TB = 1000 * GB;
const Loops& loops = items_of_64_bytes;

// ---- Lengths.

// The blocks of a stream to move: `blocks` of them, `stride_blocks` apart.
struct Walk {
  uint64_t bytes;  // length of the stream
  uint64_t blocks;
  uint64_t stride_blocks;
  uint64_t at(uint64_t i) const { return i * stride_blocks * block_bytes; }
};

Walk walk_over(uint64_t bytes, uint64_t bytes_moved) {
  const uint64_t all = bytes / block_bytes;
  const uint64_t blocks = std::min(all, bytes_moved / block_bytes);
  return {bytes, blocks, all / blocks};
}

uint64_t expected_total(const Walk& walk) {
  uint64_t total = 0;
  constexpr uint64_t numbers = block_bytes / sizeof(uint64_t);
  for (uint64_t i = 0; i < walk.blocks; ++i)
    total += sum_of_numbers(block_bytes) + numbers * (walk.at(i) / sizeof(uint64_t));
  return total;
}

uint64_t consume(const char* from, const Walk& walk) {
  uint64_t total = 0;
  for (uint64_t i = 0; i < walk.blocks; ++i) total += loops.sum(from + walk.at(i), block_bytes);
  return total;
}

// Bytes of a pool's pages that are mapped at several addresses.
uint64_t shared_bytes(const RemapStream& stream) {
  return stream.mechanism() == Mechanism::shared ? stream.memory_bytes() : 0;
}
uint64_t shared_bytes(const GuardStream&) {
  return 0;
}

// Streams with two sides. With a read-ahead of one block and no comebacks the producer never enters
// a block that the consumer has not reached, as GuardStream requires.
template <class Stream>
Result<uint64_t> move_through(const Walk& walk, Probe& probe) {
  auto stream = Stream::open({.bytes = walk.bytes,
                              .block_bytes = block_bytes,
                              .read_ahead_blocks = 1,
                              .producer_comeback_blocks = 0,
                              .consumer_comeback_blocks = 0});
  if (!stream) return std::unexpected(stream.error());
  uint64_t total = 0;
  {
    std::jthread producer([&] {
      for (uint64_t i = 0; i < walk.blocks; ++i)
        loops.fill(stream->writer() + walk.at(i), block_bytes, walk.at(i) / sizeof(uint64_t));
      (void)stream->finish(walk.at(walk.blocks - 1) + block_bytes);
    });
    total = consume(stream->reader(), walk);
  }
  probe.held(shared_bytes(*stream));
  return total;
}

Result<uint64_t> move_by_pull(const Walk& walk, Probe& probe) {
  auto stream =
      PullStream::open({.bytes = walk.bytes, .block_bytes = block_bytes, .random_access = true},
                       [](std::span<std::byte> block, uint64_t offset) -> Result<size_t> {
                         loops.fill(block.data(), block.size(), offset / sizeof(uint64_t));
                         return block.size();
                       });
  if (!stream) return std::unexpected(stream.error());
  const uint64_t total = consume(stream->begin(), walk);
  probe.held();
  return total;
}

struct Kind {
  const char* name;
  uint64_t bytes_max;
  Result<uint64_t> (*move)(const Walk&, Probe&);
};

// RemapStream needs two ranges.
constexpr Kind kinds[] = {{"PullStream", 100 * TB, move_by_pull},
                          {"GuardStream", 100 * TB, move_through<GuardStream>},
                          {"RemapStream", 40 * TB, move_through<RemapStream>}};

// A process has 128 TiB of addresses, but Linux puts a position-independent program at two thirds
// of them: then the longest range is 85 TiB.
uint64_t longest_range() {
  constexpr uint64_t in_halves = 90 * TB;
  return os::Reservation::reserve(101 * TB) ? 100 * TB : in_halves;
}

// The cost of a GB in the longest stream relative to the shortest.
Result<double> measure_lengths(const Kind& kind, const std::vector<uint64_t>& lengths,
                               uint64_t bytes_moved, unsigned runs, Report& report) {
  std::vector<double> costs;
  for (uint64_t length : lengths) {
    if (length > kind.bytes_max) continue;
    const Walk walk = walk_over(length, bytes_moved);
    const double gigabytes = static_cast<double>(walk.blocks * block_bytes) / 1e9;
    std::vector<double> seconds, resident, tables;
    for (unsigned run = 0; run < runs; ++run) {
      auto measured = run_isolated([&](Probe& probe) { return kind.move(walk, probe); });
      if (!measured) return std::unexpected(measured.error());
      report.hash(measured->result);
      if (measured->result != expected_total(walk))
        return failure(ErrorCode::corrupt, "sum what went through", kind.name);
      seconds.push_back(measured->seconds / gigabytes);
      resident.push_back(static_cast<double>(measured->peak_bytes) / 1e6);
      tables.push_back(static_cast<double>(measured->page_table_bytes) / 1e6);
    }
    const std::string name = fmt::format("{} of {} GB", kind.name, length / GB);
    costs.push_back(report.add(name, "s/GB", std::move(seconds)));
    report.add(name + ": memory", "MB", std::move(resident));
    report.add(name + ": page tables", "MB", std::move(tables));
  }
  const double growth = costs.back() / costs.front();
  report.ratio(fmt::format("growth_time_{}", kind.name), growth);
  return growth;
}

// ---- Numbers of streams.

constexpr size_t small_block_bytes = 4 * KiB;
constexpr uint64_t bytes_used = 2 * small_block_bytes;

// One thread is both sides, and stays within the read-ahead.
template <class Stream>
Status use(Stream& stream) {
  loops.fill(stream.writer(), bytes_used, 0);
  if (auto finished = stream.finish(bytes_used); !finished) return finished;
  if (loops.sum(stream.reader(), bytes_used) != sum_of_numbers(bytes_used))
    return failure(ErrorCode::corrupt, "sum what went through", "stream");
  return {};
}

template <class Stream>
Result<uint64_t> use_many(uint64_t streams, Probe& probe) {
  std::vector<Stream> open;
  open.reserve(streams);
  for (uint64_t i = 0; i < streams; ++i) {
    auto stream = Stream::open({.bytes = 16 * MiB,
                                .block_bytes = small_block_bytes,
                                .read_ahead_blocks = 4,
                                .producer_comeback_blocks = 0,
                                .consumer_comeback_blocks = 0});
    if (!stream) return std::unexpected(stream.error());
    open.push_back(std::move(*stream));
    if (auto used = use(open.back()); !used) return std::unexpected(used.error());
  }
  probe.held();
  return streams;
}

struct Crowd {
  const char* name;
  uint64_t streams_max;
  Result<uint64_t> (*use)(uint64_t, Probe&);
};

constexpr Crowd crowds[] = {{"RemapStream", 9'000, use_many<RemapStream>},
                            {"GuardStream", 10'000, use_many<GuardStream>}};

// The cost of a stream at the largest number relative to that at 10.
Result<double> measure_numbers(const Crowd& crowd, const std::vector<uint64_t>& numbers,
                               unsigned runs, Report& report) {
  std::map<uint64_t, double> cost;
  for (uint64_t number : numbers) {
    const uint64_t streams = std::min(number, crowd.streams_max);
    const auto each = static_cast<double>(streams);
    std::vector<double> microseconds, resident, tables, maps;
    for (unsigned run = 0; run < runs; ++run) {
      auto used = run_isolated([&](Probe& probe) { return crowd.use(streams, probe); });
      if (!used) return std::unexpected(used.error());
      microseconds.push_back(used->seconds / each * 1e6);
      resident.push_back(static_cast<double>(used->peak_bytes) / each / 1e3);
      tables.push_back(static_cast<double>(used->page_table_bytes) / each / 1e3);
      maps.push_back(static_cast<double>(used->mappings) / each);
    }
    const std::string name = fmt::format("{} of {}, each", streams, crowd.name);
    cost[streams] = report.add(name + ": opened, used, closed", "us", std::move(microseconds));
    report.add(name + ": memory", "KB", std::move(resident));
    report.add(name + ": page tables", "KB", std::move(tables));
    report.add(name + ": mappings", "", std::move(maps));
  }
  const double growth = cost.rbegin()->second / cost[10];
  report.ratio(fmt::format("growth_streams_{}", crowd.name), growth);
  return growth;
}

Result<Report> run_growth(const Options& options) {
  const uint64_t bytes_moved = options.quick ? 128 * MiB : 4 * GiB;
  const uint64_t longest = longest_range();
  const std::vector<uint64_t> lengths =
      options.quick ? std::vector<uint64_t>{GB, 10 * TB, longest}
                    : std::vector<uint64_t>{GB, 10 * GB, 100 * GB, TB, 10 * TB, 40 * TB, longest};
  const std::vector<uint64_t> numbers = options.quick
                                            ? std::vector<uint64_t>{1, 10, 100}
                                            : std::vector<uint64_t>{1, 10, 100, 1000, 10'000};
  const unsigned runs = options.runs_or(3);
  Report report;
  double time = 0, number = 0;
  for (const Kind& kind : kinds) {
    auto growth = measure_lengths(kind, lengths, bytes_moved, runs, report);
    if (!growth) return std::unexpected(growth.error());
    time = std::max(time, *growth);
  }
  for (const Crowd& crowd : crowds) {
    auto growth = measure_numbers(crowd, numbers, runs, report);
    if (!growth) return std::unexpected(growth.error());
    number = std::max(number, *growth);
  }
  report.ratio("growth_time", time);
  report.ratio("growth_streams", number);
  return report;
}

const Registration registration{
    "growth", "what a stream costs as it becomes longer, and as there are more of them",
    run_growth};

}  // namespace
}  // namespace penstock::bench
