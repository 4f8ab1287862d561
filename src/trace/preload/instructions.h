#pragma once

// How long an x86-64 instruction is, and whether it may be done elsewhere.

#include <cstddef>
#include <cstdint>

namespace penstock::trace::preload {

struct Instruction {
  uint32_t bytes = 0;       // 0: none that we know
  bool is_movable = false;  // does the same at another address
  bool has_target = false;  // jumps, or calls, `target` bytes behind its own end
  int64_t target = 0;
};

// The one at `code`, where so many bytes are.
Instruction decode(const uint8_t* code, size_t bytes);

}  // namespace penstock::trace::preload
