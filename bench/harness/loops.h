#pragma once

// The benches' loops: fill memory with 0, 1, 2, ... as 64-bit numbers, and sum them up. Each takes
// one item of a given width per iteration, as the paper's programs do (section 6.4: 16-byte items),
// so that a stream, an iterator and plain memory run the same code.

#include <cstddef>
#include <cstdint>

namespace penstock::bench {

using Item [[gnu::vector_size(16)]] = uint64_t;  // item of Loops and of iterators

struct Loops {
  const char* name;
  // REQUIRES for both: alignment to an item, whole items. `first` is the first number.
  void (*fill)(void* to, uint64_t bytes, uint64_t first);
  uint64_t (*sum)(const void* from, uint64_t bytes);
};

extern const Loops items_of_16_bytes;
extern const Loops items_of_64_bytes;  // the widest registers; the compiler splits them elsewhere

// 0 + 1 + ... of the numbers in that many bytes.
uint64_t sum_of_numbers(uint64_t bytes);

}  // namespace penstock::bench
