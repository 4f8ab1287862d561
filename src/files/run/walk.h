#pragma once

// Walks over the items of inputs, one input after the other: to check their order, and to find the
// item that ended a run for a message.

#include <functional>
#include <optional>
#include <string>

#include "files/run/cursor.h"
#include "files/run/options.h"

namespace penstock::files {

// The place of an item.
struct ItemPlace {
  std::string path;
  uint64_t item = 0;  // index in its file, 0-based, without the header
  items::Place place;
};

// Returns false to end the walk.
using VisitItem = std::function<bool(const Cursor& cursor, const items::ItemOrder& order,
                                     const ItemPlace& place)>;
// Walks over the inputs `numbers`. Errors: those of reading; corrupt, with the place, if an item
// breaks the rules of its format; interrupted if the options' `cancel` is set.
Status walk_items(const FilesOptions& options, bool descending, const std::vector<size_t>& numbers,
                  const VisitItem& visit);

// The inputs that can be read again by their names.
std::vector<size_t> named_files(const FilesOptions& options);

// Finds the first row of those inputs that `is_it` accepts. Returns empty if there is none, or if
// an input cannot be read.
std::optional<ItemPlace> find_row(const FilesOptions& options, const std::vector<size_t>& numbers,
                                  const std::function<bool(std::string_view row)>& is_it);

// Adds the place of the row in its file to an error that a row of CSV caused, and the place, the
// length and the memory that is enough to that of a line that is too long; other errors stay as
// they are. `merges`: the run holds items of all inputs at once.
Error with_place(Error error, const FilesOptions& options, bool merges = false);

}  // namespace penstock::files
