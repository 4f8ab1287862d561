#pragma once

// What every run over files is told, the sort included, and what it tells: penstock/files.h, with the
// words made a format.

#include <cstddef>
#include <string>

#include "files/bowtie/device_profile.h"
#include "io/file.h"
#include "items/items.h"
#include "memory/pool/pool.h"
#include "penstock/files.h"

namespace penstock::files {

using Progress = FilesProgress;
using penstock::RunStats;
using penstock::Staircase;

// With a sink, `output` is "-".
struct FilesOptions : penstock::FilesOptions {
  items::Format format;
  bool descending = false;  // the items' order is the reverse of the format's
  items::ItemOrder order() const { return items::ItemOrder(format, descending); }
};

// The inputs by their numbers: those that are paths, and behind them the sources.
size_t input_count(const penstock::FilesOptions& options);
std::string input_name(const penstock::FilesOptions& options, size_t number);
// It can be read again by its name.
bool is_named_file(const penstock::FilesOptions& options, size_t number);
Result<io::File> open_input(const penstock::FilesOptions& options, size_t number);
// The options with that input alone.
FilesOptions with_input(FilesOptions options, size_t number);
// The sink, or the output.
Result<io::File> open_output(const penstock::FilesOptions& options, const io::OutputOptions& how);

}  // namespace penstock::files
