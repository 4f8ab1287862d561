#pragma once

// Rows: a key and a payload, each of any length and of any bytes, with their lengths in front. Rows are
// ordered by their keys, byte by byte (as unsigned numbers, a key before the longer ones that begin with
// it); whoever writes them makes keys whose bytes have the order that is wanted. A payload is never
// looked at.
//
//   bytes              what
//   0 .. 4             row_bytes: of all of the row, these eight included; little-endian, as the next
//   4 .. 8             key_bytes
//   8 .. 8 + key_bytes the key
//   .. row_bytes       the payload
//
// A file of rows is one row behind the other, and nothing else: no header, no version, no sum. It is
// what programs hand to a sort and take from it, by a pipe or a Source, and no format for archives.
//
// Lengths cannot be found from the middle of a file. first_row() looks for a place from which on they
// make sense, which is good enough for a sample: a wrong one costs a worse plan, never a wrong order.

#include <cstddef>
#include <optional>
#include <string_view>

#include "items/rows.h"
#include "penstock/files.h"

namespace penstock::items {

inline bool makes_sense(const RowHead& head) {
  return head.row_bytes >= RowHead::bytes && head.key_bytes <= head.row_bytes - RowHead::bytes;
}

// The bytes of the row that begins at `at`; 0 if it does not end before `end`. Of a row whose lengths
// make no sense at least its head, for fault_of_keyed_row() to find.
inline size_t keyed_row_bytes_at(const std::byte* at, const std::byte* end) {
  const auto bytes = static_cast<size_t>(end - at);
  if (bytes < RowHead::bytes) return 0;
  const RowHead head = RowHead::at(at);
  const size_t wanted = head.row_bytes < RowHead::bytes ? RowHead::bytes : head.row_bytes;
  return wanted <= bytes ? wanted : 0;
}

// Lengths that make no sense, or more than there is: the file is none of rows, or was cut off.
inline std::optional<RowFault> fault_of_keyed_row(std::string_view row) {
  if (row.size() < RowHead::bytes)
    return RowFault{0, "the end of the file, in the lengths of a row"};
  const RowHead head = RowHead::at(row.data());
  if (!makes_sense(head)) return RowFault{0, "a row whose lengths make no sense"};
  if (head.row_bytes != row.size()) return RowFault{row.size(), "the end of the file"};
  return {};
}

// Of a row with a fault any part of it.
inline std::string_view key_of_row(std::string_view row) {
  if (row.size() < RowHead::bytes) return {};
  return row.substr(RowHead::bytes, RowHead::at(row.data()).key_bytes);
}

// A place in [at, end) from which on all rows up to `end` make sense, of which the last one may be cut off: the first with
// eight whole rows, or else the one with the most of them; `end` where there is none.
inline const std::byte* first_row(const std::byte* at, const std::byte* end) {
  constexpr size_t enough_rows = 8;
  auto rows_from = [end](const std::byte* row) {
    for (size_t rows = 0;; ++rows) {
      if (static_cast<size_t>(end - row) < RowHead::bytes) return rows;
      if (!makes_sense(RowHead::at(row))) return size_t{0};
      const size_t bytes = keyed_row_bytes_at(row, end);
      if (bytes == 0) return rows;
      row += bytes;
    }
  };
  const std::byte* best = end;
  for (size_t most = 0; at < end && most < enough_rows; ++at) {
    const size_t rows = rows_from(at);
    if (rows <= most) continue;
    most = rows;
    best = at;
  }
  return best;
}

}  // namespace penstock::items
