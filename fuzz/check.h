#pragma once

// What every fuzzer asks of what comes out.

#include <cstdio>
#include <cstdlib>

namespace penstock {

inline void require(bool good, const char* what) {
  if (good) return;
  std::fprintf(stderr, "fuzz: %s\n", what);
  std::abort();
}

}  // namespace penstock
