#pragma once

#include <string>

#include "io/file.h"

namespace penstock::files {

// Inputs sorted into one file without a name, which is gone when it is closed.
struct SortedCopy {
  io::File file;
  // The row that stood first, with its line end. Empty unless the format is CSV without a header: where there is a
  // header, that says how many columns there are and how rows end.
  std::string first_row;
};

}  // namespace penstock::files
