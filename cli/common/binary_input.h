#pragma once

// Inputs that are to be read as lines, and begin as files of other kinds do.

#include <string>
#include <vector>

#include "penstock/files.h"

namespace penstock::cli {

// Errors: an input begins as a file of a known kind that holds no lines (Parquet, an executable, ...). The hint names the
// way to read it. SourceOptions::decompress of false takes any bytes as they are. Pipes are not looked at.
Status refuse_binary(const std::vector<std::string>& inputs, const ItemFormat& items,
                     const SourceOptions& source);

// A notice about the first input that is to be read as lines and has NULs near its beginning; empty where none has.
std::string binary_notice(const std::vector<std::string>& inputs, const ItemFormat& items,
                          const SourceOptions& source);

}  // namespace penstock::cli
