#pragma once

// Tables with a header whose columns are put into another order: inputs that have other columns
// than the first, and an output of some columns. Rows pass as text, field by field, on their way in
// and out; the run itself sees inputs with equal headers.

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "files/run/options.h"
#include "items/fields.h"
#include "items/items.h"
#include "penstock/source.h"

namespace penstock::files {

// Copies rows with their fields in another order. Fields stay as they are written. A row with fewer
// fields than the header has empty ones at its end.
//
// Thread safety: one thread at a time.
class RowMap {
 public:
  // `from[i]` is the field of a row that becomes field `i` (0-based); nullopt: it is empty. `fields`
  // is the number of columns in the header of the rows.
  RowMap(const items::Format& format, std::vector<std::optional<size_t>> from, size_t fields);

  // Appends the row; its line end becomes the new row's. Returns the row's fault if it breaks the
  // rules, or has values in more fields than the header (or if it must have as many, and has not).
  std::optional<items::ItemFault> append(std::string_view row, std::string& to);

 private:
  items::Format format_;
  items::FieldStyle style_;
  std::vector<std::optional<size_t>> from_;
  size_t fields_;
  std::vector<std::string_view> row_;  // the fields of the row at hand
};

// Gives all inputs the columns that options.columns asks for, unless they have equal headers: by a
// filter; if one of them can be read only once, they become sources, in the same order, and the
// output a sink. `format` is that of the items, without keys. Errors: invalid_argument for items
// that are no rows with one line of header; unsupported if an input lacks a column, or has two of
// one name; those of reading.
Status unite_columns(penstock::FilesOptions& options, const items::Format& format);

// Makes the output a sink that keeps the columns of options.select. Errors: invalid_argument as
// above; the sink's errors if there is no such column.
Status select_columns(penstock::FilesOptions& options, const items::Format& format);

}  // namespace penstock::files
