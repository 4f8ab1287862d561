#pragma once

// Joins two sorted files by key.

#include "files/bowtie/computations.h"
#include "files/run/options.h"

namespace penstock::files {

using penstock::JoinFilesStats;

// The key of both sides is that of their formats: of one type (numbers), or of as many bytes
// (records), or both whole lines. Each pair of items with equal keys, one from each side, becomes
// one item of the output: the left one, followed by the right one without its key. (So pairs of
// kv64 become 24 bytes: key, left value, right value; numbers and lines stay as the left one is.)
struct JoinFilesOptions {
  FilesOptions files;       // exactly two inputs; its format is the left one's
  items::Format right;      // of the right one
  bool descending = false;  // how both are sorted
};

// What an item of the output is.
Result<items::Format> joined_format(const items::Format& left, const items::Format& right);

// The inner join. Of a key that both sides have several times the output has the product: for each
// left item all the right ones, in order, as long as the right side's items with this key fit a
// quarter of the memory. Where they do not, but the left side's do, the left ones are held and the
// order within this key is: for each right item beyond those, all left ones.
//
// Both sides are read to their end, whether or not more can be joined: what is not in order may
// have missed pairs. Errors: unsorted, with the file and the item; out_of_memory with the key,
// where neither side's items with it fit; otherwise as sort_files().
Result<JoinFilesStats> join_files(const JoinFilesOptions& options);

// The same as a computation of two inputs and one output. `group_bytes_max`: what may be held of a
// key, for each side.
bowtie::Computation merge_join(const items::Format& left, const items::Format& right,
                               bool descending, uint64_t group_bytes_max, uint64_t* items);

}  // namespace penstock::files
