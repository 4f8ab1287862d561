#pragma once

// Sorts files that may be larger than the memory allowed. README.md tells how a run goes.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bowtie/device_profile.h"
#include "external/occupancy.h"
#include "file/file.h"
#include "files/merge_files.h"
#include "penstock/error.h"
#include "penstock/units.h"
#include "record/items.h"

namespace penstock::external {

using namespace files;  // a sort of files is one of the runs over files

// Of the temporaries of records and lines, block by block, with LZ4.
enum class Compression {
  automatic,  // where the disk is so slow, and a sample shrinks so much, that it pays
  never,
  always,  // what shrinks by an eighth
};

struct SortOptions : MergeFilesOptions {
  unsigned threads = 2;
  bool stable = false;      // items with equal keys keep their order
  bool merge_only = false;  // inputs are sorted already
  // What is finished is kept on the disk until all is, so that a run with the same options goes on
  // from there if this one ends early, in whichever way. Inputs and output must be files.
  bool resume = false;
  Compression compression = Compression::automatic;  // with `resume` there is none
};

enum class Method {
  empty,       // nothing to do
  in_memory,   // one pass: it fits
  distribute,  // split by key ranges into temporaries, then sort these one by one
  merge,       // merge inputs, or sorted stretches of them, directly
  top,         // one read, of which only the first items in order are kept
};
const char* name_of(Method method);

// One phase of a run, planned or done.
struct SortPhase {
  std::string name;
  double seconds = 0;  // planned: of the disk alone; 0: not predicted
  uint64_t bytes_read = 0;
  uint64_t bytes_written = 0;
  // How often the disk went on to another place: requests, on whatever file, that did not begin
  // where the one before them ended. (Of several disks: as if they were one.)
  uint64_t seeks = 0;

  uint64_t bytes() const { return bytes_read + bytes_written; }
  // Between two seeks, in the mean.
  double run_bytes() const {
    return seeks > 0 ? static_cast<double>(bytes()) / static_cast<double>(seeks) : 0;
  }
};

// What a run will do, asked for before anything is written.
struct SortPlan {
  Method method = Method::empty;
  uint64_t input_bytes = 0;  // 0 with pipes: not known
  uint32_t buckets = 0;      // of the first split, or fan-in of the first merge
  uint32_t passes = 0;       // times that the data are read
  uint64_t bytes_read = 0;
  uint64_t bytes_written = 0;
  uint64_t temp_bytes =
      0;  // disk space that temporaries take at the peak, all directories together
  uint64_t temp_memory_bytes = 0;  // of these, what lies in memory beside the budget (tmpfs)
  uint64_t spilled_bytes = 0;      // what goes to them, before it is compressed
  bool compresses = false;         // temporaries
  uint64_t seeks = 0;              // of all phases
  uint64_t memory_bytes = 0;       // expected peak
  // The least budget, to a few per cent, that would save a pass; 0: none that this machine has.
  uint64_t fewer_passes_memory_bytes = 0;
  double seconds = 0;  // of all phases, by equation 1 of `device`; 0: not predicted
  std::string why;     // one sentence
  // In the order in which they come. None with pipes, whose length is not known.
  std::vector<SortPhase> phases = {};
  // The distribution goes by the executor's schedule (long_runs.h), because the disk seeks slowly.
  bool long_runs = false;
  // What it was planned for, where that is known. Of a disk that was only looked at the delay is 0.
  std::optional<bowtie::DeviceProfile> device = {};
  // Nobody looked at the disk, because to look takes longer than such a sort: `device` is a usual
  // one, by which nothing was decided.
  bool device_is_assumed = false;
};

struct SortStats {
  SortPlan predicted;
  Method method = Method::empty;
  uint64_t items = 0;  // of the output
  uint64_t bytes = 0;  // of the output
  double seconds = 0;
  uint64_t peak_rss_bytes = 0;
  uint64_t budget_bytes = 0;
  uint32_t passes = 0;
  uint64_t seeks = 0;
  uint64_t bytes_read = 0;
  uint64_t bytes_written = 0;
  uint64_t temp_bytes = 0;
  uint64_t temp_memory_bytes = 0;  // of these, what lay in memory beside the budget (tmpfs)
  uint64_t spilled_bytes = 0;      // what went to temporaries, before it was compressed
  uint64_t kept_bytes = 0;  // of the input, that did not go to temporaries between the phases
  // What each phase really asked of the disk, in the order in which they came.
  std::vector<SortPhase> phases;
  // The phases' seconds, and those of threads within them (which may be more than the clock's).
  std::vector<std::pair<std::string, double>> phase_seconds;
  Occupancy occupancy;  // what held the memory
  std::string pool;     // the mechanism used
  std::string engine;
  std::string emulated;  // the emulated device on which this happened; empty: none

  double run_bytes() const {
    return seeks > 0 ? static_cast<double>(bytes_read + bytes_written) / static_cast<double>(seeks)
                     : 0;
  }
};

// The least memory_bytes that sort_files accepts for these options (program included).
uint64_t minimum_memory_bytes(const SortOptions& options);

// Opens and samples the inputs, and probes the disk with a temporary file when it predicts seconds
// without a device.
// Errors: as sort_files, before it begins.
Result<SortPlan> plan_sort(const SortOptions& options);

// On any error the output's final name is untouched, the inputs are whole and the temporaries are
// gone; but with `resume`, what a later run goes on with stays in resume_folder(). Thread safety:
// runs of different threads share nothing but the memory of the process.
Result<SortStats> sort_files(const SortOptions& options);

// The same to a temporary, in the first of the temporary directories; the output of the options counts for nothing.
// It is open for reading, and gone when it is closed. Not with `merge_only` or `resume`.
Result<file::File> sort_to_temporary(const SortOptions& options);

// Where a sort with `resume` keeps its state: it is there while there is something to go on with.
std::string resume_folder(const SortOptions& options);

}  // namespace penstock::external
