#pragma once

#include "cli/common/parser.h"

namespace penstock::cli {

// Makes every option of GNU sort that means something we do not do an error with a hint. Ignoring
// one would give an order that was not asked for.
void refuse_gnu_options(Parser& sort);

}  // namespace penstock::cli
