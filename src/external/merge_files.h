#pragma once

// Merges sorted files, any number of them, into one: by the executor, in as few or as many passes
// as the planner finds best for the memory and the device. And sorted stretches of files, for the
// sort that found some.

#include <optional>

#include "external/bucket.h"
#include "external/context.h"
#include "external/file_run.h"
#include "external/input.h"

namespace penstock::external {

struct MergeFilesOptions {
  FilesOptions files;
  std::string output = "-";  // "-" is stdout; may name an input
  bool descending = false;
  bool unique = false;               // of items with equal keys only the first
  std::optional<uint64_t> top = {};  // the first so many items of the output alone
};

// What a merge will do.
struct MergeFilesPlan {
  uint32_t files = 0;  // that hold anything
  uint32_t passes = 0;
  uint64_t input_bytes = 0;  // 0 with pipes: not known
  std::string factors;       // of the passes: "90 x 89"
  uint64_t temp_bytes = 0;   // on disk at once, beside the output, at most
  uint64_t bytes_read = 0;   // in all passes; 0: not known, or only the first items are wanted
  uint64_t bytes_written = 0;
  uint64_t switches = 0;
  double seconds = 0;  // by equation 1 of FilesOptions::device; 0: not predicted
};

struct MergeFilesStats : FilesStats {
  MergeFilesPlan planned;
  uint64_t items = 0;  // of the output
  uint64_t bytes = 0;  // of the output
};

// Errors: as merge_files(), before it begins.
Result<MergeFilesPlan> plan_merge(const MergeFilesOptions& options);

// Stable: items with equal keys come in the order of the files. Of lines the last one of a file may
// lack its newline; it gets one.
//
// Errors: unsorted, with the file and the item; otherwise as sort_files(). After any error the
// output's name is untouched and nothing else is left.
Result<MergeFilesStats> merge_files(const MergeFilesOptions& options);

// How many sorted stretches merge_stretches() takes at once; and how long their items may be, where
// they are so many.
uint32_t stretches_max(const record::Format& format, uint64_t memory_bytes);
uint64_t stretch_item_bytes_max(const record::Format& format, size_t stretches,
                                uint64_t memory_bytes);
// Sorted stretches of files, no more than stretches_max(), in one pass. Stable. REQUIRES: no item
// is longer than stretch_item_bytes_max().
Result<Stored> merge_stretches(Context& context, const std::vector<Piece>& stretches,
                               uint64_t memory_bytes, const Target& target);

// ---- For `penstock sort -m`, which is penstock merge with the words and the figures of a sort.
Result<SortPlan> plan_merge_only(const SortOptions& options);
Result<SortStats> sort_merge_only(const SortOptions& options);

}  // namespace penstock::external
