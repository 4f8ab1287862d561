#pragma once

// Rows of CSV: fields with a separator between them. A quoted field may hold separators, line ends
// and doubled quotes (RFC 4180). Dialects have another quote or none, an escape character, or text
// around quotes; they read a row as Python's csv does (RowStates).

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "items/byte_set.h"
#include "items/format.h"
#include "items/line_ends.h"

namespace penstock::items {

inline constexpr char quote = '"';

// Returns the bytes of the row at `at` with its end, or 0 if it does not end before `end`. If
// `quoted`, the rest of a row stands there, within quotes. (A line end ends the row if the number of
// quotes in front of it is even, so quotes are counted, and fields need no look.)
inline size_t row_bytes_at(char line_end, const std::byte* at, const std::byte* end,
                           bool quoted = false, char mark = quote) {
  size_t bytes = 0;
  find_line_ends(at, end, line_end, mark, &bytes, 1, quoted);
  return bytes;
}

// The states of a reader of rows, byte by byte. A quote opens a field only at its beginning; after
// the quote that closes it the field goes on without quotes.
class RowStates {
 public:
  enum class State : uint8_t { start, plain, quoted, closed };  // start: of a field

  RowStates(const Dialect& dialect, char line_end) : dialect_(dialect), line_end_(line_end) {}
  // The next byte ends the field: it is a separator or a line end, and not text.
  bool ends_field(char c) const {
    return !is_escaped_ && state_ != State::quoted && (c == dialect_.separator || c == line_end_);
  }
  // Takes a byte. Returns whether it is text of the field.
  bool take(char c);
  State state() const { return state_; }
  // The byte before was an escape character.
  bool is_escaped() const { return is_escaped_; }

 private:
  const Dialect& dialect_;
  char line_end_;
  State state_ = State::start;
  bool is_escaped_ = false;
};

// Returns the bytes of the row at `at` with its end, or 0 if it does not end before `end`. `begun`:
// the bytes of the row in front of `at`.
size_t row_bytes_at(const Dialect& dialect, char line_end, const std::byte* at,
                    const std::byte* end, std::string_view begun = {});
// Returns the name of a dialect for ItemOrder::name().
std::string name_of(const Dialect& dialect);

// Returns the bytes of the row at the beginning of `text` with its end, or 0 if it does not end there
// or has a fault. If `is_last`, it may lack its end. `have` gets the number of its fields.
size_t read_row(std::string_view text, const Dialect& dialect, char line_end, bool is_last,
                std::optional<ItemFault>& fault, size_t* have = nullptr);
// Returns the first fault of a row with or without its end. `have` gets the number of its fields.
std::optional<ItemFault> fault_of_row(std::string_view row, const Dialect& dialect, char line_end,
                                      size_t* have = nullptr);
// Returns whether a row of `have` fields, with or without its end, is blank or has `fields`; 0: any.
bool is_even_row(std::string_view row, char line_end, size_t have, size_t fields);
// Returns the fault of a row that has `have` fields where `model` has `fields`.
ItemFault fault_of_count(size_t have, size_t fields, const char* model = "the header");

// The place of a field in its row, with its quotes.
struct FieldPlace {
  // doubled: around it, and others inside; states: quotes and escapes as RowStates reads them.
  enum class Quotes : uint8_t { none, around, doubled, states };
  size_t begin = 0;
  size_t end = 0;  // past the end of the row if its quotes are not closed
  Quotes quotes = Quotes::none;

