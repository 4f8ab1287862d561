#pragma once

// Items taken from inputs in their order: the first ones, or a random sample.

#include <cstdint>

#include "files/run/options.h"

namespace penstock::files {

// Writes the header and the first `count` items, and reads little more.
Result<DrawFilesStats> first_items(const FilesOptions& options, uint64_t count);

// Writes the header and `count` items in the order of the inputs, or all of them if there are fewer.
// Every set of so many items is equally likely. The seed alone chooses among the inputs' items.
// Errors: out_of_memory if the memory does not hold the sample.
Result<DrawFilesStats> sample_items(const FilesOptions& options, uint64_t count, uint64_t seed);

}  // namespace penstock::files
