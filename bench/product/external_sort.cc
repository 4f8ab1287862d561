// How far is the external sort from the disk's limit, and from other sorts?
//
// Numbers: 8 GiB of uniform u64 with a budget of 1 GiB, and as many times of a year, in
// microseconds. The bound is two reads and two writes of the data at the speed of the disk,
// measured before and after each run (a shared disk has better and worse minutes); times may take
// less, because their temporaries are packed. Lines: 20,000,000 ASCII records of the Sort Benchmark
// with 512 MiB, compared with GNU sort with the same memory, threads and folder for temporaries;
// both outputs must be the same, byte for byte.
//
// The numbers are also sorted by STXXL, DuckDB and polars with the same memory, once, after our
// first run: they are several times slower, so that noise does not matter. A rival that fails,
// takes more than ten minutes or is not installed has a row that says so.
//
// external-sort-memory: 2 GiB of u64, kv64, records and lines, with 32 MiB to 4 GiB. More memory
// must not make it slower, and each run must stay within its budget.
//
// external-sort-fast: a quarter of the numbers and records on /dev/shm, as a disk of many GB/s,
// without the databases; the numbers also with one, two, four threads and so on, up to the
// processors.
//
// Every program runs as a child, so that its memory is measured from outside, in memory that the
// machine has touched just before.

#include "files/sort/external_sort.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "base/random.h"
#include "bench/harness/bench.h"
#include "bench/harness/child.h"
#include "bench/harness/generate.h"
#include "bench/harness/pages.h"
#include "bench/harness/scratch.h"
#include "bench/rivals/external_rivals.h"
#include "files/sort/plan/probe.h"
#include "os/sanitizer.h"
#include "penstock/base.h"

namespace penstock::bench {
namespace {

namespace fs = std::filesystem;

constexpr unsigned usual_threads = 2;  // ours and the rivals'
constexpr uint64_t record_bytes = 100;

struct Sizes {
  uint64_t u64_bytes;
  uint64_t u64_memory_bytes;
  uint64_t disk_bytes;  // for measuring the disk's speed
  uint64_t records;
  uint64_t records_memory_bytes;
  uint64_t sweep_bytes;
  std::vector<uint64_t> sweep_memory_bytes;
};

const std::vector<std::string> u64_words = {"--format", "u64"};

Result<items::Format> u64_format() {
  return items::parse_format("u64", 8, "0:8");
}
Result<items::Format> record_format() {
  return items::parse_format("record", 100, "0:10");
}

// In a quick run the budget is the least that the sort works with, so that it has to use the disk
// if it can. A sanitized program is larger.
uint64_t least_memory_bytes(const items::Format& format) {
  external::SortOptions options;
  options.format = format;
  options.threads = usual_threads;
  return external::minimum_memory_bytes(options) + (os::shadowed ? 16 * MiB : 0);
}

Result<Sizes> sizes_of(bool quick) {
  if (!quick) {
    std::vector<uint64_t> memories;
    for (uint64_t memory = 32 * MiB; memory <= 4 * GiB; memory *= 2) memories.push_back(memory);
    return Sizes{8 * GiB, 1 * GiB, 4 * GiB, 20'000'000, 512 * MiB, 2 * GiB, std::move(memories)};
  }
  Result<items::Format> u64 = u64_format();
  Result<items::Format> record = record_format();
  if (!u64) return std::unexpected(u64.error());
  if (!record) return std::unexpected(record.error());
  const uint64_t least = least_memory_bytes(*u64);
  return Sizes{64 * MiB,
               least,
               64 * MiB,
               200'000,
               least_memory_bytes(*record),
               64 * MiB,
               {least, 2 * least, 4 * least}};
}

std::string in_bytes(uint64_t bytes) {
  return fmt::format("{}b", bytes);
}

nlohmann::json parse(const std::string& text) {
  return nlohmann::json::parse(text, nullptr, false);
}

class Bench {
 public:
  Bench(const Options& options, const Sizes& sizes, const Scratch& scratch, bool with_rivals)
      : options_(options), sizes_(sizes), scratch_(scratch), with_rivals_(with_rivals) {}

  Status numbers();
  Status times();
  Status records();
  Status speedups();
  Status memory_sweeps();
  Report take_report() { return std::move(report_); }

