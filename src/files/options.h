#pragma once

// What every run over files is told, the sort included, and what it tells: penstock/files.h, with the
// words made a format.

#include <cstddef>
#include <string>

#include "bowtie/device_profile.h"
#include "file/file.h"
#include "penstock/files.h"
#include "pool/pool.h"
#include "record/items.h"

namespace penstock::files {

using Progress = FilesProgress;
using penstock::RunStats;
using penstock::Staircase;

// With a sink, `output` is "-".
struct FilesOptions : penstock::FilesOptions {
  record::Format format;
  bool descending = false;  // the items' order is the reverse of the format's
  record::ItemOrder order() const { return record::ItemOrder(format, descending); }
};

// The inputs by their numbers: those that are paths, and behind them the sources.
size_t input_count(const penstock::FilesOptions& options);
std::string input_name(const penstock::FilesOptions& options, size_t number);
// It can be read again by its name.
bool is_named_file(const penstock::FilesOptions& options, size_t number);
Result<file::File> open_input(const penstock::FilesOptions& options, size_t number);
// The options with that input alone.
FilesOptions with_input(FilesOptions options, size_t number);
// The sink, or the output.
Result<file::File> open_output(const penstock::FilesOptions& options,
                               const file::OutputOptions& how);

}  // namespace penstock::files
