#pragma once

#include <signal.h>

#include <concepts>
#include <cstddef>
#include <memory>
#include <new>
#include <system_error>
#include <thread>
#include <type_traits>
#include <utility>

#include "base/out_of_memory.h"
#include "base/run_scope.h"
#include "base/signal_mask.h"
#include "penstock/base.h"

namespace penstock {

// The work of a thread, on behalf of the run of the thread that starts it.
template <class Work>
struct WorkOfRun {
  RunState run;
  sigset_t callers_signals;
  Work work;

  template <class... Arguments>
    requires std::invocable<Work&, Arguments...>
  void operator()(Arguments&&... arguments) {
    const RunScope scope(std::move(run));
    remember_callers_signals(&callers_signals);
    const MemoryCharge stack(thread_bytes, MemoryKind::small);
    work(std::forward<Arguments>(arguments)...);
  }
};

// Starts a thread (std::thread or std::jthread), which works for this thread's run. All threads of
// the library start here. The standard library throws if the system has no more threads, or the
// heap has no room for the thread's state; this returns an error.
template <class Thread, class Work>
Status start_thread(Thread& thread, Work&& work) {
  return or_out_of_memory([&]() -> Status {
    try {
      const ThreadSignals signals;
      WorkOfRun<std::decay_t<Work>> of_run{current_run(), signals.callers(),
                                           std::forward<Work>(work)};
      thread = Thread(std::move(of_run));
    } catch (const std::system_error& error) {
      return system_error(error.code().value(), "start a thread", "this process",
                          "a higher limit (ulimit -u)");
    }
    return {};
  });
}

// Calls work(0) to work(count - 1), each in a thread of its own, the first in this one. If the
// system lacks threads or memory, this thread does the rest afterwards.
template <class Work>
void in_threads(size_t count, const Work& work) {
  const std::unique_ptr<std::jthread[]> threads(new (std::nothrow) std::jthread[count - 1]);
  size_t started = 1;
  const auto starts = [&] {
    return start_thread(threads[started - 1], [&work, started] { work(started); }).has_value();
  };
  while (threads != nullptr && started < count && starts()) ++started;
  work(0);
  for (size_t i = started; i < count; ++i) work(i);
}

}  // namespace penstock
