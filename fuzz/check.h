#pragma once

// Checks that all fuzzers use.

#include <cstdio>
#include <cstdlib>

namespace penstock {

inline void require(bool good, const char* what) {
  if (good) return;
  std::fprintf(stderr, "fuzz: %s\n", what);
  std::abort();
}

}  // namespace penstock
