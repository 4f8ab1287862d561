#pragma once

#include <cstdint>
#include <string_view>

#include "penstock/base.h"

namespace penstock::cli {

// The size that an option is given: a number and a suffix. K (also k), M, G, T are powers of 1024, as are KiB and so on; KB, MB,
// GB, TB are powers of 1000; b and B are bytes; % is a share of `memory_bytes`. Without a suffix `unit_bytes` each: 1, but of
// -S 1024, as GNU sort has it. Refuses zero and what does not fit.
Result<uint64_t> parse_size(const char* option, std::string_view text, uint64_t memory_bytes,
                            uint64_t unit_bytes = 1);

}  // namespace penstock::cli
