#pragma once

// A run of `penstock sort`, from its statistics: what a page and a terminal show of it.

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
  };
  struct PhaseFigures {
    std::optional<double> seconds, read_bytes, written_bytes, seeks, run_bytes;
    std::optional<double> processor_seconds;  // of all threads
    std::optional<double> disk_seconds;       // predicted: what it would take alone
  };
  struct Phase {
    std::string name;
    PhaseFigures predicted, measured;
  };

  std::string name;
  std::string method;
  std::string why;
  std::string emulated;  // the device; empty: a real one
  // What it did; nothing where the statistics do not tell.
  std::optional<double> items, bytes, seconds, peak_bytes, budget_bytes, passes, seeks, run_bytes;
  std::optional<double> temp_bytes;
  std::optional<double> sorters_s, wait_read_s;  // of all sorters: at work, waiting for reads
  std::optional<double> predicted_s;
  std::string device_source;                 // what the prediction was made from; empty: not known
  std::optional<double> fewer_passes_bytes;  // memory that would save a pass; 0: none would
  std::vector<Row> rows;
  std::vector<Phase> phases;
  external::Occupancy occupancy;
  std::vector<external::Staircase> staircases;
};

// "12.3 s", "1.50 GiB", "1,234"; "-" of nothing.
std::string value_text(SortRun::Unit unit, std::optional<double> value);

// The stages of external::BucketStage as people read them.
inline constexpr const char* bucket_stage_names[external::bucket_stages] = {
    "being read", "waiting for a sorter", "being sorted", "being written"};

// A picture of at most `points_max` buckets and bins of time: every second bucket, or third, ..., and means of as many
// neighbouring bins. 0: no picture.
external::Occupancy thinned(const external::Occupancy& occupancy, size_t points_max);
// Staircases of at most `points_max` points, which are means of neighbours. 0: none.
std::vector<external::Staircase> thinned(const std::vector<external::Staircase>& staircases,
                                         size_t points_max);

// What share of the memory's use each stage had; all 0 where nothing was recorded.
std::array<double, external::bucket_stages> stage_shares(const external::Occupancy& occupancy);

// When the last bucket was written, and the first one had room: the time that pictures show.
struct TimeSpan {
  double begin_s = 0, end_s = 0;
};
TimeSpan time_span(const external::Occupancy& occupancy);
// Behind the last byte of the output that a bucket shows.
uint64_t output_end_bytes(const external::Occupancy& occupancy);

}  // namespace penstock::report
