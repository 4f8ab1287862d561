// How fast are arrays sorted, compared with every other sort for this machine?
//
// For u64, u32, pairs of u64 and records of 100 bytes:
//   large          2^27 uniform items (records: 2^23), one, two and, where there are more processors,
//                  four threads and so on, on huge pages; with one thread also, once, with the
//                  set-up done before, and on pages of 4 KiB
//   huge           2^30 uniform items (u64 and u32), one thread, the three fastest rivals
//   distributions  2^24 items (pairs: 2^23, records: 2^20) of each distribution of `gen`, one thread
//   small          2^8 to 2^20 items (records: 2^18), one thread: many different arrays that lie
//                  one behind the other in 64 MiB (records: 50 MiB)
//
// Rules. All contenders sort the same memory in the same run, one after the other, in several
// rounds; everything is touched before. A call sorts an array and returns: its set-up is in its
// time, except for the workspace of x86-simd-sort for pairs and records, which is touched before:
// that favours this rival. malloc() is the same for all parts: from 32 MiB on, its memory is mapped
// and unmapped by the call. "Set-up done before" means that the sort has run once on this input and
// that malloc() has kept the freed memory, so that no sort waits for fresh pages. Every result is
// verified: it is in order, and made of the items of the input. A rival whose result is wrong is
// out, and named in a row; a wrong result of ours ends the bench.
//
// Contenders. Before each race all rivals sort an eighth of the items, once. A rival that takes
// more than field_factor times as long as the best one does not race, and one that took more than
// rounds_factor times as long as the best in the first round is not in the later ones.
//
// The ratios compare with the fastest rival, even if it takes more memory.

#include "penstock/sort.h"

#include <fmt/core.h>
#include <malloc.h>

#include <algorithm>
#include <bit>
#include <concepts>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/random.h"
#include "bench/harness/bench.h"
#include "bench/harness/pages.h"
#include "bench/rivals/sorts.h"
#include "generate/generator.h"
#include "items/hash.h"
#include "os/memory.h"
#include "penstock/base.h"

namespace penstock::bench {
namespace {

// ---- The four kinds of items.

template <class T>
struct Kind;

template <std::unsigned_integral T>
struct Kind<T> {
  static constexpr const char* name = sizeof(T) == 4 ? "u32" : "u64";
  static constexpr unsigned large_log2 = 27, large_log2_quick = 24, huge_log2 = 30;
  static constexpr unsigned distributions_log2 = 24;
  static uint64_t hash(T item) { return mix64(item); }
  static bool in_order(T a, T b) { return a <= b; }
};

template <>
struct Kind<KeyValue64> {
  static constexpr const char* name = "kv64";
  static constexpr unsigned large_log2 = 27, large_log2_quick = 22, huge_log2 = 0;
  static constexpr unsigned distributions_log2 = 23;
  static uint64_t hash(const KeyValue64& item) { return mix64(item.key ^ mix64(item.value)); }
  static bool in_order(const KeyValue64& a, const KeyValue64& b) { return a.key <= b.key; }
};

template <>
struct Kind<Record> {
  static constexpr const char* name = "record";
  static constexpr unsigned large_log2 = 23, large_log2_quick = 19, huge_log2 = 0;
  static constexpr unsigned distributions_log2 = 20;
  static uint64_t hash(const Record& item) {
    return items::hash_bytes(reinterpret_cast<const std::byte*>(&item), sizeof(item));
  }
  static bool in_order(const Record& a, const Record& b) {
    return std::memcmp(a.bytes, b.bytes, Record::key_bytes) <= 0;
  }
};

template <class T>
Result<items::Format> format_of() {
  return items::parse_format(Kind<T>::name);
}

// ---- Our sorts.

Status our_status;  // first error of the calls since it was last read

template <class T>
void ours(T* items, size_t count, unsigned threads) {
  const SortOptions options{.threads = threads};
  Status sorted;
  if constexpr (Sortable<T>) {
    sorted = penstock::sort(std::span(items, count), options);
  } else {
    sorted = sort_records(items, count, {sizeof(T), 0, T::key_bytes}, options);
  }
  if (!sorted && our_status) our_status = std::move(sorted);
}

// ---- Memory.

enum class Pages { huge, small };

// An array of touched memory.
template <class T>
class Array {
 public:
  static Result<Array> make(size_t count, Pages pages) {
    auto memory = anonymous_memory(count * sizeof(T), pages == Pages::huge, true);
    if (!memory) return std::unexpected(memory.error());
    return Array(std::move(*memory), count);
  }
  T* data() const { return reinterpret_cast<T*>(memory_.begin()); }
  std::span<T> span() const { return {data(), count_}; }
  size_t count() const { return count_; }

