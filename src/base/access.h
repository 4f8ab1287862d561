#pragma once

// The library's access to the cores behind its public handles, which declare it as a friend.

#include <utility>

#include "base/out_of_memory.h"
#include "penstock/base.h"

namespace penstock::internal {

struct Access {
  template <class Handle>
  static const auto& core(const Handle& handle) {
    return handle.core_;
  }
  // Makes a handle with its private constructor.
  template <class Handle, class... Parts>
  static Handle make(Parts&&... parts) {
    return Handle(std::forward<Parts>(parts)...);
  }
  // Opens a handle with its private open().
  template <class Handle, class... Parts>
  static Result<Handle> open(Parts&&... parts) {
    return Handle::open(std::forward<Parts>(parts)...);
  }
};

// The body of a public open(): makes a handle around the core that `open` returns.
template <class Handle, class Open>
Result<Handle> opened(Open open) {
  return or_out_of_memory([&]() -> Result<Handle> {
    auto core = open();
    if (!core) return std::unexpected(std::move(core.error()));
    return Access::make<Handle>(std::move(*core));
  });
}

}  // namespace penstock::internal
