#pragma once

#include <cstdio>

#include "penstock/trace.h"

namespace penstock::cli {

inline constexpr size_t path_shown_characters = 60;

// For people, some ten lines: files, requests, bytes, seeks, runs, the busiest files, what could
// not be seen.
void print_summary(std::FILE* to, const trace::Conversion& conversion);

}  // namespace penstock::cli
