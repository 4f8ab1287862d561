#include "bench/harness/bench.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/check.h"
#include "base/random.h"
#include "bench/harness/registry.h"

namespace penstock::bench {
namespace {

std::function<void(const Row&)>& row_listener() {
  static std::function<void(const Row&)> listener;
  return listener;
}

}  // namespace

void listen_to_rows(std::function<void(const Row&)> listener) {
  row_listener() = std::move(listener);
}

double Report::add(std::string what, std::string unit, std::vector<double> samples) {
  double value = median(samples);
  rows_.push_back({std::move(what), value, std::move(unit), std::move(samples)});
  if (row_listener()) row_listener()(rows_.back());
  return value;
}

void Report::hash(uint64_t result) {
  hash_ = mix64(hash_ ^ result);
}

void Report::hash(std::span<const std::byte> bytes) {
  uint64_t sum = bytes.size();
  for (std::byte byte : bytes) sum = sum * 0x100000001b3u ^ static_cast<uint64_t>(byte);
  hash(sum);
}

std::map<std::string, Bench>& registry() {
  static std::map<std::string, Bench> benches;
  return benches;
}

Registration::Registration(std::string name, std::string question, Run run) {
  bool added = registry().try_emplace(name, Bench{std::move(question), std::move(run)}).second;
  PENSTOCK_CHECK(added, "two benches bear one name");
}

double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double median(std::vector<double> samples) {
  PENSTOCK_CHECK(!samples.empty(), "a median of nothing");
  std::sort(samples.begin(), samples.end());
  size_t middle = samples.size() / 2;
  return samples.size() % 2 == 1 ? samples[middle] : (samples[middle - 1] + samples[middle]) / 2;
}

std::vector<unsigned> thread_counts(const Options& options) {
  std::vector<unsigned> counts = {1, 2};
  while (!options.quick && 2 * counts.back() <= std::thread::hardware_concurrency())
    counts.push_back(2 * counts.back());
  return counts;
}

}  // namespace penstock::bench
