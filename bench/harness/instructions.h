#pragma once

#include <cstdint>
#include <functional>

#include "penstock/base.h"

namespace penstock::bench {

// User-mode instructions that `work(items)` takes for each item: a child process runs it step by
// step (ptrace) with two numbers of items, and the difference is divided. What the calls cost
// beside the loop drops out. Thread safety: none (it forks). Errors: where ptrace is not allowed.
Result<double> instructions_per_item(const std::function<void(uint64_t items)>& work);

}  // namespace penstock::bench
