#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

#include "trace/convert.h"

namespace penstock::cli {

std::string readable_bytes(uint64_t bytes);  // "1.5 MiB"

// For people, some ten lines: files, requests, bytes, seeks, runs, the busiest files, what could
// not be seen.
void print_summary(std::FILE* to, const trace::Conversion& conversion);

}  // namespace penstock::cli