  // The share of it on huge pages, 0 to 1.
  double huge_share() const {
    std::ifstream maps("/proc/self/smaps");
    const auto first = reinterpret_cast<uint64_t>(memory_.begin());
    bool inside = false;
    uint64_t huge_bytes = 0;
    for (std::string line; std::getline(maps, line);) {
      uint64_t begin = 0, end = 0, kib = 0;
      if (std::sscanf(line.c_str(), "%lx-%lx ", &begin, &end) == 2) {
        inside = begin < first + memory_.bytes() && end > first;
      } else if (inside && std::sscanf(line.c_str(), "AnonHugePages: %lu", &kib) == 1) {
        huge_bytes += kib * KiB;
      }
    }
    return std::min(1.0, static_cast<double>(huge_bytes) / static_cast<double>(memory_.bytes()));
  }

 private:
  Array(os::Reservation memory, size_t count) : memory_(std::move(memory)), count_(count) {}
  os::Reservation memory_;
  size_t count_;
};

// ---- Inputs and results.

template <class T>
Status generate(generate::Distribution distribution, std::span<T> out) {
  auto format = format_of<T>();
  if (!format) return std::unexpected(format.error());
  auto generator = generate::Generator::open(
      {.format = *format, .distribution = distribution, .count = out.size()});
  if (!generator) return std::unexpected(generator.error());
  auto fill = [&](size_t first, size_t end) {
    generator->fill(first, end - first, reinterpret_cast<std::byte*>(out.data() + first));
  };
  std::thread other(fill, out.size() / 2, out.size());
  fill(0, out.size() / 2);
  other.join();
  return {};
}

template <class T>
uint64_t sum_of(std::span<const T> items) {
  uint64_t sum = items.size();
  for (const T& item : items) sum += Kind<T>::hash(item);
  return sum;
}

template <class T>
bool is_sorted(std::span<const T> items) {
  bool sorted = true;
  for (size_t i = 1; i < items.size(); ++i) sorted &= Kind<T>::in_order(items[i - 1], items[i]);
  return sorted;
}

// ---- A race.

constexpr double field_factor = 3;
constexpr double rounds_factor = 1.5;
constexpr size_t pilot_share = 8;

struct Time {
  std::string name;
  bool is_ours = false;
  std::vector<double> seconds;
  double median_seconds() const { return median(seconds); }
};

struct Standings {
  std::vector<Time> times;  // contenders that finished
  const Time& ours() const { return *std::ranges::find(times, true, &Time::is_ours); }
  // The fastest first.
  std::vector<const Time*> rivals() const {
    std::vector<const Time*> rivals;
    for (const Time& time : times) {
      if (!time.is_ours) rivals.push_back(&time);
    }
    std::ranges::sort(rivals, {}, [](const Time* time) { return time->median_seconds(); });
    return rivals;
  }
  double vs_best_rival() const {
    return rivals().front()->median_seconds() / ours().median_seconds();
  }
};

using Names = std::set<std::string>;

// Ours, and the rivals that took at most `factor` times as long as the best one, or the first
// `count` of them.
Names within(const Standings& standings, double factor, size_t count = ~size_t{0}) {
  Names names = {standings.ours().name};
  const auto rivals = standings.rivals();
  for (const Time* rival : rivals) {
    const bool near = rival->median_seconds() <= factor * rivals.front()->median_seconds();
    if (near && names.size() <= count) names.insert(rival->name);
  }
  return names;
}

template <class T>
struct Race {
  std::span<T> work;
  std::function<Status()> restore;  // copies the input to `work`
  uint64_t sum = 0;                 // sum of the input
  size_t part_items = 0;            // sorts parts of this size
  unsigned threads = 1;
  unsigned rounds = 1;
  bool warm_up = false;
  std::optional<Names> field;  // the contenders; default: all
};

template <class T>
class Bench {
 public:
  Bench(const Options& options, Report& report) : options_(options), report_(report) {}

