#pragma once

// Columns that are named by their numbers, against those that an input has.

#include <string>
#include <vector>

#include "cli/common/beginnings.h"
#include "penstock/files.h"

namespace penstock::cli {

// Checks that the first row of each of the first 16 inputs has the columns of CSV that are given by
// number, as "3", "3:n" or "3:n,4", if it can be looked at before the run. A pipe is waited for if
// it is the only input. (Names, and files with a header, are checked when the run reads the header.)
// `option`: the option that gave them, for the message. Errors: invalid_argument.
Status check_column_numbers(const ItemFormat& items, const SourceOptions& source,
                            Beginnings& beginnings, const std::vector<std::string>& inputs,
                            const std::string& option, const std::vector<std::string>& columns);

}  // namespace penstock::cli