  // Returns the value: a part of the row, or made in `room`.
  std::string_view value(std::string_view row, const Dialect& dialect, std::string& room) const {
    return quotes == Quotes::none ? row.substr(begin, end - begin) : unquoted(row, dialect, room);
  }
  // REQUIRES: it is quoted.
  std::string_view unquoted(std::string_view row, const Dialect& dialect, std::string& room) const;
};

// Returns the value of field `column` (0-based) of a row without its end: a part of the row, or
// made in `room`. It is empty if the row has fewer fields, lacks a carriage return at the end, and
// is any text if the row has a fault.
std::string_view field_of_row(std::string_view row, const Dialect& dialect, size_t column,
                              std::string& room);
std::vector<std::string> fields_of_row(std::string_view row, const Dialect& dialect);
// Returns where the field at `at` ends with its quotes: at a separator, or at the row's end.
size_t end_of_field(std::string_view row, const Dialect& dialect, size_t at);
// Returns the row without the carriage return that may be its last byte.
std::string_view without_return(std::string_view row);

// A search for the next separator, line end or quote. Marks of 64 bytes are found at once, and kept
// for the fields and rows that follow. Thread safety: one thread.
class RowMarks {
 public:
  // Without quotes the separator counts twice.
  RowMarks(const Dialect& dialect, char line_end)
      : bytes_({dialect.separator, line_end, dialect.quote.value_or(dialect.separator)}) {}

  // Returns the place of the first mark from `at` on, or the text's size. REQUIRES: since the last
  // clear(), all texts had the same end, and no byte of them has changed.
  size_t find(std::string_view text, size_t at) {
    while (at < text.size()) {
      const char* const from = text.data() + at;
      const size_t offset = reinterpret_cast<uintptr_t>(from) - block_;
      if (offset >= Bytes::block_bytes) {
        block_ = reinterpret_cast<uintptr_t>(from);
        marks_ = bytes_.find_in(reinterpret_cast<const std::byte*>(from), text.size() - at);
      } else if (const uint64_t marks = marks_ >> offset; marks != 0) {
        return at + static_cast<size_t>(std::countr_zero(marks));
      } else {
        at += Bytes::block_bytes - offset;
      }
    }
    return text.size();
  }
  void clear() { block_ = 0; }

 private:
  using Bytes = ByteSet<3>;
  Bytes bytes_;
  uintptr_t block_ = 0;  // address of the block whose marks are known; 0: there is none
  uint64_t marks_ = 0;
};

// An index of consecutive rows: one walk over a row finds its end, its first fault, and the wanted
// fields.
class RowIndex {
 public:
  // `columns` holds the 0-based indices of the wanted fields, ascending. REQUIRES: items of the format
  // are rows of CSV.
  RowIndex(const Format& format, std::vector<size_t> columns);
  // Returns empty if they are not.
  static std::optional<RowIndex> of(const Format& format, std::vector<size_t> columns);

  void clear() {
    places_.clear();
    uneven_.clear();
    rows_ = 0;
    next_ = nullptr;
  }
  // Adds the row at `at`, and returns its bytes, or 0 if it does not end before `end` or has a
  // fault. If `is_last`, it may lack its end. REQUIRES: if the row follows the last one, `end` and
  // all bytes are those of before.
  size_t add(const std::byte* at, const std::byte* end, bool is_last);
  // Returns the fault of the row that was not added.
  const std::optional<ItemFault>& fault() const { return fault_; }
  // Returns whether row `number` has as many fields as the header.
  bool is_even(size_t number) const {
    return uneven_.empty() || !std::ranges::binary_search(uneven_, number);
  }
  // Returns wanted field `i` of row `number`: a part of the row, or made in `room`; empty if the
  // row has no such field.
  std::string_view field(size_t number, size_t i, std::string_view row, std::string& room) const {
    return places_[number * columns_.size() + i].value(row, dialect_, room);
  }

 private:
  Dialect dialect_;
  char line_end_;
  size_t fields_;    // those of the header; 0: there is none
  bool fit_header_;  // all rows must have as many
  std::vector<size_t> columns_;
  uint32_t rows_ = 0;
  std::vector<uint32_t> uneven_;    // numbers of rows with more or fewer fields
  std::vector<FieldPlace> places_;  // row by row, one for each of columns_
  RowMarks marks_;
  const std::byte* next_ = nullptr;  // the end of the last row, in front of which marks_ are known
  std::optional<ItemFault> fault_;
};

}  // namespace penstock::items
