#include <stdexcept>

#include "c_api/guard.h"
#include "penstock/stream.h"

namespace penstock::c_api {
namespace {

static_assert(static_cast<int>(ErrorCode::invalid_argument) + 1 == PENSTOCK_INVALID_ARGUMENT);
static_assert(static_cast<int>(ErrorCode::out_of_mappings) + 1 == PENSTOCK_OUT_OF_MAPPINGS);
static_assert(static_cast<int>(ErrorCode::cancelled) + 1 == PENSTOCK_CANCELLED);
static_assert(static_cast<int>(ErrorCode::unsorted) + 1 == PENSTOCK_UNSORTED);

struct Last {
  std::string message;
  int system_errno = 0;
};
thread_local Last last;

}  // namespace

int fail(int code, const char* message) noexcept {
  last.system_errno = 0;
  try {
    last.message = message;
  } catch (...) {
    last.message.clear();
  }
  return code;
}

int fail(const Error& error) noexcept {
  int code = static_cast<int>(error.code) + 1;
  try {
    code = fail(code, error.message().c_str());
  } catch (...) {
    last.message.clear();
  }
  last.system_errno = error.system_errno;
  return code;
}

}  // namespace penstock::c_api

using namespace penstock;

const char* penstock_version() {
  return PENSTOCK_VERSION_STRING;
}

const char* penstock_error_message() {
  return c_api::last.message.c_str();
}

int penstock_error_errno() {
  return c_api::last.system_errno;
}

int penstock_install_handlers() {
  return c_api::guarded([] { return fault::install(); });
}

int penstock_recover(int (*work)(void* context), void* context) {
  return c_api::guarded([&]() -> int {
    // A Result, so that what `work` returns is told from what a stream met.
    const Result<int> returned = RecoveryPoint::run([&]() -> int { return work(context); });
    return returned ? *returned : c_api::fail(returned.error());
  });
}
