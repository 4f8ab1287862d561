#pragma once

// A sort of items of 8 and 16 bits: counts them, then writes them anew.

#include <cstddef>
#include <cstdint>

#include "penstock/base.h"

namespace penstock::sorting {

// `in` and `out` are the same array, or do not overlap. For uint8_t, int8_t, uint16_t, int16_t.
template <class T>
Status count_sort(const T* in, size_t count, T* out, bool descending);

}  // namespace penstock::sorting
