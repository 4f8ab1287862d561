// How fast are tables sorted, grouped and joined, compared with the best of the others?
//
// 1 GB each (two files of half of that for the join), -S 256M, two threads, into a file: CSV by a
// number, by two columns, and with ends of lines in quotes; groups by a text with 10, 10^4 and 10^7
// of them; a join of two unsorted files; JSON lines by a member. Each kind is also a bench of its
// own.
//
// The rivals are DuckDB and polars, with a limit of half as much memory again as ours and without
// one, xan, and pipelines of GNU sort, uniq, join and jq, each told the columns and types. Not all
// keep to a limit, so that there are two ratios: beside the best of all, and beside the best whose
// resident memory is at most 512 MiB. (A page that is visible at two addresses counts twice in
// ours; of a pipeline the largest program counts.)
//
// Sorts write the same bytes: keys are unique, and fields have quotes only where they need them.
// Rows of groups and joins have any order, and are sorted before they are compared. A rival that
// cannot run, fails, or has another result has a row that says so, and is not in the ratios.

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/random.h"
#include "bench/harness/bench.h"
#include "bench/harness/child.h"
#include "bench/harness/pages.h"
#include "bench/harness/scratch.h"
#include "bench/harness/text_race.h"
#include "bench/rivals/text_rivals.h"
#include "os/sanitizer.h"
#include "penstock/base.h"

