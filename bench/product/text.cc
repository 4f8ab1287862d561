// How fast is text sorted by each order of GNU sort, compared with GNU sort itself, and the best of
// the others?
//
// 1 GB of each kind of lines, -S 256M, two threads, all into a file and with the same folder for
// temporaries. GNU sort's output must be ours, byte for byte. Then the same with memory for all of
// it several times over, which must not make it slower. GNU sort cannot sort rows of CSV with line
// ends in quotes: there our output is checked, and the rivals are DuckDB and polars.
//
// A rival (rivals/text_rivals.h) that cannot run, fails, or writes other bytes has a row that says
// so, and is not in the ratios. uutils' sort orders some versions and sizes differently from GNU
// sort.
//
// GNU sort takes minutes for some kinds, and rivals take longer: a run of 20 s or more is not
// repeated. Each kind is also a bench of its own.
//
// Programs run as children, in memory that the machine has touched just before.

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "base/random.h"
#include "bench/harness/bench.h"
#include "bench/harness/child.h"
#include "bench/harness/pages.h"
#include "bench/harness/scratch.h"
#include "bench/rivals/text_rivals.h"
#include "os/limits.h"
#include "os/sanitizer.h"
#include "penstock/base.h"

namespace penstock::bench {
namespace {

namespace fs = std::filesystem;

constexpr unsigned threads = 2;
constexpr double repeated_seconds_max = 20;
constexpr uint64_t vocabulary = 3000;

// The n-th word, the same in every run: 3 to 9 letters.
std::string word(uint64_t n) {
  Random random(n % vocabulary);
  std::string text;
  for (uint64_t letters = 3 + random.below(7); letters > 0; --letters)
    text += static_cast<char>('a' + random.below(26));
  return text;
}

const std::vector<std::string>& words() {
  static const std::vector<std::string> all = [] {
    std::vector<std::string> made;
    for (uint64_t n = 0; n < vocabulary; ++n) made.push_back(word(n));
    return made;
  }();
  return all;
}

struct Kind {
  const char* bench;  // name of the bench for this kind only
  const char* name;
  std::vector<std::string> options;
  std::function<void(Random&, std::string&)> append;  // appends a line, with its end
  bool is_for_sort = true;  // supported by GNU sort and programs with its options
};

std::vector<Kind> kinds() {
  auto any = [](Random& random) -> const std::string& { return words()[random.below(vocabulary)]; };
  auto put = [](std::string& to, fmt::string_view format, const auto&... values) {
    fmt::vformat_to(std::back_inserter(to), format, fmt::make_format_args(values...));
  };
  return {
      {.bench = "text-logs",
       .name = "logs by their times",
       .options = {},
       .append =
           [=](Random& random, std::string& to) {
             const uint64_t second = random.below(86400 * 28);
             put(to, "2026-{:02}-{:02}T{:02}:{:02}:{:02}.{:06} host{} app[{}]: {} {}\n",
                 1 + random.below(12), 1 + second / 86400, second / 3600 % 24, second / 60 % 60,
                 second % 60, random.below(1'000'000), random.below(100), random.below(30'000),
                 any(random), any(random));
           }},
      {.bench = "text-urls",
       .name = "URLs",
       .options = {},
       .append =
           [=](Random& random, std::string& to) {
             put(to, "https://www.{}.example.org/{}/{}?id={}\n", words()[random.below(200)],
                 any(random), any(random), random.below(1'000'000));
           }},
      {.bench = "text-words",
       .name = "words, many of them equal",
       .options = {},
       .append =
           [=](Random& random, std::string& to) {
             const uint64_t bound = 1 + random.below(vocabulary);
             put(to, "{}\n", words()[random.below(bound)]);
           }},
      {.bench = "text-tsv",
       .name = "TSV by a number, -k2,2n",
       .options = {"-t", "\t", "-k2,2n"},
       .append =
           [=](Random& random, std::string& to) {
             put(to, "{}\t{}\t{}.{:02}\t{}\n", any(random), random.below(1'000'000'000),
                 random.below(10'000), random.below(100), any(random));
           }},
      {.bench = "text-versions",
       .name = "addresses, -V",
       .options = {"-V"},
       .append =
           [=](Random& random, std::string& to) {
             put(to, "{}.{}.{}.{}\n", random.below(256), random.below(256), random.below(256),
                 random.below(256));
           }},
      {.bench = "text-sizes",
       .name = "sizes, -h",
       .options = {"-h"},
       .append =
           [=](Random& random, std::string& to) {
             put(to, "{}.{}{}\t./{}/{}\n", random.below(1000), random.below(10),
                 "KMG"[random.below(3)], any(random), any(random));
           }},
      {.bench = "text-csv",
       .name = "CSV with ends of lines in quotes, --key 2:n",
       .options = {"--csv", "--key", "2:n"},
       .append =
           [=](Random& random, std::string& to) {
             put(to, "{},{},\"{}, {}\n{}\",{}\n", any(random), random.below(1'000'000'000),
                 any(random), any(random), any(random), any(random));
           },
       .is_for_sort = false},
  };
}

Status write_lines(const std::string& path, uint64_t bytes, const Kind& kind) {
  std::ofstream file(path, std::ios::binary);
  Random random(1);
  std::string text;
  for (uint64_t written = 0; written < bytes && file; written += text.size()) {
    text.clear();
    while (text.size() < 1 * MiB) kind.append(random, text);
    file.write(text.data(), static_cast<std::streamsize>(text.size()));
  }
  file.close();
  if (!file) return failure(ErrorCode::io, "write the bench's input", path);
  return {};
}

struct Sizes {
  uint64_t bytes;
  uint64_t memory_bytes;
  uint64_t more_memory_bytes;
};

class Bench {
 public:
  Bench(const Options& options, const Sizes& sizes, const Scratch& scratch)
      : options_(options), sizes_(sizes), scratch_(scratch) {}

  Status race(const Kind& kind);
  Report take_report();

 private:
  Result<ChildRun> run(std::vector<std::string> words, const Kind& kind, uint64_t memory_bytes,
                       const std::string& output) const;
  Status race_others(const Kind& kind, const std::string& wanted, double our_seconds);

  const Options& options_;
  const Sizes& sizes_;
  const Scratch& scratch_;
  const std::string input_ = scratch_.file("input");
  std::vector<double> vs_gnu_;
  std::vector<double> vs_best_;
  std::vector<double> more_memory_;
  Report report_;
};

Result<ChildRun> Bench::run(std::vector<std::string> words, const Kind& kind, uint64_t memory_bytes,
                            const std::string& output) const {
  words.insert(words.end(), kind.options.begin(), kind.options.end());
  words.insert(words.end(),
               {"-S", fmt::format("{}b", memory_bytes), "--parallel", std::to_string(threads), "-T",
                scratch_.folder(), "-o", output, input_});
  if (Status ready = prepare_machine(memory_bytes, input_); !ready)
    return std::unexpected(ready.error());
  return run_child(words, {"LC_ALL=C"});
}

Status Bench::race(const Kind& kind) {
  if (auto made = write_lines(input_, sizes_.bytes, kind); !made) return made;
  const std::string ours = scratch_.file("ours");
  const std::string theirs = scratch_.file("theirs");
  std::vector<double> our_seconds, more_seconds, their_seconds, our_processor, their_processor;
  for (unsigned turn = 0; turn < options_.runs_or(3); ++turn) {
    auto done = run({options_.program, "sort"}, kind, sizes_.memory_bytes, ours);
    if (!done) return std::unexpected(done.error());
    our_seconds.push_back(done->seconds);
    our_processor.push_back(done->processor_s);
    const bool is_long = !their_seconds.empty() && their_seconds.back() > repeated_seconds_max;
    if (kind.is_for_sort && !is_long) {
      auto gnu = run({"sort"}, kind, sizes_.memory_bytes, theirs);
      if (!gnu) return std::unexpected(gnu.error());
      their_seconds.push_back(gnu->seconds);
      their_processor.push_back(gnu->processor_s);
    } else if (!kind.is_for_sort) {
      std::vector<std::string> check = {options_.program, "check"};
      check.insert(check.end(), kind.options.begin(), kind.options.end());
      check.push_back(ours);
      auto checked = run_child(check);
      if (!checked || checked->exit_code != 0)
        return failure(ErrorCode::corrupt, "accept an output that is not in order", kind.name);
      fs::rename(ours, theirs);
    }
    auto more = run({options_.program, "sort"}, kind, sizes_.more_memory_bytes, ours + "-more");
    if (!more) return std::unexpected(more.error());
    more_seconds.push_back(more->seconds);
    for (const std::string& output : {ours, ours + "-more"}) {
      if (!fs::exists(output)) continue;
      auto same = run_child({"cmp", output, theirs});
      if (!same) return std::unexpected(same.error());
      if (same->exit_code != 0)
        return failure(ErrorCode::corrupt, "accept an output that is another one's", kind.name);
      fs::remove(output);
    }
  }
  const std::string name = kind.name;
  const double wall = report_.add(name + ", penstock sort", "s", our_seconds);
  const double processor =
      report_.add(name + ", penstock sort, processor time", "s", our_processor);
  if (kind.is_for_sort) {
    const double their_wall = report_.add(name + ", GNU sort", "s", their_seconds);
    const double theirs_busy =
        report_.add(name + ", GNU sort, processor time", "s", their_processor);
    report_.add(name + ", GNU sort's time over ours", "", {their_wall / wall});
    report_.add(name + ", GNU sort's processor time over ours", "", {theirs_busy / processor});
    vs_gnu_.push_back(their_wall / wall);
  }
  const double more = report_.add(name + ", with memory for all", "s", more_seconds);
  more_memory_.push_back(wall / more);
  Status raced = race_others(kind, theirs, wall);
  fs::remove(theirs);
  return raced;
}

// `wanted` is the expected output.
Status Bench::race_others(const Kind& kind, const std::string& wanted, double our_seconds) {
  const std::string output = scratch_.file("others");
  const std::vector<TextRival> rivals = kind.is_for_sort
                                            ? std::vector{uutils_sort(!options_.quick)}
                                            : csv_rivals({.input = input_,
                                                          .output = output,
                                                          .folder = scratch_.folder(),
                                                          .memory_bytes = sizes_.memory_bytes,
                                                          .threads = threads});
  double best = 0;
  for (const TextRival& rival : rivals) {
    std::string problem = rival.problem;
    std::vector<double> seconds, processor;
    for (unsigned turn = 0; problem.empty() && turn < options_.runs_or(3); ++turn) {
      Result<ChildRun> done = [&] {
        if (kind.is_for_sort) return run(rival.words, kind, sizes_.memory_bytes, output);
        if (Status ready = prepare_machine(sizes_.memory_bytes, input_); !ready)
          return Result<ChildRun>(std::unexpected(ready.error()));
        return run_child(rival.words, {"PYTHONDONTWRITEBYTECODE=1"});
      }();
      if (!done || done->exit_code != 0) {
        problem = done ? "failed: " + done->output : done.error().message();
        break;
      }
      seconds.push_back(done->seconds);
      processor.push_back(done->processor_s);
      if (done->seconds > repeated_seconds_max) turn = options_.runs_or(3);
      const auto same = run_child({"cmp", "-s", output, wanted});
      if (!same) return std::unexpected(same.error());
      if (same->exit_code != 0) problem = "its output is another one's";
    }
    fs::remove(output);
    const std::string name = fmt::format("{}, {}", kind.name, rival.name);
    if (!problem.empty()) {
      report_.add(fmt::format("{}: {}", name, problem), "", {0});
      continue;
    }
    const double theirs = report_.add(name, "s", seconds);
    report_.add(name + ", processor time", "s", processor);
    report_.add(name + ", its time over ours", "", {theirs / our_seconds});
    best = best == 0 ? theirs : std::min(best, theirs);
  }
  if (best > 0) vs_best_.push_back(best / our_seconds);
  return {};
}

Report Bench::take_report() {
  if (!vs_gnu_.empty()) report_.ratio("vs_gnu_sort_min", *std::ranges::min_element(vs_gnu_));
  if (!vs_best_.empty()) report_.ratio("vs_best_rival_min", *std::ranges::min_element(vs_best_));
  report_.ratio("more_memory_min", *std::ranges::min_element(more_memory_));
  return std::move(report_);
}

Result<Report> run(const Options& options, const std::vector<Kind>& some) {
  // A sanitized program is larger.
  Sizes sizes{1'000'000'000, 256 * MiB, 4 * GiB};
  if (options.quick) sizes = {16 * MiB, 40 * MiB + (os::shadowed ? 16 * MiB : 0), 256 * MiB};
  // On a machine with less memory, three quarters of it.
  sizes.more_memory_bytes = std::min(sizes.more_memory_bytes, os::limits().memory_bytes / 4 * 3);
  Result<Scratch> scratch = Scratch::make(options.directory);
  if (!scratch) return std::unexpected(scratch.error());
  Bench bench(options, sizes, *scratch);
  for (const Kind& kind : some) {
    if (Status done = bench.race(kind); !done) return std::unexpected(done.error());
  }
  return bench.take_report();
}

const Registration registration{"text", "sorts of text by each order, beside GNU sort and others",
                                [](const Options& options) { return run(options, kinds()); }};

const bool parts_registered = [] {
  for (const Kind& kind : kinds()) {
    Registration(kind.bench, std::string("a part of `text`: ") + kind.name,
                 [kind](const Options& options) { return run(options, {kind}); });
  }
  return true;
}();

}  // namespace
}  // namespace penstock::bench
