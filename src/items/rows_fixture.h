#pragma once

// A model of rows for the tests and the fuzzer: a reader of RFC 4180 that goes byte by byte.

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "items/rows.h"

namespace penstock::items {

// All rows of a text with their fields. `fine` is false if a row breaks the rules.
struct RowsModel {
  std::vector<std::vector<std::string>> rows;
  std::vector<size_t> ends;
  bool fine = true;

  explicit RowsModel(std::string_view text) {
    enum { start, plain, quoted, closed } state = start;
    std::vector<std::string> row(1);
    auto end_row = [&](size_t at) {
      // An unquoted carriage return in front of the line end belongs to it.
      if (state == plain && row.back().ends_with('\r')) row.back().pop_back();
      rows.push_back(std::exchange(row, std::vector<std::string>(1)));
      ends.push_back(at);
      state = start;
    };
    for (size_t at = 0; at < text.size(); ++at) {
      const char c = text[at];
      if (state == quoted) {
        if (c == '"') {
          state = closed;
        } else {
          row.back() += c;
        }
      } else if (state == closed && c == '"') {
        row.back() += c;
        state = quoted;
      } else if (c == '\n') {
        end_row(at + 1);
      } else if (c == ',') {
        row.emplace_back();
        state = start;
      } else if (state == closed) {
        // A carriage return at the end of a row belongs to its end.
        fine = fine && c == '\r' && (at + 1 == text.size() || text[at + 1] == '\n');
        if (c == '\r' && fine) continue;
      } else if (state == start && c == '"') {
        state = quoted;
      } else {
        fine = fine && c != '"';
        row.back() += c;
        state = plain;
      }
    }
    if (state == quoted) fine = false;
  }
};

inline Format csv_format(Dialect dialect = ',') {
  Format format = *parse_format("lines");
  format.csv = dialect;
  return format;
}

// Returns the first difference between the rows of a text and the model, or an empty string.
inline std::string difference_of_rows(std::string_view text) {
  const RowsModel model(text);
  const auto* const begin = reinterpret_cast<const std::byte*>(text.data());
  const auto* const end = begin + text.size();
  size_t at = 0;
  for (size_t row = 0; at < text.size(); ++row) {
    const size_t bytes = row_bytes_at('\n', begin + at, end);
    const std::string_view whole = bytes == 0 ? text.substr(at) : text.substr(at, bytes);
    RowIndex index(csv_format(), {1, 2});
    const size_t indexed = index.add(begin + at, end, bytes == 0);
    size_t have = 0;
    const auto fault = fault_of_row(whole, ',', '\n', &have);
    if (fault.has_value() != index.fault().has_value()) return "a fault that only one of two saw";
    if (fault && fault->at != index.fault()->at) return "the place of a fault";
    if (fault) return model.fine ? "a fault where there is none" : "";
    if (indexed != whole.size()) return "where a row ends in an index";
    // (A last row without an end is none to the model.)
    if (bytes == 0) break;
    at += bytes;
    if (!model.fine) continue;
    if (row >= model.rows.size() || at != model.ends[row]) return "where a row ends";
    const std::string_view line = whole.substr(0, bytes - 1);
    const std::vector<std::string>& fields = model.rows[row];
    if (fields_of_row(line, ',') != fields) return "the fields of a row";
    if (have != fields.size()) return "the number of fields of a row";
    std::string room;
    for (size_t column = 0; column < fields.size() + 2; ++column) {
      if (field_of_row(line, ',', column, room) != (column < fields.size() ? fields[column] : ""))
        return "a field of a row";
    }
    for (size_t i = 0; i < 2; ++i) {
      if (index.field(0, i, whole, room) != (i + 1 < fields.size() ? fields[i + 1] : ""))
        return "a field of an index";
    }
  }
  return model.fine ? "" : "a fault that was not seen";
}

}  // namespace penstock::items