namespace penstock::bench {
namespace {

namespace fs = std::filesystem;

constexpr unsigned threads = 2;
constexpr uint64_t resident_max_bytes = 512 * MiB;

struct Sizes {
  uint64_t bytes;
  uint64_t memory_bytes;
  uint64_t rival_bytes() const { return memory_bytes / 2 * 3; }
};

// A bijection of numbers below 2^40, which gives unique keys in no order.
uint64_t scrambled(uint64_t n) {
  constexpr uint64_t mask = (uint64_t{1} << 40) - 1;
  for (const uint64_t odd : {0x9e3779b97f4a7c15U, 0xbf58476d1ce4e5b9U}) {
    n ^= n >> 21;
    n = n * odd & mask;
  }
  return n ^ n >> 21;
}

void put(std::string& to, fmt::string_view format, const auto&... values) {
  fmt::vformat_to(std::back_inserter(to), format, fmt::make_format_args(values...));
}

// Files of a race: commands of a shell name them $in, $other, $out and $folder.
struct Files {
  std::string in, other, out, folder;
};

struct Kind {
  std::string bench;  // name of the bench for this kind only
  std::string name;
  std::string job;  // word of external/tables.py
  std::vector<std::string> ours;
  std::vector<std::vector<std::string>> xan;  // words of each way that xan has
  std::string shell_name;                     // empty: there is no pipeline of a shell
  std::string shell;
  std::string header;
  AppendItem append;
  std::string other_header;  // empty unless the kind is a join
  AppendItem append_other = {};
  bool has_any_order = false;
  // Filters from stdin to stdout for a comparison with the pipeline, which does less.
  std::string our_part = "cat", shell_part = "cat";
};

std::string sort_words(const Sizes& sizes) {
  return fmt::format("sort -S {}b --parallel {} -T \"$folder\"", sizes.memory_bytes, threads);
}

std::vector<Kind> sorts(const Sizes& sizes) {
  const std::string gnu_sort = sort_words(sizes);
  const std::string below_header =
      "head -n 1 \"$in\" > \"$out\"; tail -n +2 \"$in\" | " + gnu_sort + " -t, {} >> \"$out\"";
  const auto sale = [](Random& random, uint64_t number, std::string& to) {
    put(to, "{},{},{},{} {}\n", any_word(random), scrambled(number), any_word(random),
        any_word(random), any_word(random));
  };
  const std::vector<std::vector<std::string>> xan_sorts = {
      {"sort", "--numeric", "--select", "amount", "--parallel", "$in"},
      {"sort", "--numeric", "--select", "amount", "--external", "--memory-limit",
       std::to_string(sizes.rival_bytes() / MiB), "--tmp-dir", "$folder", "$in"}};
  const std::string sales = "name,amount,city,note\n";
  return {
      {.bench = "csv-number",
       .name = "CSV by a number",
       .job = "number",
       .ours = {"sort", "--csv", "--header", "--key", "amount:n", "$in"},
       .xan = xan_sorts,
       .shell_name = "GNU sort",
       .shell = fmt::format(fmt::runtime(below_header), "-k2,2n"),
       .header = sales,
       .append = sale},
      {.bench = "csv-two-columns",
       .name = "CSV by two columns",
       .job = "two-columns",
       .ours = {"sort", "--csv", "--header", "--key", "city", "--key", "amount:n:desc", "$in"},
       .xan = {},  // it has one order for all columns
       .shell_name = "GNU sort",
       .shell = fmt::format(fmt::runtime(below_header), "-k3,3 -k2,2nr"),
       .header = sales,
       .append = sale},
      {.bench = "csv-quoted",
       .name = "CSV with ends of lines in quotes",
       .job = "quoted",
       .ours = {"sort", "--csv", "--header", "--key", "amount:n", "$in"},
       .xan = xan_sorts,
       .shell_name = {},
       .shell = {},
       .header = sales,
       .append =
           [](Random& random, uint64_t number, std::string& to) {
             put(to, "{},{},\"{}, {}\n{}\",{}\n", any_word(random), scrambled(number),
                 any_word(random), any_word(random), any_word(random), any_word(random));
           }},
      {.bench = "csv-jsonl",
       .name = "JSON lines by a member",
       .job = "jsonl",
       .ours = {"sort", "--jsonl", "--key", ".id:n", "$in"},
       .xan = {},
       .shell_name = "jq and GNU sort",
       .shell = "jq -r '\"\\(.id)\\t\\(tojson)\"' \"$in\" | " + gnu_sort +
                " -k1,1n | cut -f 2- > \"$out\"",
       .header = {},
       .append =
           [](Random& random, uint64_t number, std::string& to) {
             put(to, "{{\"id\":{},\"name\":\"{}\",\"note\":\"{} {} {}\"}}\n", scrambled(number),
                 any_word(random), any_word(random), any_word(random), any_word(random));
           }},
  };
}

Kind group(const Sizes& sizes, const char* bench, const char* count, uint64_t groups) {
  return {
      .bench = bench,
      .name = fmt::format("groups of CSV, {} of them", count),
      .job = "group",
      .ours = {"group", "--csv", "--header", "--key", "name", "--count", "--sum", "amount", "$in"},
      .xan = {{"groupby", "--threads", std::to_string(threads), "name",
               "count() as count, sum(amount) as sum_amount", "$in"}},
      .shell_name = "GNU sort and uniq (counts only)",
      .shell = "tail -n +2 \"$in\" | cut -d, -f1 | " + sort_words(sizes) + " | uniq -c > \"$out\"",
      .header = "name,amount\n",
      .append =
          [groups](Random& random, uint64_t, std::string& to) {
            const uint64_t group = random.below(groups);
            put(to, "{} {},{}\n", words()[group % words().size()], group, random.below(1'000'000));
          },
      .has_any_order = true,
      .our_part = "tail -n +2 | cut -d, -f1,2",
      .shell_part = "sed -E 's/^ *([0-9]+) (.*)/\\2,\\1/'"};
}

Kind join(const Sizes& sizes) {
  const std::string gnu_sort = sort_words(sizes) + " -t, -k1,1";
  // About as many rows as the other input has; one in five then has no partner.
  const uint64_t keys = sizes.bytes / 2 / 28 / 4 * 5 + 1;
  return {.bench = "csv-join",
          .name = "join of two CSV",
          .job = "join",
          .ours = {"join", "--csv", "--header", "--key", "id", "$in", "$other"},
          .xan = {{"join", "--drop-key", "right", "id", "$in", "id", "$other"}},
          .shell_name = "GNU sort and join",
          .shell = "join -t, <(tail -n +2 \"$in\" | " + gnu_sort + ") <(tail -n +2 \"$other\" | " +
                   gnu_sort + ") > \"$out\"",
          .header = "id,name,note\n",
          .append =
              [keys](Random& random, uint64_t, std::string& to) {
                put(to, "{},{},{} {}\n", scrambled(random.below(keys)), any_word(random),
                    any_word(random), any_word(random));
              },
          .other_header = "id,city\n",
          .append_other =
              [](Random& random, uint64_t number, std::string& to) {
                put(to, "{},{} {}\n", scrambled(number), any_word(random), any_word(random));
              },
          .has_any_order = true,
          .our_part = "tail -n +2"};
}

class Bench {
 public:
  Bench(const Options& options, const Sizes& sizes, const Scratch& scratch)
      : options_(options), sizes_(sizes), scratch_(scratch) {}

