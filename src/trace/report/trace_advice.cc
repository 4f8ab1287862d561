#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "penstock/base.h"
#include "trace/report/advice.h"
#include "trace/report/text.h"

// Advice on a trace. A kind of call that takes a tenth of the clock's time or more is worth advice; a
// second figure decides which: bytes per sync, bytes per call, seeks per read, opens per file. If no
// kind does, and calls on files take little time together, the advice is to look elsewhere.

namespace penstock::report {
namespace {

using trace::CallKind;
using trace::CallSum;
using trace::Conversion;
using trace::ConvertedFile;

constexpr double part_min = 0.1;
constexpr uint64_t calls_min = 100;         // calls that give advice on their size or order
constexpr double small_bytes = 16 * 1024;   // mean of calls that could well be larger
constexpr double large_bytes = 256 * 1024;  // size of a call that costs no more per byte
constexpr double random_ns_min = 20'000;    // mean of a read that did not come from a cache
constexpr double opens_per_file_min = 4;
constexpr uint64_t mapped_min = 64 * MiB;
constexpr uint64_t whole_ns_min = 100'000'000;  // shortest trace that says where not to look
constexpr size_t name_characters = 60;

double seconds_of(uint64_t ns) {
  return static_cast<double>(ns) * 1e-9;
}

double part_of(const Conversion& trace, uint64_t ns) {
  return static_cast<double>(ns) / static_cast<double>(trace.whole_ns);
}

// Returns "400 syncs took 2.70 s, 92 % of the time".
std::string took(const Conversion& trace, const CallSum& sum, const char* call,
                 const char* calls = "") {
  return fmt::format("{} took {}, {} of the time", counted(sum.calls, call, calls),
                     duration_text(seconds_of(sum.ns)),
                     share_text(static_cast<double>(sum.ns), static_cast<double>(trace.whole_ns)));
}

// Returns a sentence on the file that took most of the time of a kind of call; none if no file took
// as much as a third.
std::string mostly(const Conversion& trace, CallKind kind) {
  const auto ns_of = [&](const ConvertedFile& file) { return file.calls.of(kind).ns; };
  const auto most = std::ranges::max_element(trace.files, {}, ns_of);
  if (most == trace.files.end() || ns_of(*most) == 0) return {};
  const uint64_t all_ns = trace.calls.of(kind).ns;
  if (3 * static_cast<double>(ns_of(*most)) < static_cast<double>(all_ns)) return {};
  const std::string share =
      share_text(static_cast<double>(ns_of(*most)), static_cast<double>(all_ns));
  return fmt::format(" {} of it on {}.", share == "100 %" ? "All" : share,
                     printable(most->path, name_characters));
}

using Weighted = std::pair<uint64_t, Advice>;  // the time that the advice is about

void advise_on_syncs(const Conversion& trace, std::vector<Weighted>& advice) {
  const CallSum& syncs = trace.calls.of(CallKind::sync);
  if (part_of(trace, syncs.ns) < part_min) return;
  advice.push_back(
      {syncs.ns,
       {.what = "Write more per sync: sync once for many records, not for each",
        .how = "",
        .why = fmt::format(
            "{}, for {} written per sync.{}", took(trace, syncs, "sync"),
            bytes_text(static_cast<double>(trace.written_bytes) / static_cast<double>(syncs.calls)),
            mostly(trace, CallKind::sync))}});
}

void advise_on_transfers(const Conversion& trace, CallKind kind, std::vector<Weighted>& advice) {
  const CallSum& sum = trace.calls.of(kind);
  if (part_of(trace, sum.ns) < part_min || sum.calls < calls_min) return;
  const bool reads = kind == CallKind::read;
  const auto calls = static_cast<double>(sum.calls);
  const auto bytes = static_cast<double>(reads ? trace.read_bytes : trace.written_bytes);
  const bool jumps = trace.requests > 0 && 2 * trace.file_seeks >= trace.requests;
  const char* const word = reads ? "read" : "write";
  if (jumps && static_cast<double>(sum.ns) / calls >= random_ns_min) {
    advice.push_back(
        {sum.ns,
         {.what = reads ? "Read in the order of the file, or ask for many places at once"
                        : "Write in the order of the file, or collect neighbouring bytes first",
          .how = "",
          .why = fmt::format(
              "{}, {} each, and {} of all requests began where the last one of their file did not "
              "end.{}",
              took(trace, sum, word), duration_text(seconds_of(sum.ns) / calls),
              share_text(static_cast<double>(trace.file_seeks),
                         static_cast<double>(trace.requests)),
              mostly(trace, kind))}});
  } else if (!jumps && bytes / calls < small_bytes) {
    const auto enough = static_cast<uint64_t>(bytes / large_bytes) + 1;
    advice.push_back({sum.ns,
                      {.what = reads ? "Read more per call: use a larger buffer"
                                     : "Write more per call: use a larger buffer",
                       .how = "",
                       .why = fmt::format("{}, with {} each; with 256 KiB each, {} would do.{}",
                                          took(trace, sum, word), bytes_text(bytes / calls),
                                          grouped(enough), mostly(trace, kind))}});
  }
}

// Returns "/a (3), /b (1)": the names that were looked for most often and not found.
std::string missed_names(const Conversion& trace, size_t names_max) {
  std::string names;
  for (size_t i = 0; i < std::min(names_max, trace.failed_names.size()); ++i) {
    const trace::FailedName& name = trace.failed_names[i];
    names += fmt::format("{}{} ({})", i == 0 ? "" : ", ", printable(name.path, name_characters),
                         grouped(name.calls));
  }
  return names;
}

void advise_on_searches(const Conversion& trace, std::vector<Weighted>& advice) {
  const CallSum& failed = trace.calls.of(CallKind::failed);
  const CallSum& stats = trace.calls.of(CallKind::stat);
  if (part_of(trace, failed.ns) >= part_min && failed.calls >= calls_min) {
    advice.push_back({failed.ns,
                      {.what = "Look in fewer places for files that are not there",
                       .how = "",
                       .why = fmt::format("{}. Most often: {}.",
                                          took(trace, failed, "open or stat that failed",
                                               "opens and stats that failed"),
                                          missed_names(trace, 3))}});
  }
  if (part_of(trace, stats.ns) >= part_min && stats.calls >= calls_min) {
    advice.push_back(
        {stats.ns,
         {.what = "Ask less often for the state of files",
          .how = "",
          .why = took(trace, stats, "call of stat and its like", "calls of stat and its like") +
                 "."}});
  }
}

void advise_on_opens(const Conversion& trace, std::vector<Weighted>& advice) {
  const CallSum& opens = trace.calls.of(CallKind::open);
  const auto files =
      static_cast<uint64_t>(std::ranges::count_if(trace.files, [](const ConvertedFile& file) {
        return file.calls.of(CallKind::open).calls > 0;
      }));
  if (part_of(trace, opens.ns) < part_min || opens.calls < calls_min || files == 0 ||
      static_cast<double>(opens.calls) < opens_per_file_min * static_cast<double>(files)) {
    return;
  }
  advice.push_back({opens.ns,
                    {.what = "Keep files open between their uses",
                     .how = "",
                     .why = fmt::format("{}; they were of {}.{}", took(trace, opens, "open"),
                                        counted(files, "file"), mostly(trace, CallKind::open))}});
}

}  // namespace

std::string failed_names_text(const trace::Conversion& trace) {
  constexpr size_t names_max = 5;
  if (trace.failed_names.empty()) return {};
  return "Not found: " + missed_names(trace, names_max) + ".";
}

std::vector<Advice> advice_on(const Conversion& trace) {
  std::vector<Weighted> weighted;
  std::vector<Advice> advice;
  if (has_times(trace)) {
    advise_on_syncs(trace, weighted);
    advise_on_transfers(trace, CallKind::read, weighted);
    advise_on_transfers(trace, CallKind::write, weighted);
    advise_on_opens(trace, weighted);
    advise_on_searches(trace, weighted);
    std::ranges::stable_sort(weighted, std::ranges::greater{}, &Weighted::first);
    for (auto& [ns, one] : weighted) advice.push_back(std::move(one));
  }
  const auto largest = std::ranges::max_element(trace.files, {}, &ConvertedFile::mapped_part_bytes);
  const uint64_t mapped = largest == trace.files.end() ? 0 : largest->mapped_part_bytes();
  const bool maps = mapped >= mapped_min && mapped > trace.read_bytes + trace.written_bytes;
  if (maps) {
    advice.push_back(
        {.what = "Count page faults as well",
         .how = "perf stat -e major-faults -- PROGRAM",
         .why = fmt::format("{} of {} are mapped. Reads of a mapping are page faults, which a "
                            "trace does not contain.",
                            bytes_text(mapped), printable(largest->path, name_characters))});
  }
  if (has_times(trace) && advice.empty() && trace.whole_ns >= whole_ns_min &&
      part_of(trace, trace.busy_ns) < part_min) {
    advice.push_back({.what = "Look elsewhere: files are not the limit",
                      .how = "perf record -g -- PROGRAM",
                      .why = fmt::format("Calls on files were under way for {} of {}.",
                                         share_text(static_cast<double>(trace.busy_ns),
                                                    static_cast<double>(trace.whole_ns)),
                                         duration_text(seconds_of(trace.whole_ns)))});
  }
  return advice;
}

}  // namespace penstock::report
