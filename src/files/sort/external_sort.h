#pragma once

// Sorts files that may be larger than the memory allowed. README.md tells how a run goes.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "files/bowtie/device_profile.h"
#include "files/ops/merge/merge_files.h"
#include "files/run/sorted_copy.h"
#include "files/sort/occupancy.h"
#include "io/file.h"
#include "items/items.h"
#include "penstock/base.h"

namespace penstock::external {

// The options of a sort: those of its files, and its own.
struct SortOptions : files::FilesOptions, SortFilesOptions {
  bool keeps_first_row = false;  // of CSV, for SortedCopy::first_row
};

using Method = SortMethod;

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
// It is open for reading. Not with `merge_only` or `resume`.
Result<files::SortedCopy> sort_to_temporary(const SortOptions& options);

// Where a sort with `resume` keeps its state: it is there while there is something to go on with.
std::string resume_folder(const SortOptions& options);

}  // namespace penstock::external
