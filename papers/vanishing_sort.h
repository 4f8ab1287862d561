#pragma once

#include <concepts>
#include <cstddef>

#include "penstock/region.h"
#include "penstock/sort.h"

namespace penstock::papers {

// The paper's in-place sort as printed (000, sections 5 and 6.5): reading the array makes its
// blocks vanish, bucket streams take them from the pool, and the array takes them back as it is
// written.
//
// Sorts the first `count` items of the array. The pool must have about 1024 more blocks, free or in
// the array, than the items fill. Stable. Errors: out_of_memory if it does not, before anything was
// read.
template <Sortable T>
  requires(sizeof(T) >= 4 && !std::same_as<T, Key128>)
Status sort_vanishing(const BlockPool& pool, VanishingArray& array, size_t count,
                      bool descending = false);

}  // namespace penstock::papers
