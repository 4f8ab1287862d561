#pragma once

#include <cstddef>
#include <span>

#include "penstock/source.h"

namespace penstock::source {

// source.read(into), for every reader of a Source, which may be a caller's own. One that says it stored more than
// there was room for, such as the size of a buffer of its own, is invalid_argument.
Result<size_t> checked_read(Source& source, std::span<std::byte> into);

}  // namespace penstock::source
