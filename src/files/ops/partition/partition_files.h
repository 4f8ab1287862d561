#pragma once

// Distributes the items of files to many files, in writes as long as the memory allows (Tuxedo's
// D1).
//
// Each part keeps the order of the files, and of the items within each file.
//
// No part has its name before all parts are complete and on the disk; then they are renamed in
// order. A crash between two renames leaves the first parts, each complete, and nothing of the
// others; the same command repeats the whole partition.

#include "files/bowtie/computations.h"
#include "files/run/file_run.h"

namespace penstock::files {

using PartitionBy = PartitionFilesBy;
using penstock::PartitionFilesResult;

struct PartitionFilesOptions {
  FilesOptions
      files;  // its output is a pattern, "out-{}.bin"; {} stands for the number of the part
  PartitionBy by = PartitionBy::hash;
  uint32_t parts = 0;  // by range with bounds: 0, or one more than there are bounds
  std::string
      bounds_path;  // by range: a file with the bounds, items in order; empty: bounds from a sample
  bool checksums = false;  // computes each part's checksum, as `penstock check` prints it
};

inline constexpr uint32_t parts_max = 1 << 16;

// Errors: unsupported if bounds would need a sample of a pipe; otherwise as sort_files().
Result<PartitionFilesResult> partition_files(const PartitionFilesOptions& options);

// The part of a key by its hash, which never changes (docs/files.md).
uint32_t part_of_hash(std::string_view key, uint32_t parts);
bowtie::ToOutput by_hash(const items::Format& format, uint32_t parts);

// The path of a part: "out-07.bin" for "out-{}.bin" and 100 parts.
Result<std::string> part_path(const std::string& pattern, uint32_t part, uint32_t parts);

// Gives a notice about files that have names of parts, with any number of digits, and are none of the
// `written` ones: an earlier run has left them. `parts`: as for part_path().
void notice_older_parts(const penstock::FilesOptions& options, uint32_t written, uint32_t parts);

}  // namespace penstock::files
