#pragma once

// Joins two sorted files by key.

#include "files/bowtie/computations.h"
#include "files/run/options.h"

namespace penstock::files {

using penstock::JoinFilesStats;

// Each side's key is that of its format; the keys have the same type (numbers), the same length
// (records), or are both whole lines. Each pair of items with equal keys, one from each side,
// becomes one item of the output: the left one, followed by the right one without its key. (So
// pairs of kv64 become 24 bytes: key, left value, right value; numbers and lines stay as the left
// one is.)
struct JoinFilesOptions {
  FilesOptions files;       // exactly two inputs; its format is the left side's
  items::Format right;      // the right side's format
  bool descending = false;  // both sides are in descending order
};

// The format of the output.
Result<items::Format> joined_format(const items::Format& left, const items::Format& right);

// The inner join. If a key occurs several times on both sides, the output has the product: for each
// left item all right ones, in order, as long as the right side's items with this key fit in a
// quarter of the memory. If only the left side's fit, these are held, and the order within this key
// is: for each further right item all left ones.
//
// Both sides are read to their ends even if nothing more can be joined, because an unsorted side
// may have missed pairs. Errors: unsorted, with the file and the item; out_of_memory with the key,
// if neither side's items with it fit; otherwise as sort_files().
Result<JoinFilesStats> join_files(const JoinFilesOptions& options);

// The join as a computation of two inputs and one output. `group_bytes_max`: the most bytes of one
// key that each side may hold.
bowtie::Computation merge_join(const items::Format& left, const items::Format& right,
                               bool descending, uint64_t group_bytes_max, uint64_t* items);

}  // namespace penstock::files
