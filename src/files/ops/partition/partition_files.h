#pragma once

// Deals the items of files out to many files, through one plain pointer each and in runs as long as
// the memory allows (Tuxedo's D1).
//
// Each part keeps the order of the items: that of the files, and within a file that of its items.
//
// No part has its name before all of them are complete, and on the disk; then they are renamed, in
// order. A crash between two renames leaves the first parts under their names, each of them whole,
// and nothing of the others; the same command does all of it again.

#include "files/bowtie/computations.h"
#include "files/run/file_run.h"

namespace penstock::files {

using Part = FilePart;
using PartitionBy = PartitionFilesBy;
using penstock::PartitionFilesResult;

struct PartitionFilesOptions {
  FilesOptions files;  // its output: "out-{}.bin", the number of the part stands for {}
  PartitionBy by = PartitionBy::hash;
  uint32_t parts = 0;       // range with bounds: 0, or one more than there are bounds
  std::string bounds_path;  // range: the bounds, items in order; empty: from a sample
  bool checksums = false;   // as `penstock check` tells them
};

inline constexpr uint32_t parts_max = 1 << 16;

// Errors: unsupported, for a range from a sample with a pipe among the inputs; otherwise as
// sort_files().
Result<PartitionFilesResult> partition_files(const PartitionFilesOptions& options);

// Where a key goes by its hash, which stays as it is (docs/files.md).
uint32_t part_of_hash(std::string_view key, uint32_t parts);
bowtie::ToOutput by_hash(const items::Format& format, uint32_t parts);

// "out-{}.bin" of 100 parts: "out-07.bin".
Result<std::string> part_path(const std::string& pattern, uint32_t part, uint32_t parts);

}  // namespace penstock::files
