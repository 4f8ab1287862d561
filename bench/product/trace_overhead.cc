// The cost of a traced call, and of a call that is not traced: the same program plain, under each
// of our backends, and under strace, one after the other in each run. And GNU sort, as a program
// with typical calls.

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "bench/harness/bench.h"
#include "bench/harness/child.h"
#include "bench/harness/scratch.h"
#include "penstock/trace.h"

namespace penstock::bench {
namespace {

constexpr const char* calls_program = PENSTOCK_BINARY_DIR "/bench/penstock-bench-calls";
constexpr uint64_t file_bytes = 256 * 4096;

// The backends that can run here, found by a test capture.
std::vector<trace::Backend> backends(const Scratch& scratch) {
  std::vector<trace::Backend> usable;
  for (const auto backend : {trace::Backend::ptrace, trace::Backend::bpf}) {
    if (trace::capture({.output = scratch.file("probe"), .backend = backend, .command = {"true"}}))
      usable.push_back(backend);
  }
  return usable;
}

struct Tracing {
  std::string name;  // "plain", a backend's, "strace"
  trace::Backend backend = trace::Backend::unknown;
};

Result<uint64_t> run_under(const Tracing& how, std::vector<std::string> words,
                           const Scratch& scratch) {
  if (how.backend != trace::Backend::unknown) {
    auto captured = trace::capture(
        {.output = scratch.file("run.trace"), .backend = how.backend, .command = std::move(words)});
    if (!captured) return std::unexpected(captured.error());
    if (captured->totals.exit_code != 0) return failure(ErrorCode::io, "run the traced program");
    return captured->totals.events;
  }
  if (how.name == "strace") {
    // The calls that we trace, with the kernel's filter that lets others pass.
    std::vector<std::string> strace = {"strace",          "-f", "--seccomp-bpf",           "-e",
                                       "trace=desc,file", "-o", scratch.file("strace.txt")};
    words.insert(words.begin(), strace.begin(), strace.end());
  }
  auto child = run_child(words);
  if (!child) return std::unexpected(child.error());
  return uint64_t{0};
}

Result<double> ns_a_call(const Tracing& how, const std::string& call, uint64_t count,
                         const Scratch& scratch) {
  const std::string result = scratch.file("result");
  auto ran = run_under(
      how, {calls_program, call, scratch.file("data"), std::to_string(count), result}, scratch);
  if (!ran) return std::unexpected(ran.error());
  double ns = 0;
  if (!(std::ifstream(result) >> ns)) return failure(ErrorCode::io, "read the result", result);
  return ns;
}

bool has_program(const std::string& name) {
  const auto found = run_child({"sh", "-c", "command -v " + name + " >/dev/null"});
  return found && found->exit_code == 0;
}

Status measure_calls(Report& report, const Options& options, const Scratch& scratch,
                     const std::vector<Tracing>& ways) {
  const uint64_t count = options.quick ? 2000 : 1'000'000;
  for (const std::string call : {"pread", "getppid"}) {
    std::vector<std::vector<double>> overhead_us(ways.size()), ns(ways.size());
    for (unsigned run = 0; run < options.runs_or(3); ++run) {
      for (size_t i = 0; i < ways.size(); ++i) {
        // strace is slow, so fewer calls suffice.
        const uint64_t calls = call == "pread" && ways[i].name != "plain" ? count / 4 : count;
        auto taken = ns_a_call(ways[i], call, calls, scratch);
        if (!taken) return std::unexpected(taken.error());
        ns[i].push_back(*taken);
        overhead_us[i].push_back((*taken - ns[0].back()) / 1000);
      }
    }
    const std::string what = call == "pread" ? "pread of 4 KiB" : "call that is not traced";
    report.add(what + ", plain", "us", [&] {
      std::vector<double> us = ns[0];
      for (double& value : us) value /= 1000;
      return us;
    }());
    double strace_us = 0, ptrace_us = 0;
    for (size_t i = 1; i < ways.size(); ++i) {
      const double us = report.add(what + ", more under " + ways[i].name, "us", overhead_us[i]);
      if (call != "pread") continue;
      if (ways[i].name == "strace") strace_us = us;
      if (ways[i].name == "ptrace") ptrace_us = us;
      if (ways[i].name != "strace") report.ratio("us_a_call_" + ways[i].name, us);
    }
    if (strace_us > 0 && ptrace_us > 0) report.ratio("vs_strace", strace_us / ptrace_us);
  }
  return {};
}

Status measure_sort(Report& report, const Options& options, const Scratch& scratch,
                    const std::vector<Tracing>& ways) {
  const uint64_t lines = options.quick ? 20'000 : 20'000'000;  // 100 bytes each
  const std::string input = scratch.file("lines"), output = scratch.file("sorted");
  {
    std::ofstream file(input);
    uint64_t state = 1;
    std::string line(99, 'x');
    for (uint64_t i = 0; i < lines; ++i) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      for (size_t k = 0; k < 10; ++k) line[k] = static_cast<char>('A' + (state >> (6 * k)) % 26);
      file << line << '\n';
    }
    if (!file.flush()) return failure(ErrorCode::out_of_space, "write the input", input);
  }
  std::vector<std::vector<double>> seconds(ways.size()), us(ways.size());
  for (size_t i = 0; i < ways.size(); ++i) {
    Result<uint64_t> events = 0;
    seconds[i].push_back(seconds_of([&] {
      events = run_under(ways[i],
                         {"env", "LC_ALL=C", "sort", "-S", options.quick ? "1M" : "512M",
                          "--parallel=2", "-T", scratch.folder(), "-o", output, input},
                         scratch);
    }));
    if (!events) return std::unexpected(events.error());
    if (*events > 0) {
      us[i].push_back((seconds[i].back() - seconds[0].back()) * 1e6 / static_cast<double>(*events));
    }
  }
  for (size_t i = 0; i < ways.size(); ++i) {
    report.add("GNU sort of " + std::to_string(lines / 10'000) + " MB, " + ways[i].name, "s",
               seconds[i]);
    if (!us[i].empty()) {
      report.add("GNU sort, more for each event under " + ways[i].name, "us", us[i]);
    }
  }
  return {};
}

Result<Report> run(const Options& options) {
  auto scratch = Scratch::make(options.directory);
  if (!scratch) return std::unexpected(scratch.error());
  std::ofstream(scratch->file("data")) << std::string(file_bytes, 'x');
  std::vector<Tracing> ways = {{"plain"}};
  for (const trace::Backend backend : backends(*scratch)) {
    ways.push_back({std::string(name_of(backend)), backend});
  }
  if (has_program("strace")) ways.push_back({"strace"});
  Report report;
  if (Status status = measure_calls(report, options, *scratch, ways); !status) {
    return std::unexpected(status.error());
  }
  if (Status status = measure_sort(report, options, *scratch, ways); !status) {
    return std::unexpected(status.error());
  }
  return report;
}

const Registration registration{
    "trace-overhead", "what a traced system call costs, under each backend and strace", run};

}  // namespace
}  // namespace penstock::bench
