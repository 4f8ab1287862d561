#pragma once

// Encodes Arrow's batches as rows (penstock::RowHead): keys whose bytes compare in the requested
// order, and all columns as the payload. row_decoder.h decodes them; both are used within one call,
// so the encoding needs no version.
//
// Key: for each key column one byte, 1 for a value, and for a null 0 (nulls first) or 2 (last);
// then the value:
//   numbers    the key of an item of a file (items/keys/codec.h), big-endian, with one NaN and -0.0 as
//              0.0, as in docs/stability.md for columns
//   texts      byte by byte, 0 as 1 1 and 1 as 1 2, and 0 behind the last one, so that a text comes
//              before longer ones with this beginning. A row's last ascending key is not escaped.
//   descending all bytes of the value complemented.
//
// Payload: a group of the values of the columns that the key does not contain exactly: all that are
// not keys, and floats. A group is a bit for each value, the lowest bit of the first byte first, 1
// if it is not null; and then the values that are not null:
//   boolean    a byte                      fixed       unchanged
//   text       its length, its bytes       list        its length, a group of its items
//   fixed list a group of its items        structure   a group of its fields
// Lengths have 7 bits a byte, the lowest first; the highest bit is set if another byte follows.

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

// Whether the value can be recovered from the key.
bool key_contains_value(const Column& column);
// The columns whose values are in the payload.
std::vector<size_t> payload_columns(const Column& table, const std::vector<SortKey>& keys);

// Thread safety: one thread.
class RowEncoder {
 public:
  // `table` is a structure. Errors: unsupported, if a key's values have no order. REQUIRES: each
  // column has one key at most.
  static Result<RowEncoder> make(Column table, std::vector<SortKey> keys);

  // Written rows and their bytes; without room, 0 rows and the bytes of the first one.
  struct Encoded {
    size_t rows = 0;
    size_t bytes = 0;
  };
  // Writes rows of the batch from row `first` on, until `into` is full or the encoder's limit is
  // reached. Errors: unsupported, for a row of more than 4 GiB. REQUIRES: there is such a row, and
  // `first` grows within a batch.
  Result<Encoded> encode(const ArrowArray& batch, size_t first, std::span<std::byte> into);

 private:
  RowEncoder(Column table, std::vector<SortKey> keys)
      : table_(std::move(table)),
        keys_(std::move(keys)),
        payload_(payload_columns(table_, keys_)) {}

  Column table_;
  std::vector<SortKey> keys_;
  std::vector<size_t> payload_;      // column numbers
  size_t measured_ = 0;              // first of the measured rows
  std::vector<uint64_t> key_bytes_;  // for each measured row
  std::vector<uint64_t> row_bytes_;
  std::vector<uint8_t*> ends_;
};

}  // namespace penstock::python
