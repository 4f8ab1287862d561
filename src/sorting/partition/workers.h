#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <new>
#include <thread>

#include "base/out_of_memory.h"
#include "base/thread.h"
#include "penstock/base.h"

namespace penstock::partition_internal {

// Calls work(worker) in that many threads, or in none if the system lacks threads.
template <class Work>
Status run_workers(unsigned workers, const Work& work) {
  enum : uint32_t { wait, go, stop };
  std::atomic<uint32_t> signal{wait};
  Status status;
  {
    const std::unique_ptr<std::jthread[]> threads(new (std::nothrow) std::jthread[workers - 1]);
    if (threads == nullptr) return out_of_memory();
    for (unsigned worker = 1; worker < workers && status; ++worker) {
      status = try_start_thread(threads[worker - 1], [&signal, &work, worker] {
        signal.wait(wait);
        if (signal.load() == go) work(worker);
      });
    }
    signal.store(status ? go : stop);
    signal.notify_all();
    if (status) work(0);
  }
  return status;
}

// Calls work that its threads share out among themselves: in that many threads, or in one if the
// system lacks threads.
template <class Work>
void share_work(unsigned workers, const Work& work) {
  if (!run_workers(workers, work)) work(0);
}

}  // namespace penstock::partition_internal
