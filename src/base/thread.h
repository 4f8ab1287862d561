#pragma once

#include <signal.h>

#include <cerrno>
#include <chrono>
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

// A thread's work, which the thread takes over when it starts.
template <class Work>
struct OwnedWork {
  Work* work;

  template <class... Arguments>
    requires std::invocable<Work&, Arguments...>
  void operator()(Arguments&&... arguments) {
    const std::unique_ptr<Work> owned(work);
    (*owned)(std::forward<Arguments>(arguments)...);
  }
};

// Starts a thread (std::thread or std::jthread), which works for this thread's run. All threads of
// the library start here. The standard library throws if the system has no more threads, or the
// heap has no room for the thread's state; this returns an error, and `work` is lost.
template <class Thread, class Work>
Status try_start_thread(Thread& thread, Work&& work, std::chrono::milliseconds patience = {}) {
  return or_out_of_memory([&]() -> Status {
    auto of_run = std::make_unique<WorkOfRun<std::decay_t<Work>>>(
        current_run(), ThreadSignals().callers(), std::forward<Work>(work));
    const auto until = std::chrono::steady_clock::now() + patience;
    for (;;) {
      try {
        const ThreadSignals signals;
        thread = Thread(OwnedWork{of_run.get()});
        of_run.release();  // the thread's now
        return {};
      } catch (const std::system_error& error) {
        if (error.code().value() != EAGAIN || std::chrono::steady_clock::now() >= until)
          return system_error(error.code().value(), "start a thread", "this process",
                              "a higher limit (ulimit -u)");
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  });
}

// Starts a thread that the caller cannot do without. If the system has no more, tries again until
// idle threads of io_uring, which count as the user's, have ended (5 s).
template <class Thread, class Work>
Status start_thread(Thread& thread, Work&& work) {
  return try_start_thread(thread, std::forward<Work>(work), std::chrono::seconds(6));
}

// Calls work(0) to work(count - 1), each in a thread of its own, the first in this one. If the
// system lacks threads or memory, this thread does the rest afterwards.
template <class Work>
void in_threads(size_t count, const Work& work) {
  const std::unique_ptr<std::jthread[]> threads(new (std::nothrow) std::jthread[count - 1]);
  size_t started = 1;
  const auto starts = [&] {
    return try_start_thread(threads[started - 1], [&work, started] { work(started); }).has_value();
  };
  while (threads != nullptr && started < count && starts()) ++started;
  work(0);
  for (size_t i = started; i < count; ++i) work(i);
}

}  // namespace penstock
