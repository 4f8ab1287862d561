#pragma once

// The merge of numbers, and of pairs of them, batch by batch instead of item by item.

#include "files/bowtie/computations.h"

namespace penstock::bowtie {

// Whether batches are faster than a tree: for numbers, unless many inputs have small windows.
bool merges_batches(const Streams& streams, const items::Format& format);

// merge() in batches. REQUIRES: merges_batches(); one output.
Status merge_numbers(Streams& streams, const items::Format& format, const MergeOptions& options);

}  // namespace penstock::bowtie
