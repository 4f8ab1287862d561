#pragma once

#include <new>
#include <utility>

#include "penstock/base.h"

namespace penstock {

// The error of an allocation that failed. Its words fit std::string itself: it allocates nothing.
inline std::unexpected<Error> out_of_memory() noexcept {
  return std::unexpected(Error{.code = ErrorCode::out_of_memory, .attempted = "allocate memory"});
}

// work(), with out_of_memory in place of std::bad_alloc: around the body of each public function that returns
// Status or Result.
template <class Work>
auto or_out_of_memory(Work&& work) -> decltype(work()) {
  try {
    return std::forward<Work>(work)();
  } catch (const std::bad_alloc&) {
    return out_of_memory();
  }
}

}  // namespace penstock
