#include <algorithm>
#include <cstring>

#include "penstock/stream.h"

namespace penstock {

// Each memcpy() stays within a page, and so within a block, on either side: any order is fine.
std::byte* copy(void* to, const void* from, size_t bytes) {
  constexpr size_t page = 4 * KiB;
  const auto left_in_page = [](const void* at) {
    return page - reinterpret_cast<uintptr_t>(at) % page;
  };
  auto* target = static_cast<std::byte*>(to);
  const auto* source = static_cast<const std::byte*>(from);
  while (bytes > 0) {
    const size_t piece = std::min({bytes, left_in_page(target), left_in_page(source)});
    std::memcpy(target, source, piece);
    target += piece;
    source += piece;
    bytes -= piece;
  }
  return target;
}

}  // namespace penstock
