#pragma once

#include <cstdint>
#include <functional>

#include "penstock/base.h"

namespace penstock::bench {

// User-mode instructions of `work(items)` per item: a child process runs it step by step (ptrace)
// with two numbers of items, and the difference is divided, so that fixed costs drop out. Thread
// safety: none (it forks). Errors: if ptrace is not allowed.
Result<double> instructions_per_item(const std::function<void(uint64_t items)>& work);

}  // namespace penstock::bench
