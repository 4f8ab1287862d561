#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "base/thread.h"

namespace penstock::sorting {

// Runs work(worker) for each worker, in its own thread as far as the system has threads.
template <class Worker, class Work>
void on_all_threads(std::vector<std::unique_ptr<Worker>>& workers, Work work) {
  in_threads(workers.size(), [&](size_t i) { work(*workers[i]); });
}

}  // namespace penstock::sorting
