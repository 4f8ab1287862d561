#pragma once

// The records of the Sort Benchmark (sortbenchmark.org), byte for byte as from its generator: 100
// bytes, of which the first 10 are the key.
//
// All randomness comes from one linear congruential sequence of 128-bit states, X' = aX + c, X = 0
// before the first step. Record r starts at state r + 1, so any record can be made alone: the
// state is found by skipping ahead (squaring the step), in at most 64 squarings.

#include <cstddef>
#include <cstdint>

#include "items/format.h"

namespace penstock::generate {

enum class BenchmarkKind { binary, ascii };

// Writes records first, first + 1, ..., first + count - 1.
void fill_benchmark_records(BenchmarkKind kind, uint64_t first, uint64_t count, std::byte* out);

// The lowest digits of `value` in base 95, least significant first, as printable characters.
void write_base95(uint64_t value, size_t digits, std::byte* out);

}  // namespace penstock::generate
