#pragma once

// Arrow's batches as rows (penstock::RowHead): keys whose bytes have the order that is asked for, and all columns as the
// payload. row_decoder.h reads them again; both are of one call, so that nothing of this needs a version.
//
// Key: of each key column one byte, 1 for a value, and for a null 0 (nulls first) or 2 (last); behind it the value:
//   numbers    the key of an item of a file (items/codec.h), big-endian, all NaNs being one and -0.0 being 0.0, as
//              docs/stability.md tells of columns
//   texts      byte by byte, 0 as 1 1 and 1 as 1 2, and 0 behind the last one, so that a text comes before the
//              longer ones that begin with it, whatever follows. The last key of a row needs none of this if it is ascending.
//   descending all bytes of the value complemented.
//
// Payload: a group of the values of those columns that the key does not tell: it tells all it has but floats. A group is a bit for each value, the lowest bit of the first byte first, 1 where
// it is not null; and then the values that are not null:
//   boolean    a byte                      fixed       as it is
//   text       its length, its bytes       list        its length, a group of its items
//   fixed list a group of its items        structure   a group of its fields
// Lengths are of 7 bits a byte, the lowest first, with the highest bit where another one follows.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "arrow.h"

namespace penstock::python {

struct SortKey {
  size_t column = 0;
  bool descending = false;
  bool nulls_first = false;
};

// Whether the value can be made of the key again.
bool key_tells(const Column& column);
// The columns whose values are in the payload.
std::vector<size_t> payload_columns(const Column& table, const std::vector<SortKey>& keys);

// Thread safety: one thread.
class RowEncoder {
 public:
  // `table`: a structure. Errors: unsupported: a key's values have no order. REQUIRES: each column has one key at most.
  static Result<RowEncoder> make(Column table, std::vector<SortKey> keys);

  // Rows that were written; without any, the bytes of the first one.
  struct Encoded {
    size_t rows = 0;
    size_t bytes = 0;
  };
  // Writes rows of the batch from row `first` on, as many as `into` has room for and are encoded at a time.
  // Errors: unsupported: a row of more than 4 GiB. REQUIRES: there is such a row, and `first` grows within a batch.
  Result<Encoded> encode(const ArrowArray& batch, size_t first, std::span<std::byte> into);

 private:
  RowEncoder(Column table, std::vector<SortKey> keys)
      : table_(std::move(table)),
        keys_(std::move(keys)),
        payload_(payload_columns(table_, keys_)) {}

  Column table_;
  std::vector<SortKey> keys_;
  std::vector<size_t> payload_;      // numbers of columns
  size_t measured_ = 0;              // the first row of those whose bytes are known
  std::vector<uint64_t> key_bytes_;  // of each of them
  std::vector<uint64_t> row_bytes_;
  std::vector<uint8_t*> ends_;
};

}  // namespace penstock::python