  Status race(const Kind& kind);
  Report take_report();

 private:
  Files files(const std::string& output) const {
    return {scratch_.file("input"), scratch_.file("other"), scratch_.file(output),
            scratch_.folder()};
  }
  std::vector<Contender> rivals(const Kind& kind) const;
  Result<std::string> problem_of_output(const Kind& kind, bool is_shell) const;

  const Options& options_;
  const Sizes& sizes_;
  const Scratch& scratch_;
  std::vector<double> vs_best_, vs_best_small_;
  Report report_;
};

std::vector<std::string> with_files(std::vector<std::string> words, const Files& files) {
  for (std::string& word : words) {
    if (word == "$in") word = files.in;
    if (word == "$other") word = files.other;
    if (word == "$folder") word = files.folder;
  }
  return words;
}

// A command of bash, which has the files as variables.
Contender shell(const std::string& name, const std::string& command, const Files& files) {
  return {.name = name,
          .words = {"bash", "-o", "pipefail", "-c", command},
          .problem = {},
          .environment = {"LC_ALL=C", "in=" + files.in, "other=" + files.other, "out=" + files.out,
                          "folder=" + files.folder}};
}

// The rivals; a pipeline of a shell is the last one.
std::vector<Contender> Bench::rivals(const Kind& kind) const {
  const Files theirs = files("theirs");
  std::vector<Contender> all = table_rivals({.word = kind.job,
                                             .input = theirs.in,
                                             .other_input = theirs.other,
                                             .output = theirs.out,
                                             .folder = theirs.folder,
                                             .memory_bytes = sizes_.rival_bytes(),
                                             .threads = threads});
  for (const std::vector<std::string>& way : kind.xan) {
    Contender& rival = all.emplace_back(xan(!options_.quick));
    if (std::ranges::find(way, "--external") != way.end()) rival.name += " --external";
    rival.words.insert(rival.words.end(), way.begin(), way.end());
    rival.words.insert(rival.words.end(), {"--output", theirs.out});
    rival.words = with_files(rival.words, theirs);
    rival.environment = {fmt::format("RAYON_NUM_THREADS={}", threads)};
  }
  if (!kind.shell.empty()) all.push_back(shell(kind.shell_name, kind.shell, theirs));
  return all;
}

Result<std::string> Bench::problem_of_output(const Kind& kind, bool is_shell) const {
  const std::string ours = files("ours").out, theirs = files("theirs").out;
  std::string command = "cmp -s \"$out\" \"$other\"";
  if (kind.has_any_order) {
    const std::string sorted = " | " + sort_words(sizes_);
    const std::string header = "tail -n +2";
    command = fmt::format("cmp -s <(< \"$out\" {}{}) <(< \"$other\" {}{})",
                          is_shell ? kind.our_part : header, sorted,
                          is_shell ? kind.shell_part : header, sorted);
  }
  const Contender compares =
      shell("", command, {.in = {}, .other = theirs, .out = ours, .folder = scratch_.folder()});
  const auto same = run_child(compares.words, compares.environment);
  if (!same) return std::unexpected(same.error());
  return same->exit_code == 0 ? "" : "its output is another one's";
}

Status Bench::race(const Kind& kind) {
  const Files our_files = files("ours");
  const uint64_t bytes = kind.append_other ? sizes_.bytes / 2 : sizes_.bytes;
  auto made = write_items(our_files.in, bytes, kind.header, kind.append);
  if (made && kind.append_other)
    made = write_items(our_files.other, bytes, kind.other_header, kind.append_other);
  if (!made) return std::unexpected(made.error());
  report_.hash(*made);
  RaceRules rules{.runs = options_.runs_or(3),
                  .prepare = [&] { return prepare_machine(sizes_.memory_bytes, our_files.in); },
                  .problem_of_output = [] { return std::string(); }};
  Contender ours{.name = "penstock " + kind.ours.front(),
                 .words = with_files(kind.ours, our_files)};
  ours.words.insert(ours.words.begin(), options_.program);
  ours.words.insert(ours.words.end(), {"-S", fmt::format("{}b", sizes_.memory_bytes), "-T",
                                       our_files.folder, "-o", our_files.out});
  if (kind.job != "join")
    ours.words.insert(ours.words.end(), {"--parallel", std::to_string(threads)});
  const auto finish = bench::race(kind.name, ours, rules, report_);
  if (!finish) return std::unexpected(finish.error());
  if (!*finish) return failure(ErrorCode::io, "go on after a failure of ours", kind.name);

  std::optional<double> best, best_small;
  for (const Contender& rival : rivals(kind)) {
    const bool is_shell = rival.name == kind.shell_name;
    rules.problem_of_output = [&] { return problem_of_output(kind, is_shell); };
    const auto theirs = bench::race(kind.name, rival, rules, report_);
    fs::remove(files("theirs").out);
    if (!theirs) return std::unexpected(theirs.error());
    if (!*theirs) continue;
    const auto keep_least = [&](std::optional<double>& least) {
      least = std::min(least.value_or((*theirs)->seconds), (*theirs)->seconds);
    };
    keep_least(best);
    if ((*theirs)->resident_bytes <= resident_max_bytes) keep_least(best_small);
  }
  fs::remove(our_files.out);
  const std::string suffix = "_" + kind.bench.substr(kind.bench.find('-') + 1);
  const auto add_ratio = [&](std::string name, const std::optional<double>& least,
                             std::vector<double>& all) {
    if (!least) return;
    all.push_back(*least / (*finish)->seconds);
    name += suffix;
    std::ranges::replace(name, '-', '_');
    report_.ratio(name, all.back());
  };
  add_ratio("vs_best_rival", best, vs_best_);
  add_ratio("vs_best_rival_in_512_mib", best_small, vs_best_small_);
  return {};
}

Report Bench::take_report() {
  if (vs_best_.size() > 1) report_.ratio("vs_best_rival_min", *std::ranges::min_element(vs_best_));
  if (vs_best_small_.size() > 1)
    report_.ratio("vs_best_rival_in_512_mib_min", *std::ranges::min_element(vs_best_small_));
  return std::move(report_);
}

std::vector<Kind> kinds(const Sizes& sizes) {
  std::vector<Kind> all = sorts(sizes);
  all.push_back(group(sizes, "csv-group-10", "10", 10));
  all.push_back(group(sizes, "csv-group-10k", "10,000", 10'000));
  all.push_back(group(sizes, "csv-group-10m", "10 million", 10'000'000));
  all.push_back(join(sizes));
  return all;
}

// Runs one kind, or all if there is no name.
Result<Report> run(const Options& options, const std::string& name) {
  // A sanitized program is larger.
  Sizes sizes{1'000'000'000, 256 * MiB};
  if (options.quick) sizes = {4 * MiB, 40 * MiB + (os::shadowed ? 16 * MiB : 0)};
  Result<Scratch> scratch = Scratch::make(options.directory);
  if (!scratch) return std::unexpected(scratch.error());
  Bench bench(options, sizes, *scratch);
  for (const Kind& kind : kinds(sizes)) {
    if (!name.empty() && kind.bench != name) continue;
    if (Status done = bench.race(kind); !done) return std::unexpected(done.error());
  }
  return bench.take_report();
}

const Registration registration{
    "csv", "sorts, groups and joins of tables, beside DuckDB, polars and others",
    [](const Options& options) { return run(options, ""); }};

const bool parts_registered = [] {
  for (const Kind& kind : kinds({})) {
    Registration(kind.bench, "a part of `csv`: " + kind.name,
                 [name = kind.bench](const Options& options) { return run(options, name); });
  }
  return true;
}();

}  // namespace
}  // namespace penstock::bench
