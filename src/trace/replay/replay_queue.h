#pragma once

// Which request of a trace may start next. No clocks, no disks: what is told decides.
//
// The naive way replays one request after the other; a program that kept 32 of them in flight is
// then measured as one that waits for each. The other naive way gives each thread of the trace a
// thread that runs through its requests as fast as it can; a thousand processes that ran one after
// the other (a build, a shell script) then run at once, and threads drift apart until the pattern
// on the disk is no longer the program's.
//
// What a trace knows of why a request was made when it was made, is what had come back before. So,
// with Concurrency::original, a request r starts when
//
//   1. nothing of its own thread is waiting or in flight that had ended, in the trace, before r
//      began: each thread is a queue of its own, and requests that overlapped (io_uring) may;
//   2. fewer requests are in flight than there were in the trace when r began, r included: never
//      more at once than the program had, whoever made them;
//   3. at the original pace: its time has come.
//
// A sync has one more: what was written to its file before it, in the trace's order, is done. It
// counts as a request of its thread, so that what the program did after it comes after it, with
// Concurrency::ahead too: there rule 1 holds for syncs alone.
//
// Among those that may, the first in the trace's order goes first. One whose thread is still busy
// is overtaken, but never by requests `window` places behind it, so that the order on the disk
// stays close to the trace's. With Concurrency::serial rule 2 allows one; with Concurrency::ahead a
// fixed number, rule 1 holds for what a thread did after a sync of its own and for nothing else,
// and nothing is overtaken: the trace's order, and the device always busy but for syncs.
//
// Progress: with nothing in flight rules 1 and 2 let the first waiting request start (what rule 1
// looks at stands before it in the trace's order, so it is in flight or gone).
//
// How many were in flight when r began is counted as requests come, in the order in which they were
// started: those before it whose end lies behind its start. Only the `depth_max` latest ends matter
// for a count that is cut at depth_max, so that many are kept.

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <queue>
#include <unordered_map>
#include <vector>

#include "penstock/trace.h"

namespace penstock::trace {

enum class Concurrency : uint8_t { original, serial, ahead };
enum class Pace : uint8_t { fast, original };

// What is moved for one request, or for several that were joined; or a sync, which moves nothing.
struct Transfer {
  uint64_t address = 0;   // in the region
  uint64_t bytes = 0;     // 0: a sync
  uint64_t start_ns = 0;  // in the trace, since the first request that is replayed
  uint64_t end_ns = 0;
  uint32_t file = 0;
  int32_t thread = 0;
  Access access = Access::read;
  uint64_t order = 0;  // the queue's own

  bool is_sync() const { return bytes == 0; }
};

struct ReplayQueueOptions {
  Concurrency concurrency = Concurrency::original;
  Pace pace = Pace::fast;
  unsigned depth_max = 64;  // requests in flight; of `ahead`: as many as that, always
  size_t window = 256;
};

// Thread safety: none. Invariants: what was added is given once, by start(); threads_ has an entry
// for each thread with something waiting or in flight.
class ReplayQueue {
 public:
  explicit ReplayQueue(const ReplayQueueOptions& options);

  bool full() const { return waiting_.size() >= options_.window; }
  bool empty() const { return waiting_count_ == 0; }  // nothing waits
  unsigned in_flight() const { return in_flight_; }

  // In the trace's order. REQUIRES: not full().
  void add(const Transfer& transfer);

  // The next one that may start at `now_ns` (since the replay began; ignored at the fast pace), now
  // in flight; or nothing.
  std::optional<Transfer> start(uint64_t now_ns);
  // After start() gave nothing: when to ask again, if nothing ends before; nothing: only when
  // something has ended.
  std::optional<uint64_t> due_ns() const { return due_ns_; }
  // REQUIRES: start() gave it, and it was not ended yet.
  void ended(const Transfer& transfer);

 private:
  struct Waiting {
    Transfer transfer;
    uint32_t concurrent = 1;  // rule 2, itself included
    bool started = false;
  };
  struct Thread {
    uint32_t waiting = 0;
    std::vector<uint64_t> flying_ends;  // in the trace, of those in flight
    // Of the present scan: the earliest end of those in flight, and of those passed over.
    uint64_t scan = 0;
    uint64_t earliest_end = 0;
  };

  uint32_t concurrent_at(const Transfer& transfer);
  bool is_written_before(const Transfer& sync) const;
  bool waits_for_own_sync(const Transfer& transfer) const;

  const ReplayQueueOptions options_;
  std::deque<Waiting> waiting_;  // the front one has not started
  size_t waiting_count_ = 0;
  uint32_t concurrent_max_ = 1;  // of all so far
  unsigned in_flight_ = 0;
  std::unordered_map<int32_t, Thread> threads_;
  uint64_t scans_ = 0;
  std::optional<uint64_t> due_ns_;
  std::priority_queue<uint64_t, std::vector<uint64_t>, std::greater<>> ends_;  // the latest ones
  // For syncs: writes in flight, and by file the last scan that passed over a write; and syncs in
  // flight, for rule 1.
  struct Write {
    uint64_t order = 0;
    uint32_t file = 0;
  };
  uint64_t added_ = 0;
  std::vector<Write> flying_writes_;
  std::vector<Transfer> flying_syncs_;
  std::vector<uint64_t> passed_over_;
};

}  // namespace penstock::trace
