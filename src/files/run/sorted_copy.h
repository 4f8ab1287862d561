#pragma once

#include <string>

#include "io/file.h"

namespace penstock::files {

// Inputs sorted into an unnamed file, which disappears when it is closed.
struct SortedCopy {
  io::File file;
  // The row that was first before the sort, with its line end, if the format is CSV without a
  // header; otherwise empty. (A header tells the number of columns and the line end.)
  std::string first_row;
};

}  // namespace penstock::files
