#pragma once

// Helpers for options that several functions share.

#include <algorithm>
#include <atomic>
#include <string>
#include <vector>

#include "penstock/base.h"
#include "penstock/penstock.h"

struct penstock_cancel {
  std::atomic<bool> requested{false};
};

namespace penstock::c_api {

inline std::unexpected<Error> lacking(const char* what, const char* hint) {
  return failure(ErrorCode::invalid_argument, "read the options", what, hint);
}

inline Result<std::vector<std::string>> list_of(const char* name, const char* const* texts,
                                                size_t count) {
  if (count > 0 && (texts == nullptr || std::find(texts, texts + count, nullptr) != texts + count))
    return lacking(name, "as many texts as its count says");
  return std::vector<std::string>(texts, texts + count);
}

}  // namespace penstock::c_api
