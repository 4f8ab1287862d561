#pragma once

// The options and statistics that all runs over files share, the sort included: penstock/files.h,
// with the words parsed to a format.

#include <cstddef>
#include <memory>
#include <string>

#include "files/bowtie/device_profile.h"
#include "io/file.h"
#include "items/items.h"
#include "memory/pool/pool.h"
#include "penstock/files.h"

namespace penstock::files {

class OddItems;
using Progress = FilesProgress;
using penstock::RunStats;
using penstock::Staircase;

// The options of a run. If there is a sink, `output` is "-".
struct FilesOptions : penstock::FilesOptions {
  items::Format format;
  bool descending = false;                   // the items' order is the reverse of the format's
  std::shared_ptr<OddItems> odd_items = {};  // nullptr: not counted
  items::ItemOrder order() const { return items::ItemOrder(format, descending); }
};

// Inputs have numbers: first the paths, then the sources.
size_t input_count(const penstock::FilesOptions& options);
std::string input_name(const penstock::FilesOptions& options, size_t number);
// Returns whether the run leaves out rows (FilesOptions::bad_rows).
bool leaves_rows_out(const penstock::FilesOptions& options);
// True if the input can be read again by its name.
bool is_named_file(const penstock::FilesOptions& options, size_t number);
Result<io::File> open_input(const penstock::FilesOptions& options, size_t number);
// The options with only that input.
FilesOptions with_input(FilesOptions options, size_t number);
// Opens the sink if there is one, otherwise the output.
Result<io::File> open_output(const penstock::FilesOptions& options, const io::OutputOptions& how);
// Returns the sink if there is one, otherwise the output, which it opens, as one.
Result<std::shared_ptr<Sink>> sink_of(const penstock::FilesOptions& options);

}  // namespace penstock::files
