#pragma once

// Sorts files that may be larger than the memory allowed. README.md describes how a run goes.

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
  bool keeps_first_row = false;  // for SortedCopy::first_row of CSV
};

using Method = SortMethod;

// The least memory_bytes that sort_files accepts for these options (program included).
uint64_t minimum_memory_bytes(const SortOptions& options);

// Opens and samples the inputs. Probes the disk with a temporary file if no device is given and a
// prediction in seconds needs one.
//
// Errors: as sort_files, before it begins.
Result<SortPlan> plan_sort(const SortOptions& options);

// On an error the output's final name is untouched, the inputs are whole and the temporaries are
// deleted; with `resume`, the state that a later run continues from stays in resume_folder().
// Thread safety: runs in different threads share nothing but the memory of the process.
Result<SortStats> sort_files(const SortOptions& options);

// Sorts into an unnamed temporary file in the first of the temporary directories and returns it
// open for reading. Ignores `options.output`. Does not support `merge_only` and `resume`.
Result<files::SortedCopy> sort_to_temporary(const SortOptions& options);

// Folder in which a sort with `resume` keeps its state. It exists while there is a run to continue.
std::string resume_folder(const SortOptions& options);

}  // namespace penstock::external
