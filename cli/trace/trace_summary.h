#pragma once

#include <cstdio>

#include "penstock/trace.h"

namespace penstock::cli {

inline constexpr size_t path_shown_characters = 60;

// Prints some ten lines for people: files, requests, bytes, seeks, runs, the busiest files, and
// counts of unseen calls.
void print_summary(std::FILE* to, const trace::Conversion& conversion);

}  // namespace penstock::cli
