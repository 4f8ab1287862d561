#include "base/check.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace penstock {

void check_failed(const char* condition, const char* file, int line, const char* why) noexcept {
  char text[512];
  int length =
      std::snprintf(text, sizeof text, "penstock: broken invariant: %s\n  %s\n  at %s:%d\n", why,
                    condition, file, line);
  if (length > 0) {
    size_t bytes = std::min(static_cast<size_t>(length), sizeof text - 1);
    [[maybe_unused]] auto written = ::write(STDERR_FILENO, text, bytes);
  }
  std::abort();
}

}  // namespace penstock
