#include "trace/replay/replay_queue.h"

#include <algorithm>

#include "base/check.h"

namespace penstock::trace {

ReplayQueue::ReplayQueue(const ReplayQueueOptions& options) : options_(options) {
  PENSTOCK_CHECK(options.depth_max > 0 && options.window > 0, "room for a request");
}

// Returns how many requests of the trace were in flight when this one began, including itself.
uint32_t ReplayQueue::concurrent_at(const Transfer& transfer) {
  while (!ends_.empty() && ends_.top() <= transfer.start_ns) ends_.pop();
  ends_.push(std::max(transfer.end_ns, transfer.start_ns));
  if (ends_.size() > options_.depth_max) ends_.pop();
  return static_cast<uint32_t>(std::max<size_t>(ends_.size(), 1));
}

void ReplayQueue::add(const Transfer& transfer) {
  PENSTOCK_CHECK(!full(), "a place in the window");
  Waiting waiting{.transfer = transfer};
  waiting.transfer.order = ++added_;
  if (passed_over_.size() <= transfer.file) passed_over_.resize(transfer.file + size_t{1});
  switch (options_.concurrency) {
    case Concurrency::original:
      waiting.concurrent = concurrent_at(transfer);
      ++threads_[transfer.thread].waiting;
      break;
    case Concurrency::serial:
      break;
    case Concurrency::ahead:
      waiting.concurrent = options_.depth_max;
      break;
  }
  concurrent_max_ = std::max(concurrent_max_, waiting.concurrent);
  waiting_.push_back(waiting);
  ++waiting_count_;
}

// Returns whether all writes to the file before the sync that the current scan is at are done.
bool ReplayQueue::is_written_before(const Transfer& sync) const {
  return passed_over_[sync.file] != scans_ &&
         std::ranges::none_of(flying_writes_, [&](const Write& write) {
           return write.file == sync.file && write.order < sync.order;
         });
}

// Returns whether a sync of the transfer's thread is under way that had ended in the trace before the
// transfer began.
bool ReplayQueue::waits_for_own_sync(const Transfer& transfer) const {
  return std::ranges::any_of(flying_syncs_, [&](const Transfer& sync) {
    return sync.thread == transfer.thread && sync.end_ns <= transfer.start_ns;
  });
}

std::optional<Transfer> ReplayQueue::start(uint64_t now_ns) {
  due_ns_.reset();
  ++scans_;
  for (Waiting& waiting : waiting_) {
    if (in_flight_ >= concurrent_max_) return std::nullopt;
    if (waiting.started) continue;
    const Transfer& transfer = waiting.transfer;
    if (options_.pace == Pace::original && transfer.start_ns > now_ns) {
      due_ns_ = transfer.start_ns;
      return std::nullopt;
    }
    bool may = in_flight_ < waiting.concurrent;
    if (may && transfer.is_sync()) may = is_written_before(transfer);
    if (options_.concurrency == Concurrency::original) {
      Thread& thread = threads_.find(transfer.thread)->second;
      if (thread.scan != scans_) {
        thread.scan = scans_;
        thread.earliest_end = ~uint64_t{0};
        for (const uint64_t end : thread.flying_ends) {
          thread.earliest_end = std::min(thread.earliest_end, end);
        }
      }
      may = may && thread.earliest_end > transfer.start_ns;
      if (may) {
        thread.flying_ends.push_back(transfer.end_ns);
        --thread.waiting;
      } else {
        thread.earliest_end = std::min(thread.earliest_end, transfer.end_ns);
      }
    } else if (!may || waits_for_own_sync(transfer)) {
      return std::nullopt;
    }
    const bool writes = transfer.access == Access::write && !transfer.is_sync();
    if (!may) {
      if (writes) passed_over_[transfer.file] = scans_;
      continue;
    }
    if (writes) flying_writes_.push_back({transfer.order, transfer.file});
    if (transfer.is_sync()) flying_syncs_.push_back(transfer);
    const Transfer started = transfer;
    waiting.started = true;
    ++in_flight_;
    --waiting_count_;
    while (!waiting_.empty() && waiting_.front().started) waiting_.pop_front();
    return started;
  }
  return std::nullopt;
}

void ReplayQueue::ended(const Transfer& transfer) {
  PENSTOCK_CHECK(in_flight_ > 0, "it was in flight");
  --in_flight_;
  std::erase_if(flying_writes_, [&](const Write& write) { return write.order == transfer.order; });
  std::erase_if(flying_syncs_, [&](const Transfer& sync) { return sync.order == transfer.order; });
  if (options_.concurrency != Concurrency::original) return;
  const auto found = threads_.find(transfer.thread);
  PENSTOCK_CHECK(found != threads_.end(), "its thread is known");
  std::vector<uint64_t>& ends = found->second.flying_ends;
  const auto end = std::ranges::find(ends, transfer.end_ns);
  PENSTOCK_CHECK(end != ends.end(), "it was in flight");
  *end = ends.back();
  ends.pop_back();
  if (ends.empty() && found->second.waiting == 0) threads_.erase(found);
}

}  // namespace penstock::trace
