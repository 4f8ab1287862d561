#pragma once

#include <new>
#include <utility>

#include "penstock/base.h"

namespace penstock {

// Returns the error of a failed allocation. Its text fits std::string without allocating.
inline std::unexpected<Error> out_of_memory() noexcept {
  return std::unexpected(Error{.code = ErrorCode::out_of_memory, .attempted = "allocate memory"});
}

// Calls work() and returns out_of_memory instead of throwing std::bad_alloc: for the body of each
// public function that returns Status or Result.
template <class Work>
auto or_out_of_memory(Work&& work) -> decltype(work()) {
  try {
    return std::forward<Work>(work)();
  } catch (const std::bad_alloc&) {
    return out_of_memory();
  }
}

}  // namespace penstock
