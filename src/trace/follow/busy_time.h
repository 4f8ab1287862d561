#pragma once

// The time in which at least one of many calls was under way: the length of the union of their
// intervals, in bounded memory.
//
// Calls come nearly in order. The last `kept` intervals that do not touch are held back; an older
// one is settled: added to the sum. The part of a late call before the last settled interval's end is
// left out, so that no time counts twice.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace penstock::trace {

class BusyTime {
 public:
  explicit BusyTime(size_t kept = 4096) : kept_(kept) {}

  void add(uint64_t start_ns, uint64_t end_ns) {
    start_ns = std::max(start_ns, settled_end_ns_);
    if (end_ns <= start_ns) return;
    if (!spans_.empty() && start_ns >= spans_.back().start_ns && start_ns <= spans_.back().end_ns) {
      spans_.back().end_ns = std::max(spans_.back().end_ns, end_ns);
      return;
    }
    spans_.push_back({start_ns, end_ns});
    if (spans_.size() >= 2 * kept_) settle(kept_);
  }

  // Returns the time of all calls so far. Calls that are added later count from here on.
  uint64_t finish() {
    settle(0);
    return busy_ns_;
  }

 private:
  struct Span {
    uint64_t start_ns, end_ns;
  };

  void settle(size_t rest) {
    if (!std::ranges::is_sorted(spans_, {}, &Span::start_ns))
      std::ranges::sort(spans_, {}, &Span::start_ns);
    size_t apart = 0;  // spans that do not touch, at the front
    for (const Span& span : spans_) {
      if (apart > 0 && span.start_ns <= spans_[apart - 1].end_ns) {
        spans_[apart - 1].end_ns = std::max(spans_[apart - 1].end_ns, span.end_ns);
      } else {
        spans_[apart++] = span;
      }
    }
    const size_t settled = apart - std::min(apart, rest);
    for (size_t i = 0; i < settled; ++i) {
      busy_ns_ += spans_[i].end_ns - spans_[i].start_ns;
      settled_end_ns_ = spans_[i].end_ns;
    }
    spans_.erase(spans_.begin() + static_cast<ptrdiff_t>(apart), spans_.end());
    spans_.erase(spans_.begin(), spans_.begin() + static_cast<ptrdiff_t>(settled));
  }

  const size_t kept_;
  std::vector<Span> spans_;
  uint64_t settled_end_ns_ = 0;
  uint64_t busy_ns_ = 0;
};

}  // namespace penstock::trace
