#include <stdexcept>

#include "base/thread_object.h"
#include "interfaces/c/guard.h"
#include "penstock/stream.h"

namespace penstock::c_api {
namespace {

static_assert(static_cast<int>(ErrorCode::invalid_argument) + 1 == PENSTOCK_INVALID_ARGUMENT);
static_assert(static_cast<int>(ErrorCode::out_of_mappings) + 1 == PENSTOCK_OUT_OF_MAPPINGS);
static_assert(static_cast<int>(ErrorCode::cancelled) + 1 == PENSTOCK_CANCELLED);
static_assert(static_cast<int>(ErrorCode::unsorted) + 1 == PENSTOCK_UNSORTED);

constinit thread_local ThreadObject<std::string> message_of_thread;
constinit thread_local const char* last_message = "";  // text of message_of_thread, or a literal
constinit thread_local int last_errno = 0;

}  // namespace

int fail(int code, const char* message) noexcept {
  last_errno = 0;
  try {
    last_message = (message_of_thread.get() = message).c_str();
  } catch (...) {
    last_message = "out of memory";
  }
  return code;
}

int fail(const Error& error) noexcept {
  int code = static_cast<int>(error.code) + 1;
  try {
    code = fail(code, error.message().c_str());
  } catch (...) {
    last_message = "out of memory";
  }
  last_errno = error.system_errno;
  return code;
}

}  // namespace penstock::c_api

using namespace penstock;

const char* penstock_version() {
  return PENSTOCK_VERSION_STRING;
}

const char* penstock_error_message() {
  return c_api::last_message;
}

int penstock_error_errno() {
  return c_api::last_errno;
}

int penstock_install_handlers() {
  return c_api::guarded([] { return fault::install(); });
}

int penstock_recover(int (*work)(void* context), void* context) {
  return c_api::guarded([&]() -> int {
    // A Result, to distinguish the value of `work` from the error of a stream.
    const Result<int> returned = RecoveryPoint::run([&]() -> int { return work(context); });
    return returned ? *returned : c_api::fail(returned.error());
  });
}
