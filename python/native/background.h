#pragma once

// Native work that Ctrl-C interrupts: it runs in a thread of its own and needs no GIL; the calling
// thread waits without the GIL, and checks for signals every 50 ms.

#include <nanobind/nanobind.h>

#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <type_traits>

namespace penstock::python {

namespace nb = nanobind;

// Returns the result of work(). `look` is called with the GIL at each check for signals, and once
// at the end. If a signal's handler or `look` raises, cancel() has to make the work end soon; when
// it has ended, the exception is rethrown.
template <class Work, class Cancel, class Look>
auto in_background(Work work, Cancel cancel, Look look) {
  std::optional<std::invoke_result_t<Work>> result;
  std::mutex mutex;
  std::condition_variable ended;
  bool over = false;
  std::exception_ptr raised;
  std::thread thread([&] {
    auto outcome = work();
    const std::lock_guard lock(mutex);
    result = std::move(outcome);
    over = true;
    ended.notify_one();
  });
  for (bool again = true; again;) {
    {
      const nb::gil_scoped_release released;
      std::unique_lock lock(mutex);
      again = !ended.wait_for(lock, std::chrono::milliseconds(50), [&] { return over; });
    }
    if (raised) continue;
    try {
      if (PyErr_CheckSignals() != 0) throw nb::python_error();
      look();
    } catch (...) {
      raised = std::current_exception();
      cancel();
    }
  }
  thread.join();
  if (raised) std::rethrow_exception(raised);
  return std::move(*result);
}

}  // namespace penstock::python
