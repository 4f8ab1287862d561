#include "bench/harness/text_race.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>

#include "bench/harness/child.h"

namespace penstock::bench {
namespace {

constexpr uint64_t vocabulary = 3000;

std::string word(uint64_t n) {
  Random random(n);
  std::string text;
  for (uint64_t letters = 3 + random.below(7); letters > 0; --letters)
    text += static_cast<char>('a' + random.below(26));
  return text;
}

// The last line that a failed program wrote.
std::string last_line(std::string text) {
  while (text.ends_with('\n')) text.pop_back();
  return text.substr(text.rfind('\n') + 1).substr(0, 100);
}

}  // namespace

const std::vector<std::string>& words() {
  static const std::vector<std::string> all = [] {
    std::vector<std::string> made;
    for (uint64_t n = 0; n < vocabulary; ++n) made.push_back(word(n));
    return made;
  }();
  return all;
}

const std::string& any_word(Random& random) {
  return words()[random.below(vocabulary)];
}

Result<uint64_t> write_items(const std::string& path, uint64_t bytes, const std::string& header,
                             const AppendItem& append) {
  std::ofstream file(path, std::ios::binary);
  Random random(1);
  uint64_t items = 0;
  std::string text = header;
  for (uint64_t written = 0; written < bytes && file; written += text.size(), text.clear()) {
    const uint64_t piece = std::min(bytes - written, 1 * MiB);
    while (text.size() < piece) append(random, items++, text);
    file.write(text.data(), static_cast<std::streamsize>(text.size()));
  }
  file.close();
  if (!file) return failure(ErrorCode::io, "write the bench's input", path);
  return items;
}

Result<std::optional<Finish>> race(const std::string& kind, const Contender& contender,
                                   const RaceRules& rules, Report& report) {
  std::string problem = contender.problem;
  std::vector<double> seconds, processor;
  Finish finish;
  for (unsigned turn = 0; problem.empty() && turn < rules.runs; ++turn) {
    if (Status ready = rules.prepare(); !ready) return std::unexpected(ready.error());
    // `timeout` waits for the program, and the system then counts its time and memory as ours.
    std::vector<std::string> line = {"timeout", std::to_string(rules.seconds_max)};
    line.insert(line.end(), contender.words.begin(), contender.words.end());
    const auto done = run_child(line, contender.environment);
    if (!done || done->exit_code != 0) {
      problem = done ? "failed: " + last_line(done->output) : done.error().attempted;
      if (problem.ends_with("exit code 124"))
        problem = fmt::format("took more than {} s", rules.seconds_max);
      break;
    }
    seconds.push_back(done->seconds);
    processor.push_back(done->processor_s);
    finish.resident_bytes = std::max(finish.resident_bytes, done->resident_peak_bytes);
    auto wrong = rules.problem_of_output();
    if (!wrong) return std::unexpected(wrong.error());
    problem = std::move(*wrong);
    if (done->seconds > rules.repeated_seconds_max) break;
  }
  const std::string name = fmt::format("{}, {}", kind, contender.name);
  if (!problem.empty()) {
    report.add(fmt::format("{}: {}", name, problem), "", {0});
    return std::nullopt;
  }
  finish.seconds = report.add(name, "s", seconds);
  report.add(name + ", processor time", "s", processor);
  report.add(name + ", resident memory", "MiB",
             {static_cast<double>(finish.resident_bytes) / (1 << 20)});
  return finish;
}

}  // namespace penstock::bench
