#pragma once

// Binary inputs that are about to be read as lines.

#include <string>
#include <vector>

#include "penstock/files.h"

namespace penstock::cli {

// A notice about the first input that is to be read as lines and has NULs near its beginning; empty
// if none has, or if an input is refused (interfaces/api/binary_input.h).
std::string binary_notice(const std::vector<std::string>& inputs, const ItemFormat& items,
                          const SourceOptions& source);

}  // namespace penstock::cli
