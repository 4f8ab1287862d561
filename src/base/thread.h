#pragma once

#include <concepts>
#include <cstddef>
#include <system_error>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/run_scope.h"
#include "penstock/base.h"

namespace penstock {

// What a thread does, for the run of the thread that starts it.
template <class Work>
struct WorkOfRun {
  RunState run;
  Work work;

  template <class... Arguments>
    requires std::invocable<Work&, Arguments...>
  void operator()(Arguments&&... arguments) {
    const RunScope scope(std::move(run));
    const MemoryCharge stack(thread_bytes, MemoryKind::small);
    work(std::forward<Arguments>(arguments)...);
  }
};

// Starts a thread (std::thread or std::jthread), which works for the run that this one works for. The
// system may have none to give, which the standard library tells by an exception.
template <class Thread, class Work>
Status start_thread(Thread& thread, Work&& work) {
  try {
    thread = Thread(WorkOfRun<std::decay_t<Work>>{current_run(), std::forward<Work>(work)});
  } catch (const std::system_error& error) {
    return system_error(error.code().value(), "start a thread", "this process",
                        "a higher limit (ulimit -u)");
  }
  return {};
}

// Calls work(0) to work(count - 1), each in a thread of its own, the first in this one. What the
// system has no thread for, this one does afterwards.
template <class Work>
void in_threads(size_t count, const Work& work) {
  std::vector<std::jthread> threads(count - 1);
  size_t started = 1;
  while (started < count && start_thread(threads[started - 1], [&work, started] { work(started); }))
    ++started;
  work(0);
  for (size_t i = started; i < count; ++i) work(i);
}

}  // namespace penstock
