#pragma once

// The harness of penstock-bench: whole experiments, several runs of each contender side by side,
// medians, one report.
//
// A bench is a function that fills a Report, and a static object that registers it:
//
//   Result<Report> run(const Options& options) { ... }
//   const Registration registration{"remap-stream", "two threads, one pointer, many terabytes",
//   run};
//
// Rules for benches: ratios compare with the best rival or a physical limit measured in the same
// run (1.0 is equal, more means that we are faster); the hash depends only on the results of the
// work, so that two runs with the same options agree; with --quick a bench ends in seconds and uses
// little memory and disk, and runs as a test.

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "penstock/base.h"

namespace penstock::bench {

struct Options {
  bool quick = false;
  unsigned runs = 0;      // 0: the bench's own number
  std::string directory;  // folder for files
  std::string program;    // the program penstock, for benches that run it

  unsigned runs_or(unsigned usual) const { return runs != 0 ? runs : (quick ? 1 : usual); }
};

// One measured quantity: the samples of all runs, and their median.
struct Row {
  std::string what;
  double value = 0;
  std::string unit;
  std::vector<double> samples;
};

class Report {
 public:
  // Adds a row with the median of the samples, reports it to the listener, and returns the median.
  // REQUIRES: there are samples.
  double add(std::string what, std::string unit, std::vector<double> samples);
  void ratio(const std::string& name, double value) { ratios_[name] = value; }
  // Mixes a result into the hash. Timings do not belong here.
  void hash(uint64_t result);
  void hash(std::span<const std::byte> bytes);

  const std::vector<Row>& rows() const { return rows_; }
  const std::map<std::string, double>& ratios() const { return ratios_; }
  uint64_t hash() const { return hash_; }

 private:
  std::vector<Row> rows_;
  std::map<std::string, double> ratios_;
  uint64_t hash_ = 0;
};

using Run = std::function<Result<Report>(const Options&)>;

// Sets a function that is called with every row of any report at once, so that a bench of an hour
// that is cut off has shown its rows. Call it before the benches run.
void listen_to_rows(std::function<void(const Row&)> listener);

// Registers a bench under a name, for as long as the program runs.
struct Registration {
  Registration(std::string name, std::string question, Run run);
};

// Seconds on the monotonic clock, and the duration of a call.
double now_seconds();
template <class Work>
double seconds_of(Work&& work) {
  double start = now_seconds();
  work();
  return now_seconds() - start;
}

// The median; for an even number of samples, the mean of the two middle ones. REQUIRES: not empty.
double median(std::vector<double> samples);

// Numbers of threads: 1, 2, 4, ... up to this machine's processors; in a quick run, at most two.
std::vector<unsigned> thread_counts(const Options& options);

// Keeps an unused value from being optimized away.
template <class T>
void keep(const T& value) {
  asm volatile("" : : "g"(&value) : "memory");
}

}  // namespace penstock::bench