 private:
  Status memory_sweep(const std::string& name, const std::vector<std::string>& format);
  Result<ChildRun> penstock(std::vector<std::string> words) const {
    words.insert(words.begin(), options_.program);
    return run_child(words);
  }
  Result<ChildRun> sort(const std::string& input, const std::string& output,
                        std::vector<std::string> format, uint64_t memory_bytes,
                        unsigned threads = usual_threads) const;
  Result<nlohmann::json> check(const std::string& path, std::vector<std::string> format) const;
  // Sorts items whose check returned `before`, has the output verified, and removes it.
  Result<ChildRun> sort_and_check(const std::string& input, const std::vector<std::string>& format,
                                  uint64_t memory_bytes, const nlohmann::json& before,
                                  unsigned threads = usual_threads) const;
  Result<nlohmann::json> make_input(const std::string& path, const std::vector<std::string>& format,
                                    uint64_t bytes) const;
  // Sorts the numbers in `input`, and compares the time with the disk's bound, and with rivals.
  Status race(const std::string& name, const std::string& input, const nlohmann::json& before,
              bool with_rivals);
  // `our_seconds`: of the run to compare with.
  void rivals(const std::string& input, const nlohmann::json& checked, double our_seconds);
  Status compare(const std::string& one, const std::string& other) const;
  void hash_checksum(const nlohmann::json& checked) {
    auto text = checked.value("checksum", std::string{});
    report_.hash(std::as_bytes(std::span(text)));
  }
  unsigned runs() const { return options_.runs_or(3); }

