#pragma once

#include <cstddef>
#include <memory>
#include <thread>
#include <vector>

#include "base/thread.h"

namespace penstock::sorting {

// Runs work(worker) for each worker, in a thread of its own, the first in this one. Where the
// system has no thread to give, this one does the work of that one as well.
template <class Worker, class Work>
void on_all_threads(std::vector<std::unique_ptr<Worker>>& workers, Work work) {
  std::vector<std::jthread> threads(workers.size() - 1);
  for (size_t i = 1; i < workers.size(); ++i) {
    if (!start_thread(threads[i - 1], [&work, &worker = *workers[i]] { work(worker); }))
      work(*workers[i]);
  }
  work(*workers[0]);
}

}  // namespace penstock::sorting
