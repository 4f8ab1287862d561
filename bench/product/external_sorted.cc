// The cost of sorting sorted data.
//
// external-sorted: 2 GiB of numbers in order compared with `cp` and `sync` of them, because the
// output of a sort is on the disk when it ends. Eight sorted files of numbers merged (`sort -m`),
// and eight of pairs, compared with the disk's time for as many bytes, measured just before; and
// eight of lines, 0.9 GB in all, compared with GNU sort -m, with the same bytes out.
//
// Every program runs as a child, in memory that the machine has touched just before.

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "bench/harness/bench.h"
#include "bench/harness/child.h"
#include "bench/harness/pages.h"
#include "bench/harness/scratch.h"
#include "files/sort/external_sort.h"
#include "files/sort/plan/probe.h"
#include "os/sanitizer.h"
#include "penstock/base.h"

namespace penstock::bench {
namespace {

namespace fs = std::filesystem;

class Bench {
 public:
  Bench(const Options& options, const Scratch& scratch)
      : options_(options),
        scratch_(scratch),
        bytes_(options.quick ? 64 * MiB : 2 * GiB),
        lines_(options.quick ? 200'000 : 20'000'000),
        // In a quick run, the least memory that the sort works with. A sanitized program is larger.
        memory_bytes_(options.quick ? external::minimum_memory_bytes(external::SortOptions{}) +
                                          (os::shadowed ? 16 * MiB : 0)
                                    : 256 * MiB) {}

  Status sorted_input();
  Status merged_files();
  Report take_report() { return std::move(report_); }

 private:
  Result<ChildRun> penstock(std::vector<std::string> words) const {
    words.insert(words.begin(), options_.program);
    return run_child(words);
  }
  Result<ChildRun> sort(std::vector<std::string> words, const std::string& format) const {
    words.insert(words.begin(), {"sort", "--format", format, "-S",
                                 fmt::format("{}b", memory_bytes_), "-T", scratch_.folder()});
    return penstock(std::move(words));
  }
  Status accept(const std::string& path, const std::string& format);
  Result<std::vector<std::string>> make_sorted_files(const std::string& format,
                                                     uint64_t items) const;
  unsigned runs() const { return options_.runs_or(3); }

  const Options& options_;
  const Scratch& scratch_;
  const uint64_t bytes_;
  const uint64_t lines_;
  const uint64_t memory_bytes_;
  Report report_;
};

Status Bench::accept(const std::string& path, const std::string& format) {
  Result<ChildRun> run = penstock({"check", path, "--json", "--format", format});
  if (!run) return std::unexpected(run.error());
  const auto checked = nlohmann::json::parse(run->output, nullptr, false);
  if (!checked.value("sorted", false)) return failure(ErrorCode::corrupt, "be in order", path);
  const auto checksum = checked.value("checksum", std::string{});
  report_.hash(std::as_bytes(std::span(checksum)));
  return {};
}

Status Bench::sorted_input() {
  const std::string input = scratch_.file("input");
  const std::string output = scratch_.file("output");
  Result<ChildRun> made = penstock({"gen", "--format", "u64", "--dist", "sorted", "--count",
                                    std::to_string(bytes_ / 8), "-o", input});
  if (!made) return std::unexpected(made.error());
  std::vector<double> copies, seconds, ratios;
  for (unsigned run = 0; run < runs(); ++run) {
    if (Status ready = prepare_machine(memory_bytes_, input); !ready) return ready;
    Result<ChildRun> copied = run_child({"cp", input, output});
    if (!copied) return std::unexpected(copied.error());
    Result<ChildRun> synced = run_child({"sync", output});
    if (!synced) return std::unexpected(synced.error());
    fs::remove(output);
    if (Status ready = prepare_machine(memory_bytes_, input); !ready) return ready;
    Result<ChildRun> sorted = sort({input, "-o", output}, "u64");
    if (!sorted) return std::unexpected(sorted.error());
    if (run == 0) {
      if (Status fine = accept(output, "u64"); !fine) return fine;
    }
    fs::remove(output);
    copies.push_back(copied->seconds + synced->seconds);
    seconds.push_back(sorted->seconds);
    ratios.push_back(copies.back() / seconds.back());
  }
  fs::remove(input);
  report_.add("u64, sorted, cp and sync", "s", copies);
  report_.add("u64, sorted, penstock sort", "s", seconds);
  report_.ratio("vs_copy_sorted", median(ratios));
  return {};
}

Result<std::vector<std::string>> Bench::make_sorted_files(const std::string& format,
                                                          uint64_t items) const {
  constexpr unsigned files = 8;
  std::vector<std::string> sorted;
  const std::string input = scratch_.file("unsorted");
  for (unsigned i = 0; i < files; ++i) {
    sorted.push_back(scratch_.file("sorted." + std::to_string(i)));
    Result<ChildRun> made =
        penstock({"gen", "--format", format, "--count", std::to_string(items / files), "--seed",
                  std::to_string(i + 1), "-o", input});
    if (made) made = sort({input, "-o", sorted.back()}, format);
    if (!made) return std::unexpected(made.error());
  }
  fs::remove(input);
  return sorted;
}

Status Bench::merged_files() {
  const std::string ours = scratch_.file("merged");
  const std::string theirs = scratch_.file("merged.gnu");
  for (const std::string format : {"u64", "kv64", "lines"}) {
    const bool lines = format == "lines";
    auto files = make_sorted_files(format, lines ? lines_ : bytes_ / (format == "kv64" ? 16 : 8));
    if (!files) return std::unexpected(files.error());
    uint64_t bytes = 0;
    for (const std::string& file : *files) bytes += fs::file_size(file);
    std::vector<std::string> words = {"-m", "-o", ours};
    words.insert(words.end(), files->begin(), files->end());
    std::vector<std::string> gnu_words = {"sort", "-m", "-o", theirs};
    gnu_words.insert(gnu_words.end(), files->begin(), files->end());
    std::vector<double> seconds, rivals, ratios;
    for (unsigned run = 0; run < runs(); ++run) {
      if (Status ready = prepare_machine(memory_bytes_, files->front()); !ready) return ready;
      if (lines) {
        Result<ChildRun> gnu = run_child(gnu_words, {"LC_ALL=C"});
        if (!gnu) return std::unexpected(gnu.error());
        rivals.push_back(gnu->seconds);
      } else {
        auto disk = external::probe_disk(scratch_.folder(), {.bytes = bytes_});
        if (!disk) return std::unexpected(disk.error());
        rivals.push_back(static_cast<double>(bytes) *
                         (1 / disk->read_bytes_per_s + 1 / disk->write_bytes_per_s));
      }
      if (Status ready = prepare_machine(memory_bytes_, files->front()); !ready) return ready;
      Result<ChildRun> merged = sort(words, format);
      if (!merged) return std::unexpected(merged.error());
      seconds.push_back(merged->seconds);
      ratios.push_back(rivals.back() / seconds.back());
    }
    if (Status fine = accept(ours, format); !fine) return fine;
    if (lines) {
      Result<ChildRun> same = run_child({"cmp", ours, theirs});
      if (!same) return std::unexpected(same.error());
      if (same->exit_code != 0)
        return failure(ErrorCode::corrupt, "accept an output that is not GNU sort's", ours);
      fs::remove(theirs);
    }
    fs::remove(ours);
    for (const std::string& file : *files) fs::remove(file);
    report_.add(format + ", 8 files, penstock sort -m", "s", seconds);
    report_.add(format + (lines ? ", 8 files, GNU sort -m" : ", 8 files, the disk's bound"), "s",
                rivals);
    report_.ratio(lines ? "vs_gnu_merge_lines" : "vs_disk_bound_merge_" + format, median(ratios));
  }
  return {};
}

Result<Report> run(const Options& options) {
  Result<Scratch> scratch = Scratch::make(options.directory);
  if (!scratch) return std::unexpected(scratch.error());
  Bench bench(options, *scratch);
  if (Status done = bench.sorted_input(); !done) return std::unexpected(done.error());
  if (Status done = bench.merged_files(); !done) return std::unexpected(done.error());
  return bench.take_report();
}

const Registration registration{
    "external-sorted",
    "a sort of what is in order already, and merges: beside a copy, the "
    "disk's bound and GNU sort -m",
    run};

}  // namespace
}  // namespace penstock::bench