  Status prepare();
  Status large();
  Status huge();
  Status distributions();
  Status small();

 private:
  struct Contender {
    Sorter<T> sorter;
    bool is_ours = false;
  };
  // The input, and the memory to sort it in.
  struct Course {
    Array<T> input;
    Array<T> work;
  };

  std::string row(const std::string& what, const std::string& name) const {
    return fmt::format("{} {}: {}", Kind<T>::name, what, name);
  }
  // A name without a type means u64.
  static std::string with_type(const std::string& name) {
    return std::is_same_v<T, uint64_t> ? name : name + "_" + Kind<T>::name;
  }
  static Result<Course> make_course(size_t items, Pages pages);
  // Makes a race over `items` new items at the beginning of the course.
  Result<Race<T>> race_of(const Course& course, generate::Distribution distribution, size_t items,
                          unsigned threads) const;
  Result<Standings> run(const Race<T>& race);
  // Runs a pilot, then the race among the fast ones.
  Result<Standings> run_with_pilot(const Course& course, generate::Distribution distribution,
                                   unsigned threads, size_t part_items = 0);
  bool verify(const Race<T>& race) const;
  // Rows for all contenders.
  void add_all(const std::string& what, const Standings& standings, size_t items);
  // Rows for ours and the best rival.
  void add_best(const std::string& what, const Standings& standings, size_t items);

