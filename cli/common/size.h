#pragma once

#include <cstdint>
#include <string_view>

#include "penstock/base.h"

namespace penstock::cli {

// Parses the size that an option is given: a number and a suffix. K (also k), M, G, T are powers of
// 1024, as are KiB and so on; KB, MB, GB, TB are powers of 1000; b and B are bytes; % is a share of
// `memory_bytes`. A number without a suffix counts units of `unit_bytes`: 1, but 1024 for -S, as in
// GNU sort. Refuses zero and sizes beyond 63 bits.
Result<uint64_t> parse_size(const char* option, std::string_view text, uint64_t memory_bytes,
                            uint64_t unit_bytes = 1);

}  // namespace penstock::cli
