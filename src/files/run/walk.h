#pragma once

// Walks over the items of inputs, one input after the other: to look at their order, and to find once
// more, for a message, the item that ended a run.

#include <functional>
#include <optional>
#include <string>

#include "files/run/cursor.h"
#include "files/run/options.h"

namespace penstock::files {

// The place of an item.
struct ItemPlace {
  std::string path;
  uint64_t item = 0;  // in its file, from 0 on, the header not counted
  items::Place place;
};

// Returns false to end the walk.
using VisitItem = std::function<bool(const Cursor& cursor, const items::ItemOrder& order,
                                     const ItemPlace& place)>;
// `numbers`: which of the inputs. Errors: those of reading; corrupt, with its place, where an item breaks the
// rules of its format; interrupted, where the options' `cancel` is set.
Status walk_items(const FilesOptions& options, bool descending, const std::vector<size_t>& numbers,
                  const VisitItem& visit);

// The inputs that can be read again by their names.
std::vector<size_t> named_files(const FilesOptions& options);

// The first row of those inputs that `is_it` accepts. Nothing if there is none, or if it cannot be read.
std::optional<ItemPlace> find_row(const FilesOptions& options, const std::vector<size_t>& numbers,
                                  const std::function<bool(std::string_view row)>& is_it);

// The error of a run over rows of CSV, with the place of the row in its file where such a row ended the run.
Error with_place(Error error, const FilesOptions& options);

}  // namespace penstock::files
