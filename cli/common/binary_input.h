#pragma once

// Inputs that are to be read as lines, and hold what lines of text do not.

#include <string>
#include <vector>

#include "penstock/files.h"

namespace penstock::cli {

// A notice about the first input that is to be read as lines and has NULs near its beginning; empty where none has,
// and where an input is refused (interfaces/api/binary_input.h).
std::string binary_notice(const std::vector<std::string>& inputs, const ItemFormat& items,
                          const SourceOptions& source);

}  // namespace penstock::cli
