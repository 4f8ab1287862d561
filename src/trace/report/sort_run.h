#pragma once

// The figures of a run of `penstock sort` that a page and a terminal show.

#include <optional>
#include <string>
#include <vector>

#include "files/sort/occupancy.h"

namespace penstock::report {

struct SortRun {
  enum class Unit { seconds, bytes, count };
  struct Row {
    std::string what;
    Unit unit = Unit::count;
    std::optional<double> predicted, measured;
    bool of_seeks = false;  // worth a row only if seeks_cost()
  };
  struct PhaseFigures {
    std::optional<double> seconds, read_bytes, written_bytes, seeks, run_bytes;
    std::optional<double> processor_seconds;  // sum over all threads
    std::optional<double> disk_seconds;       // predicted time of the disk alone
  };
  struct Phase {
    std::string name;
    PhaseFigures predicted, measured;
  };

  std::string name;
  std::string command;  // command line; empty if not known
  int64_t end_s = 0;    // end of the run, in seconds since 1970; 0: not known
  std::string machine;  // processor, memory and kernel; empty if not known
  std::string method;
  std::string why;
  std::string emulated;  // the emulated device; empty for a real one
  // Measured figures; nullopt if the statistics lack one.
  std::optional<double> items, bytes, seconds, peak_bytes, budget_bytes, passes, seeks, run_bytes;
  std::optional<double> temp_bytes;
  std::optional<double> sorters_s, wait_read_s;  // time of all sorters at work, waiting for reads
  std::optional<double> predicted_s;
  std::optional<double> seek_s;              // predicted time of a seek
  std::string device_source;                 // source of the disk profile; empty if not known
  std::optional<double> fewer_passes_bytes;  // memory that would save a pass; 0 if none would
  std::vector<Row> rows;
  std::vector<Phase> phases;
  external::Occupancy occupancy;
  std::vector<external::Staircase> staircases;

  // Returns whether the seeks took a share of the time that is worth a figure. On flash they do not.
  bool seeks_cost() const;
};

// Returns the value as text: "12.3 s", "1.50 GiB", "1,234"; "-" for nullopt.
std::string value_text(SortRun::Unit unit, std::optional<double> value);

// Names of the stages of external::BucketStage, for people.
inline constexpr const char* bucket_stage_names[external::bucket_stages] = {
    "being read", "waiting for a sorter", "being sorted", "being written"};

// Returns at most `points_max` buckets and bins of time: every k-th bucket, and means of k
// neighbouring bins. Returns an empty picture for 0.
external::Occupancy thinned(const external::Occupancy& occupancy, size_t points_max);
// Returns staircases of at most `points_max` points, which are means of neighbours; none for 0.
std::vector<external::Staircase> thinned(const std::vector<external::Staircase>& staircases,
                                         size_t points_max);

// Returns each stage's share of the memory in use; all 0 if nothing was recorded.
std::array<double, external::bucket_stages> stage_shares(const external::Occupancy& occupancy);

// The time that pictures show: from the first bucket's memory to the end of the last bucket's
// write.
struct TimeSpan {
  double begin_s = 0, end_s = 0;
};
TimeSpan time_span(const external::Occupancy& occupancy);
// Returns the end of the output's part that the listed buckets cover.
uint64_t output_end_bytes(const external::Occupancy& occupancy);

}  // namespace penstock::report
