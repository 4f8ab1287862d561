#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "penstock/base.h"

namespace penstock::stream {

// Copies to a stream's pointer from front to back, a block at a time; returns the end. A plain
// memcpy may store the first bytes of a large copy last, and the end of a small one first: behind a
// writer's back, when its block has been handed to the disk. REQUIRES: the stream's blocks are
// multiples of 64 KiB.
inline std::byte* copy_forward(std::byte* to, const void* from, size_t bytes) {
  constexpr size_t step = 64 * KiB;
  const auto* source = static_cast<const std::byte*>(from);
  while (bytes > 0) {
    size_t piece = std::min(bytes, step - reinterpret_cast<uintptr_t>(to) % step);
    std::memcpy(to, source, piece);
    to += piece;
    source += piece;
    bytes -= piece;
  }
  return to;
}

}  // namespace penstock::stream
