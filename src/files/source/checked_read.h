#pragma once

#include <cstddef>
#include <span>

#include "penstock/source.h"

namespace penstock::source {

// Reads from a Source, which may be the caller's own. If it claims to have stored more than the
// room given (for example its own buffer's size), the error is invalid_argument.
Result<size_t> checked_read(Source& source, std::span<std::byte> into);

}  // namespace penstock::source
