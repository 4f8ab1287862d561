#pragma once

#include <cstdint>
#include <string_view>

#include "penstock/error.h"

namespace penstock::cli {

// A size as GNU sort's -S takes it: digits and a suffix, b for bytes, K (also k), M, G, T for
// powers of 1024, % for a share of `memory_bytes`; without a suffix `unit_bytes` each (GNU's unit
// is 1024). Refuses zero and what does not fit.
Result<uint64_t> parse_size(std::string_view text, uint64_t memory_bytes,
                            uint64_t unit_bytes = 1024);

}  // namespace penstock::cli
