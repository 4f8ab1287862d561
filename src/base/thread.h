#pragma once

#include <system_error>
#include <utility>

#include "penstock/error.h"

namespace penstock {

// Starts a thread (std::thread or std::jthread). The system may have none to give, which the
// standard library tells by an exception.
template <class Thread, class Work>
Status start_thread(Thread& thread, Work&& work) {
  try {
    thread = Thread(std::forward<Work>(work));
  } catch (const std::system_error& error) {
    return system_error(error.code().value(), "start a thread", "this process",
                        "a higher limit (ulimit -u)");
  }
  return {};
}

}  // namespace penstock