  const Options& options_;
  const Sizes& sizes_;
  const Scratch& scratch_;
  const bool with_rivals_;
  Report report_;
  double slowdown_max_ = 0;  // over all sweeps
  double peak_share_max_ = 0;
};

Result<ChildRun> Bench::sort(const std::string& input, const std::string& output,
                             std::vector<std::string> format, uint64_t memory_bytes,
                             unsigned threads) const {
  std::vector<std::string> words = {"sort", input, "-o", output, "-S", in_bytes(memory_bytes)};
  words.insert(words.end(),
               {"-T", scratch_.folder(), "--parallel", std::to_string(threads), "--json"});
  words.insert(words.end(), format.begin(), format.end());
  if (Status ready = prepare_machine(memory_bytes, input); !ready)
    return std::unexpected(ready.error());
  return penstock(words);
}

Result<nlohmann::json> Bench::check(const std::string& path,
                                    std::vector<std::string> format) const {
  format.insert(format.begin(), {"check", path, "--json"});
  Result<ChildRun> run = penstock(format);
  if (!run) return std::unexpected(run.error());
  return parse(run->output);
}

Status Bench::compare(const std::string& one, const std::string& other) const {
  Result<ChildRun> run = run_child({"cmp", one, other});
  if (!run) return std::unexpected(run.error());
  if (run->exit_code != 0) {
    return failure(ErrorCode::corrupt, "accept an output that is not GNU sort's", one);
  }
  return {};
}

void Bench::rivals(const std::string& input, const nlohmann::json& checked, double our_seconds) {
  const RivalJob job{.input = input,
                     .folder = scratch_.folder(),
                     // No rival works with the memory of a quick run.
                     .memory_bytes = std::max(sizes_.u64_memory_bytes, 256 * MiB),
                     .threads = usual_threads,
                     .seconds_max = options_.quick ? 60u : 600u,
                     .verify = [&](const std::string& path) -> Status {
                       Result<nlohmann::json> after = check(path, u64_words);
                       if (!after) return std::unexpected(after.error());
                       if (after->value("sorted", false) && (*after)["count"] == checked["count"] &&
                           (*after)["checksum"] == checked["checksum"]) {
                         return {};
                       }
                       return failure(ErrorCode::corrupt, "be what the input sorted is", path);
                     }};
  for (const RivalRun& rival : sort_with_rivals(job)) {
    const std::string row = "u64, " + rival.name;
    if (!rival.run) {
      report_.add(row + ": no result, " + rival.problem, "", {0});
      continue;
    }
    report_.add(row, "s", {rival.run->seconds});
    report_.add(row + ", peak resident set", "MiB",
                {static_cast<double>(rival.run->resident_peak_bytes) / MiB});
    if (rival.run->cgroup_peak_bytes != 0) {
      report_.add(row + ", peak of its memory cgroup", "MiB",
                  {static_cast<double>(rival.run->cgroup_peak_bytes) / MiB});
    }
    report_.ratio(rival.ratio, rival.run->seconds / our_seconds);
  }
}

// Returns the result of `penstock check` for the new file.
Result<nlohmann::json> Bench::make_input(const std::string& path,
                                         const std::vector<std::string>& format,
                                         uint64_t bytes) const {
  if (auto made = generate(options_.program, format.at(1), bytes, path); !made)
    return std::unexpected(made.error());
  return check(path, format);
}

Result<ChildRun> Bench::sort_and_check(const std::string& input,
                                       const std::vector<std::string>& format,
                                       uint64_t memory_bytes, const nlohmann::json& before,
                                       unsigned threads) const {
  const std::string output = scratch_.file("sorted");
  Result<ChildRun> sorted = sort(input, output, format, memory_bytes, threads);
  if (!sorted) return sorted;
  Result<nlohmann::json> after = check(output, format);
  if (!after) return std::unexpected(after.error());
  if (!after->value("sorted", false) || (*after)["count"] != before["count"] ||
      (*after)["checksum"] != before["checksum"]) {
    return failure(ErrorCode::corrupt, "verify the sort's output", output);
  }
  fs::remove(output);
  return sorted;
}

Status Bench::numbers() {
  const std::string input = scratch_.file("input.u64");
  Result<nlohmann::json> before = make_input(input, u64_words, sizes_.u64_bytes);
  if (!before) return std::unexpected(before.error());
  return race("u64", input, *before, with_rivals_);
}

Status Bench::times() {
  constexpr uint64_t begin = 1'700'000'000'000'000;
  constexpr uint64_t year = 365ull * 86'400'000'000;
  const std::string input = scratch_.file("input.times");
  std::ofstream file(input, std::ios::binary);
  Random random(1);
  std::vector<uint64_t> block(128 * KiB);
  for (uint64_t left = sizes_.u64_bytes / sizeof(uint64_t); left > 0 && file;) {
    const uint64_t count = std::min<uint64_t>(left, block.size());
    for (uint64_t& time : std::span(block).first(count)) time = begin + random.below(year);
    file.write(reinterpret_cast<const char*>(block.data()),
               static_cast<std::streamsize>(count * sizeof(uint64_t)));
    left -= count;
  }
  file.close();
  if (!file) return failure(ErrorCode::io, "write the input", input);
  Result<nlohmann::json> before = check(input, u64_words);
  if (!before) return std::unexpected(before.error());
  return race("timestamps", input, *before, false);
}

Status Bench::race(const std::string& name, const std::string& input, const nlohmann::json& before,
                   bool with_rivals) {
  std::vector<double> write_speeds, read_speeds, bounds, seconds, ratios, peaks, cgroup_peaks,
      resident_peaks;
  for (unsigned run = 0; run < runs(); ++run) {
    auto bytes = static_cast<double>(sizes_.u64_bytes);
    double bound = 0;
    auto probe = [&]() -> Status {
      auto disk = external::probe_disk(scratch_.folder(), {.bytes = sizes_.disk_bytes});
      if (!disk) return std::unexpected(disk.error());
      write_speeds.push_back(disk->write_bytes_per_s / 1e6);
      read_speeds.push_back(disk->read_bytes_per_s / 1e6);
      bound += bytes / disk->read_bytes_per_s + bytes / disk->write_bytes_per_s;
      return {};
    };
    if (Status status = probe(); !status) return status;
    Result<ChildRun> sorted = sort_and_check(input, u64_words, sizes_.u64_memory_bytes, before);
    if (!sorted) return std::unexpected(sorted.error());
    if (Status status = probe(); !status) return status;

    bounds.push_back(bound);
    seconds.push_back(sorted->seconds);
    ratios.push_back(bound / sorted->seconds);
    if (run == 0 && with_rivals) rivals(input, before, sorted->seconds);
    peaks.push_back(parse(sorted->output).value("peak_rss_bytes", 0.0) / MiB);
    resident_peaks.push_back(static_cast<double>(sorted->resident_peak_bytes) / MiB);
    if (sorted->cgroup_peak_bytes != 0) {
      cgroup_peaks.push_back(static_cast<double>(sorted->cgroup_peak_bytes) / MiB);
    }
  }
  fs::remove(input);

  report_.add("disk, direct write", "MB/s", write_speeds);
  report_.add("disk, direct read", "MB/s", read_speeds);
  report_.add(name + ", bound of the disk", "s", bounds);
  report_.add(name + ", penstock sort", "s", seconds);
  report_.add(name + ", budget", "MiB", {static_cast<double>(sizes_.u64_memory_bytes) / MiB});
  report_.add(name + ", peak memory as the program tells it", "MiB", peaks);
  report_.add(name + ", peak resident set, views counted each", "MiB", resident_peaks);
  if (!cgroup_peaks.empty()) report_.add(name + ", peak of its memory cgroup", "MiB", cgroup_peaks);
  report_.ratio("vs_disk_bound_" + name, median(ratios));
  hash_checksum(before);
  return {};
}

Status Bench::records() {
  const std::vector<std::string> format = {"--format", "record", "--record",
                                           "100",      "--key",  "0:10"};
  std::string input = scratch_.file("input.records");
  std::string ours = scratch_.file("penstock.records");
  std::string theirs = scratch_.file("gnu.records");
  Result<ChildRun> made = penstock({"gen", "--format", "record", "--ascii", "--count",
                                    std::to_string(sizes_.records), "-o", input});
  if (!made) return std::unexpected(made.error());

  std::vector<double> gnu_seconds, seconds, ratios;
  for (unsigned run = 0; run < runs(); ++run) {
    if (Status ready = prepare_machine(sizes_.records_memory_bytes, input); !ready) return ready;
    Result<ChildRun> gnu = run_child(
        {"sort", "-S", in_bytes(sizes_.records_memory_bytes),
         fmt::format("--parallel={}", usual_threads), "-T", scratch_.folder(), "-o", theirs, input},
        {"LC_ALL=C"});
    if (!gnu) return std::unexpected(gnu.error());
    Result<ChildRun> sorted = sort(input, ours, format, sizes_.records_memory_bytes);
    if (!sorted) return std::unexpected(sorted.error());
    if (Status same = compare(ours, theirs); !same) return same;
    fs::remove(ours);
    fs::remove(theirs);

    gnu_seconds.push_back(gnu->seconds);
    seconds.push_back(sorted->seconds);
    ratios.push_back(gnu->seconds / sorted->seconds);
  }
  Result<nlohmann::json> checked = check(input, format);
  if (!checked) return std::unexpected(checked.error());
  fs::remove(input);

  auto megabytes = static_cast<double>(sizes_.records * record_bytes) / 1e6;
  report_.add("ASCII records, input", "MB", {megabytes});
  report_.add("ASCII records, GNU sort", "s", gnu_seconds);
  report_.add("ASCII records, penstock sort", "s", seconds);
  report_.ratio("vs_gnu_sort_ascii", median(ratios));
  hash_checksum(*checked);
  return {};
}

// Sorts the numbers with more and more threads, in turns.
Status Bench::speedups() {
  const std::string input = scratch_.file("input");
  Result<nlohmann::json> before = make_input(input, u64_words, sizes_.u64_bytes);
  if (!before) return std::unexpected(before.error());
  const std::vector<unsigned> counts = thread_counts(options_);
  std::vector<std::vector<double>> seconds(counts.size());
  for (unsigned run = 0; run < runs(); ++run) {
    for (size_t i = 0; i < counts.size(); ++i) {
      Result<ChildRun> sorted =
          sort_and_check(input, u64_words, sizes_.u64_memory_bytes, *before, counts[i]);
      if (!sorted) return std::unexpected(sorted.error());
      seconds[i].push_back(sorted->seconds);
    }
  }
  fs::remove(input);
  for (size_t i = 0; i < counts.size(); ++i) {
    report_.add(fmt::format("u64, penstock sort, --parallel {}", counts[i]), "s", seconds[i]);
    if (i > 0)
      report_.ratio(fmt::format("speedup_{}t_u64", counts[i]),
                    median(seconds[0]) / median(seconds[i]));
  }
  return {};
}

Status Bench::memory_sweep(const std::string& name, const std::vector<std::string>& format) {
  const std::string input = scratch_.file("input");
  Result<nlohmann::json> before = make_input(input, format, sizes_.sweep_bytes);
  if (!before) return std::unexpected(before.error());
  const std::vector<uint64_t>& memories = sizes_.sweep_memory_bytes;
  std::vector<std::vector<double>> seconds(memories.size());
  double peak_share_max = 0;
  for (unsigned run = 0; run < runs(); ++run) {
    for (size_t i = 0; i < memories.size(); ++i) {
      Result<ChildRun> sorted = sort_and_check(input, format, memories[i], *before);
      if (!sorted) return std::unexpected(sorted.error());
      seconds[i].push_back(sorted->seconds);
      const double peak_bytes = parse(sorted->output).value("peak_rss_bytes", 0.0);
      peak_share_max = std::max(peak_share_max, peak_bytes / static_cast<double>(memories[i]));
    }
  }
  fs::remove(input);

  // The fastest run with less memory, and the largest slowdown of a step upwards relative to it.
  double fastest = 0;
  double slowdown_max = 0;
  for (size_t i = 0; i < memories.size(); ++i) {
    const double here =
        report_.add(fmt::format("{}, -S {}M", name, memories[i] / MiB), "s", seconds[i]);
    if (i > 0) slowdown_max = std::max(slowdown_max, here / fastest);
    fastest = i == 0 ? here : std::min(fastest, here);
  }
  slowdown_max_ = std::max(slowdown_max_, slowdown_max);
  peak_share_max_ = std::max(peak_share_max_, peak_share_max);
  report_.ratio("more_memory_slowdown_" + name, slowdown_max);
  hash_checksum(*before);
  return {};
}

Status Bench::memory_sweeps() {
  const std::vector<std::string> formats =
      options_.quick ? std::vector<std::string>{"u64"}
                     : std::vector<std::string>{"u64", "kv64", "record", "lines"};
  for (const std::string& format : formats) {
    if (Status done = memory_sweep(format, {"--format", format}); !done) return done;
  }
  report_.ratio("more_memory_slowdown_max", slowdown_max_);
  report_.ratio("peak_over_budget_max", peak_share_max_);
  return {};
}

Result<Report> run(const Options& options, bool sweeps, bool in_memory) {
  Result<Sizes> sizes = sizes_of(options.quick);
  if (!sizes) return std::unexpected(sizes.error());
  if (in_memory && !options.quick) {
    // All files are in memory.
    for (uint64_t* bytes : {&sizes->u64_bytes, &sizes->u64_memory_bytes, &sizes->disk_bytes,
                            &sizes->records, &sizes->records_memory_bytes})
      *bytes /= 4;
  }
  Result<Scratch> scratch = Scratch::make(options.directory);
  if (!scratch) return std::unexpected(scratch.error());
  Bench bench(options, *sizes, *scratch, !in_memory);
  // A quick run is a test of everything.
  if (sweeps || options.quick) {
    if (Status done = bench.memory_sweeps(); !done) return std::unexpected(done.error());
  }
  if (sweeps) return bench.take_report();
  // One after the other, so that the disk never holds both inputs.
  if (Status done = bench.numbers(); !done) return std::unexpected(done.error());
  if (Status done = bench.times(); !done) return std::unexpected(done.error());
  if (Status done = bench.records(); !done) return std::unexpected(done.error());
  if (in_memory || options.quick) {
    if (Status done = bench.speedups(); !done) return std::unexpected(done.error());
  }
  return bench.take_report();
}

const Registration registration{
    "external-sort",
    "a sort within a memory budget, beside the disk's bound, GNU sort, STXXL, DuckDB and polars",
    [](const Options& options) { return run(options, false, false); }};
const Registration fast{"external-sort-fast",
                        "the same in /dev/shm, as a fast disk, without the databases",
                        [](const Options& options) {
                          Options there = options;
                          if (fs::exists("/dev/shm")) there.directory = "/dev/shm";
                          return run(there, false, true);
                        }};
const Registration sweep{"external-sort-memory",
                         "the same sort with 32 MiB to 4 GiB: is more ever slower?",
                         [](const Options& options) { return run(options, true, false); }};

}  // namespace
}  // namespace penstock::bench
