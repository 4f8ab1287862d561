// How fast is text sorted by each order of GNU sort, compared with GNU sort itself, and the best of
// the others?
//
// 1 GB of each kind of lines, -S 256M, two threads, all into a file and with the same folder for
// temporaries. GNU sort's output must be ours, byte for byte. Then the same with memory for all of
// it several times over, which must not make it slower. (Tables are in csv.cc.)
//
// uutils' sort (rivals/text_rivals.h) has a row that says so if it cannot run, fails, or writes
// other bytes, as it does for some versions and sizes.
//
// GNU sort takes minutes for some kinds, and rivals take longer: a run of 20 s or more is not
// repeated. Each kind is also a bench of its own.
//
// Programs run as children, in memory that the machine has touched just before.

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "base/random.h"
#include "bench/harness/bench.h"
#include "bench/harness/child.h"
#include "bench/harness/pages.h"
#include "bench/harness/scratch.h"
#include "bench/harness/text_race.h"
#include "bench/rivals/text_rivals.h"
#include "os/limits.h"
#include "os/sanitizer.h"
#include "penstock/base.h"

namespace penstock::bench {
namespace {

namespace fs = std::filesystem;

constexpr unsigned threads = 2;
constexpr double repeated_seconds_max = 20;
struct Kind {
  const char* bench;  // name of the bench for this kind only
  const char* name;
  std::vector<std::string> options;
  AppendItem append;
};

std::vector<Kind> kinds() {
  auto put = [](std::string& to, fmt::string_view format, const auto&... values) {
    fmt::vformat_to(std::back_inserter(to), format, fmt::make_format_args(values...));
  };
  return {
      {.bench = "text-logs",
       .name = "logs by their times",
       .options = {},
       .append =
           [=](Random& random, uint64_t, std::string& to) {
             const uint64_t second = random.below(86400 * 28);
             put(to, "2026-{:02}-{:02}T{:02}:{:02}:{:02}.{:06} host{} app[{}]: {} {}\n",
                 1 + random.below(12), 1 + second / 86400, second / 3600 % 24, second / 60 % 60,
                 second % 60, random.below(1'000'000), random.below(100), random.below(30'000),
                 any_word(random), any_word(random));
           }},
      {.bench = "text-urls",
       .name = "URLs",
       .options = {},
       .append =
           [=](Random& random, uint64_t, std::string& to) {
             put(to, "https://www.{}.example.org/{}/{}?id={}\n", words()[random.below(200)],
                 any_word(random), any_word(random), random.below(1'000'000));
           }},
      {.bench = "text-words",
       .name = "words, many of them equal",
       .options = {},
       .append =
           [=](Random& random, uint64_t, std::string& to) {
             const uint64_t bound = 1 + random.below(words().size());
             put(to, "{}\n", words()[random.below(bound)]);
           }},
      {.bench = "text-tsv",
       .name = "TSV by a number, -k2,2n",
       .options = {"-t", "\t", "-k2,2n"},
       .append =
           [=](Random& random, uint64_t, std::string& to) {
             put(to, "{}\t{}\t{}.{:02}\t{}\n", any_word(random), random.below(1'000'000'000),
                 random.below(10'000), random.below(100), any_word(random));
           }},
      {.bench = "text-versions",
       .name = "addresses, -V",
       .options = {"-V"},
       .append =
           [=](Random& random, uint64_t, std::string& to) {
             put(to, "{}.{}.{}.{}\n", random.below(256), random.below(256), random.below(256),
                 random.below(256));
           }},
      {.bench = "text-sizes",
       .name = "sizes, -h",
       .options = {"-h"},
       .append =
           [=](Random& random, uint64_t, std::string& to) {
             put(to, "{}.{}{}\t./{}/{}\n", random.below(1000), random.below(10),
                 "KMG"[random.below(3)], any_word(random), any_word(random));
           }},
  };
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
  std::vector<std::string> arguments(const Kind& kind, uint64_t memory_bytes,
                                     const std::string& output) const;
  Result<ChildRun> run(std::vector<std::string> words, const Kind& kind, uint64_t memory_bytes,
                       const std::string& output) const;
  Status race_uutils(const Kind& kind, const std::string& wanted, double our_seconds);

  const Options& options_;
  const Sizes& sizes_;
  const Scratch& scratch_;
  const std::string input_ = scratch_.file("input");
  std::vector<double> vs_gnu_;
  std::vector<double> vs_best_;
  std::vector<double> more_memory_;
  Report report_;
};

std::vector<std::string> Bench::arguments(const Kind& kind, uint64_t memory_bytes,
                                          const std::string& output) const {
  std::vector<std::string> words = kind.options;
  words.insert(words.end(),
               {"-S", fmt::format("{}b", memory_bytes), "--parallel", std::to_string(threads), "-T",
                scratch_.folder(), "-o", output, input_});
  return words;
}

Result<ChildRun> Bench::run(std::vector<std::string> words, const Kind& kind, uint64_t memory_bytes,
                            const std::string& output) const {
  const auto more = arguments(kind, memory_bytes, output);
  words.insert(words.end(), more.begin(), more.end());
  if (Status ready = prepare_machine(memory_bytes, input_); !ready)
    return std::unexpected(ready.error());
  return run_child(words, {"LC_ALL=C"});
}

Status Bench::race(const Kind& kind) {
  if (auto made = write_items(input_, sizes_.bytes, "", kind.append); !made)
    return std::unexpected(made.error());
  const std::string ours = scratch_.file("ours");
  const std::string theirs = scratch_.file("theirs");
  std::vector<double> our_seconds, more_seconds, their_seconds, our_processor, their_processor;
  for (unsigned turn = 0; turn < options_.runs_or(3); ++turn) {
    auto done = run({options_.program, "sort"}, kind, sizes_.memory_bytes, ours);
    if (!done) return std::unexpected(done.error());
    our_seconds.push_back(done->seconds);
    our_processor.push_back(done->processor_s);
    const bool is_long = !their_seconds.empty() && their_seconds.back() > repeated_seconds_max;
    if (!is_long) {
      auto gnu = run({"sort"}, kind, sizes_.memory_bytes, theirs);
      if (!gnu) return std::unexpected(gnu.error());
      their_seconds.push_back(gnu->seconds);
      their_processor.push_back(gnu->processor_s);
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
  const double their_wall = report_.add(name + ", GNU sort", "s", their_seconds);
  const double theirs_busy = report_.add(name + ", GNU sort, processor time", "s", their_processor);
  report_.add(name + ", GNU sort's time over ours", "", {their_wall / wall});
  report_.add(name + ", GNU sort's processor time over ours", "", {theirs_busy / processor});
  vs_gnu_.push_back(their_wall / wall);
  const double more = report_.add(name + ", with memory for all", "s", more_seconds);
  more_memory_.push_back(wall / more);
  Status raced = race_uutils(kind, theirs, wall);
  fs::remove(theirs);
  return raced;
}

// `wanted` is the expected output.
Status Bench::race_uutils(const Kind& kind, const std::string& wanted, double our_seconds) {
  const std::string output = scratch_.file("others");
  Contender rival = uutils_sort(!options_.quick);
  rival.environment = {"LC_ALL=C"};
  const auto more = arguments(kind, sizes_.memory_bytes, output);
  rival.words.insert(rival.words.end(), more.begin(), more.end());
  const auto finish =
      bench::race(kind.name, rival,
                  {.runs = options_.runs_or(3),
                   .repeated_seconds_max = repeated_seconds_max,
                   .prepare = [&] { return prepare_machine(sizes_.memory_bytes, input_); },
                   .problem_of_output = [&]() -> Result<std::string> {
                     const auto same = run_child({"cmp", "-s", output, wanted});
                     if (!same) return std::unexpected(same.error());
                     return same->exit_code == 0 ? "" : "its output is another one's";
                   }},
                  report_);
  fs::remove(output);
  if (!finish) return std::unexpected(finish.error());
  if (*finish) vs_best_.push_back((*finish)->seconds / our_seconds);
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
