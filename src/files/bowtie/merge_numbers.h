#pragma once

// The merge of numbers, and of pairs of them, batch by batch instead of item by item.

#include "files/bowtie/computations.h"

namespace penstock::bowtie {

// Whether it is faster than a tree: not of other items, nor of very many inputs with small windows.
bool merges_batches(const Streams& streams, const items::Format& format);

// As merge() says. REQUIRES: merges_batches(); one output.
Status merge_numbers(Streams& streams, const items::Format& format, const MergeOptions& options);

}  // namespace penstock::bowtie
