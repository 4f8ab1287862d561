#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "check.h"
#include "items/rows_fixture.h"

// Fuzzing rows of CSV: any text, compared with a reader of RFC 4180 that goes byte by byte.

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::string difference = penstock::items::difference_of_rows(text);
  penstock::require(difference.empty(), difference.c_str());
  return 0;
}
