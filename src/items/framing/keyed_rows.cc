// Rows: a key and a payload, each of any length and of any bytes, with their lengths in front. Rows
// are ordered by their keys, byte by byte (as unsigned numbers, a key before the longer ones that
// begin with it); whoever writes them makes keys whose bytes have the order that is wanted. A
// payload is never looked at.
//
//   bytes              what
//   0 .. 4             row_bytes: of all of the row, these eight included; little-endian, as the next
//   4 .. 8             key_bytes
//   8 .. 8 + key_bytes the key
//   .. row_bytes       the payload
//
// A file of rows is one row behind the other, and nothing else: no header, no version, no sum. It
// is what programs hand to a sort and take from it, by a pipe or a Source, and no format for
// archives.
//
// Lengths cannot be found from the middle of a file. first_keyed_row() looks for a place from which
// on they make sense, which is good enough for a sample: a wrong one costs a worse plan, never a
// wrong order.

#include <algorithm>
#include <cstring>

#include "items/format.h"
#include "penstock/files.h"

namespace penstock::items {
namespace {

bool makes_sense(const RowHead& head) {
  return head.row_bytes >= RowHead::bytes && head.key_bytes <= head.row_bytes - RowHead::bytes;
}

// A row whose lengths make no sense has at least its head, which fault_of_keyed_row() refuses.
size_t keyed_row_bytes(const Format&, const std::byte* at, const std::byte* end,
                       std::string_view begun, bool) {
  char lengths[RowHead::bytes];
  const size_t before = begun.copy(lengths, RowHead::bytes);
  const size_t missing = RowHead::bytes - before;
  if (static_cast<size_t>(end - at) < missing) return 0;
  if (missing > 0) std::memcpy(lengths + before, at, missing);
  return std::max<size_t>(RowHead::at(lengths).row_bytes, RowHead::bytes) - begun.size();
}

// Returns the first place from which eight whole rows make sense, or else the one with the most
// rows; `end` if there is none. The last row may be cut off. Rows that are longer than the piece
// are not found.
const std::byte* first_keyed_row(const Format&, const std::byte* at, const std::byte* end,
                                 uint64_t) {
  constexpr size_t enough_rows = 8;
  auto rows_from = [end](const std::byte* row) {
    for (size_t rows = 0;; ++rows) {
      const auto bytes = static_cast<size_t>(end - row);
      if (bytes < RowHead::bytes) return rows;
      const RowHead head = RowHead::at(row);
      if (!makes_sense(head)) return size_t{0};
      if (head.row_bytes > bytes) return rows;
      row += head.row_bytes;
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

// A row has a fault if its lengths make no sense, or exceed the file: this is no file of rows, or
// was cut off.
std::optional<ItemFault> fault_of_keyed_row(const Format&, std::string_view row, bool&) {
  if (row.size() < RowHead::bytes)
    return ItemFault{0, "the end of the file, in the lengths of a row"};
  const RowHead head = RowHead::at(row.data());
  if (!makes_sense(head)) return ItemFault{0, "a row whose lengths make no sense"};
  if (head.row_bytes != row.size()) return ItemFault{row.size(), "the end of the file"};
  return {};
}

std::string_view key_of_keyed_row(const Format&, std::string_view row) {
  if (row.size() < RowHead::bytes) return {};
  return row.substr(RowHead::bytes, RowHead::at(row.data()).key_bytes);
}

}  // namespace

constexpr Framing row_framing = {.noun = "row",
                                 .counts_positions = true,
                                 .short_item_bytes = RowHead::bytes,
                                 .item_bytes = keyed_row_bytes,
                                 .first_item = first_keyed_row,
                                 .key = key_of_keyed_row,
                                 .fault = fault_of_keyed_row};

}  // namespace penstock::items
