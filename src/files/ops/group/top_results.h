#pragma once

// Keeps the first results of an order out of all that are offered.

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

#include "base/run_scope.h"
#include "penstock/base.h"

namespace penstock::files {

// Entry::bytes() is the memory that an entry has beside itself. Thread safety: one thread.
template <class Entry>
class TopResults {
 public:
  using ComesFirst = std::function<bool(const Entry& a, const Entry& b)>;

  TopResults(uint64_t results_max, uint64_t bytes_max, ComesFirst comes_first)
      : results_max_(results_max), bytes_max_(bytes_max), comes_first_(std::move(comes_first)) {}

  // Errors: out_of_memory if the results exceed `bytes_max`.
  Status offer(Entry entry) {
    if (results_.size() == results_max_) {
      if (results_max_ == 0 || !comes_first_(entry, results_.front())) return {};
      std::ranges::pop_heap(results_, comes_first_);
      bytes_ -= bytes_of(results_.back());
      results_.pop_back();
    }
    results_.push_back(std::move(entry));
    bytes_ += bytes_of(results_.back());
    charge_.set(std::max(charge_.bytes(), bytes_));
    if (bytes_ > bytes_max_) {
      return failure(ErrorCode::out_of_memory,
                     fmt::format("hold the first {} results", results_max_), "group",
                     "fewer, or a larger -S");
    }
    std::ranges::push_heap(results_, comes_first_);
    return {};
  }
  // Calls use(entry), which returns a Status, for each entry in order. REQUIRES: no offer() follows.
  template <class Use>
  Status for_each(Use use) {
    std::ranges::sort(results_, comes_first_);
    for (const Entry& entry : results_) {
      if (auto status = use(entry); !status) return status;
    }
    return {};
  }

 private:
  // A vector that doubles takes room for twice as many entries, and for three times while it copies.
  static uint64_t bytes_of(const Entry& entry) { return entry.bytes() + 3 * sizeof(Entry); }

  const uint64_t results_max_;
  const uint64_t bytes_max_;
  const ComesFirst comes_first_;
  uint64_t bytes_ = 0;
  MemoryCharge charge_{0};      // the peak so far: the heap keeps it
  std::vector<Entry> results_;  // a heap with the last result in front
};

}  // namespace penstock::files
