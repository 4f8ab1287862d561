#pragma once

#include <string>
#include <utility>

#include "penstock/base.h"

namespace penstock {

// Returns the error of a call, or a command line, whose arguments make no sense.
inline std::unexpected<Error> misuse(std::string attempted, std::string subject, std::string hint) {
  return failure(ErrorCode::invalid_argument, std::move(attempted), std::move(subject),
                 std::move(hint));
}

}  // namespace penstock