  const Options& options_;
  Report& report_;
  std::vector<Contender> contenders_;
  Standings pilot_;  // result of the last run_with_pilot()
};

template <class T>
Status Bench<T>::prepare() {
  contenders_.push_back({{"penstock", ours<T>, nullptr, 1, 64}, true});
  Sorters<T> rivals = rival_sorts<T>();
  for (auto& rival : rivals.found) contenders_.push_back({rival});
  for (const auto& missing : rivals.missing) report_.add(row("not here", missing), "", {0});
  return {};
}

template <class T>
Result<typename Bench<T>::Course> Bench<T>::make_course(size_t items, Pages pages) {
  auto input = Array<T>::make(items, Pages::huge);
  if (!input) return std::unexpected(input.error());
  auto work = Array<T>::make(items, pages);
  if (!work) return std::unexpected(work.error());
  return Course{std::move(*input), std::move(*work)};
}

template <class T>
Result<Race<T>> Bench<T>::race_of(const Course& course, generate::Distribution distribution,
                                  size_t items, unsigned threads) const {
  const std::span<T> input = course.input.span().first(items);
  const std::span<T> work = course.work.span().first(items);
  if (Status made = generate<T>(distribution, input); !made) return std::unexpected(made.error());
  return Race<T>{.work = work,
                 .restore =
                     [input, work] {
                       std::memcpy(static_cast<void*>(work.data()), input.data(),
                                   input.size_bytes());
                       return Status{};
                     },
                 .sum = sum_of<T>(input),
                 .part_items = items,
                 .threads = threads,
                 .rounds = options_.runs_or(3)};
}

template <class T>
bool Bench<T>::verify(const Race<T>& race) const {
  const std::span<const T> work = race.work;
  for (size_t at = 0; at < work.size(); at += race.part_items) {
    if (!is_sorted(work.subspan(at, race.part_items))) return false;
  }
  return sum_of(work) == race.sum;
}

template <class T>
Result<Standings> Bench<T>::run(const Race<T>& race) {
  struct Lane {
    const Contender& contender;
    Time time;
    bool out = false;
  };
  std::vector<Lane> lanes;
  for (const Contender& contender : contenders_) {
    const Sorter<T>& sorter = contender.sorter;
    if (race.threads < sorter.threads_min || race.threads > sorter.threads_max) continue;
    if (race.field && !race.field->contains(sorter.name)) continue;
    lanes.push_back({contender, {sorter.name, contender.is_ours, {}}});
  }
  // Returns the seconds of one sort; nullopt if its result is wrong.
  auto measure = [&](const Lane& lane) -> Result<std::optional<double>> {
    if (Status done = race.restore(); !done) return std::unexpected(done.error());
    const Sorter<T>& sorter = lane.contender.sorter;
    if (sorter.prepare != nullptr) sorter.prepare(race.part_items);
    const double seconds = seconds_of([&] {
      for (size_t at = 0; at < race.work.size(); at += race.part_items) {
        sorter.sort(race.work.data() + at, race.part_items, race.threads);
      }
    });
    if (!our_status) return std::unexpected(std::exchange(our_status, {}).error());
    if (!verify(race)) return std::nullopt;
    return seconds;
  };
  for (unsigned round = 0; round < race.rounds; ++round) {
    double best = std::numeric_limits<double>::infinity();
    for (Lane& lane : lanes) {
      if (lane.out) continue;
      auto seconds = measure(lane);
      if (seconds && *seconds && race.warm_up && round == 0) seconds = measure(lane);
      if (!seconds) return std::unexpected(seconds.error());
      if (*seconds) {
        lane.time.seconds.push_back(**seconds);
        if (!lane.time.is_ours) best = std::min(best, **seconds);
        continue;
      }
      if (lane.time.is_ours) return failure(ErrorCode::corrupt, "sort", Kind<T>::name);
      report_.add(row("out for a wrong result", lane.time.name), "", {0});
      lane.out = true;
      lane.time.seconds.clear();
    }
    if (round > 0) continue;
    for (Lane& lane : lanes) {
      if (lane.time.is_ours || lane.out) continue;
      lane.out = lane.time.seconds.front() > rounds_factor * best;
    }
  }
  Standings standings;
  for (Lane& lane : lanes) {
    if (!lane.time.seconds.empty()) standings.times.push_back(std::move(lane.time));
  }
  report_.hash(race.sum);
  return standings;
}

template <class T>
Result<Standings> Bench<T>::run_with_pilot(const Course& course,
                                           generate::Distribution distribution, unsigned threads,
                                           size_t part_items) {
  const size_t items = course.input.count();
  auto pilot = race_of(course, distribution, std::max(items / pilot_share, part_items), threads);
  if (!pilot) return std::unexpected(pilot.error());
  if (part_items != 0) pilot->part_items = part_items;
  pilot->rounds = 1;
  auto pilot_standings = run(*pilot);
  if (!pilot_standings) return std::unexpected(pilot_standings.error());
  pilot_ = std::move(*pilot_standings);

  auto race = race_of(course, distribution, items, threads);
  if (!race) return std::unexpected(race.error());
  if (part_items != 0) race->part_items = part_items;
  race->field = within(pilot_, field_factor);
  return run(*race);
}

template <class T>
void Bench<T>::add_all(const std::string& what, const Standings& standings, size_t items) {
  for (const Time& time : standings.times) {
    std::vector<double> speeds;
    for (double seconds : time.seconds)
      speeds.push_back(static_cast<double>(items) / seconds / 1e6);
    report_.add(row(what, time.name), "M/s", speeds);
  }
}

template <class T>
void Bench<T>::add_best(const std::string& what, const Standings& standings, size_t items) {
  for (const Time* time : {&standings.ours(), standings.rivals().front()}) {
    std::vector<double> ns;
    for (double seconds : time->seconds) ns.push_back(seconds / static_cast<double>(items) * 1e9);
    report_.add(row(what, time->name), "ns/item", ns);
  }
}

// Sets the limits that glibc's malloc() would choose by itself after blocks of that size were
// freed. Setting any limit fixes all of them, and without this, the parts behind KeepFreedMemory
// would map every 128 KiB anew.
void set_malloc_limits() {
  mallopt(M_MMAP_MAX, 65536);
  mallopt(M_MMAP_THRESHOLD, static_cast<int>(32 * MiB));
  mallopt(M_TRIM_THRESHOLD, static_cast<int>(64 * MiB));
}

// glibc's malloc() keeps freed memory, and its pages, during this object's lifetime.
class KeepFreedMemory {
 public:
  KeepFreedMemory() {
    mallopt(M_MMAP_MAX, 0);
    mallopt(M_TRIM_THRESHOLD, -1);
  }
  ~KeepFreedMemory() {
    set_malloc_limits();
    malloc_trim(0);
  }
  KeepFreedMemory(const KeepFreedMemory&) = delete;
  KeepFreedMemory& operator=(const KeepFreedMemory&) = delete;
};

std::string power(size_t items) {
  return fmt::format("2^{}", std::countr_zero(items));
}

template <class T>
Status Bench<T>::large() {
  constexpr auto uniform = generate::Distribution::uniform;
  const size_t items =
      size_t{1} << (options_.quick ? Kind<T>::large_log2_quick : Kind<T>::large_log2);
  const std::string size = fmt::format("2p{}", std::countr_zero(items));
  Names fast;
  {
    std::map<unsigned, double> our_seconds;
    auto course = make_course(items, Pages::huge);
    if (!course) return std::unexpected(course.error());
    report_.add(row(power(items), "share of the array on huge pages"), "",
                {course->work.huge_share()});
    std::vector<unsigned> counts = thread_counts(options_);
    std::ranges::reverse(counts);  // one thread last: `fast` is for it
    for (unsigned threads : counts) {
      const std::string suffix = fmt::format(", {} thread{}", threads, threads == 1 ? "" : "s");
      auto standings = run_with_pilot(*course, uniform, threads);
      if (!standings) return std::unexpected(standings.error());
      add_all(power(items / pilot_share) + suffix + ", who runs on", pilot_, items / pilot_share);
      add_all(power(items) + suffix, *standings, items);
      if (!standings->rivals().empty()) {  // few rivals have two threads
        report_.ratio(fmt::format("vs_best_rival_{}_{}t_{}", Kind<T>::name, threads, size),
                      standings->vs_best_rival());
      }
      our_seconds[threads] = standings->ours().median_seconds();
      fast = within(*standings, field_factor, 4);
    }
    for (const auto& [threads, seconds] : our_seconds) {
      if (threads > 1)
        report_.ratio(with_type(fmt::format("speedup_{}t", threads)), our_seconds[1] / seconds);
    }

    const KeepFreedMemory keep_freed_memory;
    auto race = race_of(*course, uniform, items, 1);
    if (!race) return std::unexpected(race.error());
    race->field = fast;
    race->warm_up = true;
    race->rounds = 1;
    auto standings = run(*race);
    if (!standings) return std::unexpected(standings.error());
    add_all(power(items) + ", 1 thread, set-up done before", *standings, items);
  }
  auto course = make_course(items, Pages::small);
  if (!course) return std::unexpected(course.error());
  report_.add(row(power(items), "share of the other array on huge pages"), "",
              {course->work.huge_share()});
  auto race = race_of(*course, uniform, items, 1);
  if (!race) return std::unexpected(race.error());
  race->field = fast;
  race->rounds = 1;
  auto standings = run(*race);
  if (!standings) return std::unexpected(standings.error());
  add_all(power(items) + ", 1 thread, pages of 4 KiB", *standings, items);
  return {};
}

// The input is generated for each sort, because a copy of it would not fit beside a rival's memory.
template <class T>
Status Bench<T>::huge() {
  if (Kind<T>::huge_log2 == 0 || options_.quick) return {};
  constexpr auto uniform = generate::Distribution::uniform;
  const size_t items = size_t{1} << Kind<T>::huge_log2;
  Names field;
  {
    auto course = make_course(items / pilot_share / 2, Pages::huge);
    if (!course) return std::unexpected(course.error());
    auto standings = run_with_pilot(*course, uniform, 1);
    if (!standings) return std::unexpected(standings.error());
    field = within(*standings, field_factor, 3);
  }
  auto work = Array<T>::make(items, Pages::huge);
  if (!work) return std::unexpected(work.error());
  const std::span<T> span = work->span();
  if (Status made = generate<T>(uniform, span); !made) return made;
  auto standings = run({.work = span,
                        .restore = [span] { return generate<T>(uniform, span); },
                        .sum = sum_of<T>(span),
                        .part_items = items,
                        .rounds = options_.runs_or(3),
                        .field = field});
  if (!standings) return std::unexpected(standings.error());
  add_all(power(items) + ", 1 thread", *standings, items);
  report_.ratio(fmt::format("vs_best_rival_{}_1t_2p{}", Kind<T>::name, Kind<T>::huge_log2),
                standings->vs_best_rival());
  return {};
}

template <class T>
Status Bench<T>::distributions() {
  auto format = format_of<T>();
  if (!format) return std::unexpected(format.error());
  const size_t items = size_t{1} << (options_.quick ? 15 : Kind<T>::distributions_log2);
  auto course = make_course(items, Pages::huge);
  if (!course) return std::unexpected(course.error());
  double least = std::numeric_limits<double>::infinity();
  for (generate::Distribution distribution : generate::distributions_of(format->type)) {
    auto standings = run_with_pilot(*course, distribution, 1);
    if (!standings) return std::unexpected(standings.error());
    add_best(fmt::format("{} {}", power(items), generate::name_of(distribution)), *standings,
             items);
    least = std::min(least, standings->vs_best_rival());
  }
  report_.ratio(with_type("vs_best_rival_min_distribution"), least);
  return {};
}

template <class T>
Status Bench<T>::small() {
  const size_t bytes = options_.quick ? 2 * MiB : 64 * MiB;
  const size_t items = std::bit_floor(bytes / sizeof(T));
  auto course = make_course(items, Pages::huge);
  if (!course) return std::unexpected(course.error());
  double least = std::numeric_limits<double>::infinity();
  for (unsigned log2 = 8; log2 <= 20 && size_t{1} << log2 <= items; log2 += 2) {
    auto standings = run_with_pilot(*course, generate::Distribution::uniform, 1, size_t{1} << log2);
    if (!standings) return std::unexpected(standings.error());
    add_best(fmt::format("arrays of 2^{}", log2), *standings, items);
    least = std::min(least, standings->vs_best_rival());
  }
  report_.ratio(with_type("vs_best_rival_small"), least);
  return {};
}

// ---- All of it, and its parts by name.

using Part = std::string;

template <class T>
Status run_kind(const Options& options, const Part& part, Report& report) {
  Bench<T> bench(options, report);
  Status done = bench.prepare();
  if (done && (part.empty() || part == "large")) done = bench.large();
  if (done && (part.empty() || part == "huge")) done = bench.huge();
  if (done && (part.empty() || part == "distributions")) done = bench.distributions();
  if (done && (part.empty() || part == "small")) done = bench.small();
  return done;
}

Result<Report> run(const Options& options, const std::string& kind, const Part& part) {
  set_malloc_limits();
  Report report;
  Status done;
  if (done && (kind.empty() || kind == "u64")) done = run_kind<uint64_t>(options, part, report);
  if (done && (kind.empty() || kind == "u32")) done = run_kind<uint32_t>(options, part, report);
  if (done && (kind.empty() || kind == "kv64")) done = run_kind<KeyValue64>(options, part, report);
  if (done && (kind.empty() || kind == "record")) done = run_kind<Record>(options, part, report);
  if (!done) return std::unexpected(done.error());
  return report;
}

const Registration registration{"sort", "arrays, beside every other sort",
                                [](const Options& options) { return run(options, "", ""); }};

const bool parts_registered = [] {
  for (const char* kind : {"u64", "u32", "kv64", "record"}) {
    for (const char* part : {"large", "huge", "distributions", "small"}) {
      Registration(fmt::format("sort-{}-{}", kind, part), "a part of `sort`",
                   [kind, part](const Options& options) { return run(options, kind, part); });
    }
  }
  return true;
}();

}  // namespace
}  // namespace penstock::bench
