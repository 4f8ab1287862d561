#pragma once

// The queue that decides which request of a trace may start next. It uses no clock and no disk, only
// its arguments.
//
// If requests were replayed one after the other, a program that kept 32 of them in flight would be
// measured as one that waits for each. If each thread of the trace had a thread that makes its
// requests as fast as it can, a thousand processes that ran one after the other (a build, a shell
// script) would run at once, and threads would drift apart until the pattern on the disk is no longer
// the program's.
//
// A trace shows which requests had ended before another began, and so what that one may have waited
// for. With Concurrency::original, a request r starts when
//
//   1. nothing of its own thread is waiting or in flight that had ended, in the trace, before r
//      began: each thread is a queue of its own, and requests that overlapped (io_uring) may;
//   2. fewer requests are in flight than there were in the trace when r began, r included: never
//      more at once than the program had, whoever made them;
//   3. at the original pace: its time has come.
//
// A sync has one more rule: all writes to its file before it, in the trace's order, are done. It
// counts as a request of its thread, so that the thread's later requests come after it, with
// Concurrency::ahead too: there rule 1 holds for syncs alone.
//
// If several may start, the first one in the trace's order starts. A request whose thread is
// busy is overtaken, but never by requests `window` places behind it, so that the order on the disk
// stays close to the trace's. With Concurrency::serial rule 2 allows one; with Concurrency::ahead it
// allows a fixed number, rule 1 holds only for requests after a sync of the same thread, and no
// request is overtaken: the trace's order, and a device that is always busy except for syncs.
//
// Progress: with nothing in flight, rules 1 and 2 let the first waiting request start (requests that
// rule 1 waits for come before it in the trace's order, so they are in flight or done).
//
// The number in flight when r began is counted as requests come, in the order of their start: the
// requests before r that ended after r's start. The count is cut at depth_max, so the `depth_max`
// latest ends are enough.

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

// One request, or several that were joined; or a sync, which moves no bytes.
struct Transfer {
  uint64_t address = 0;   // address in the region
  uint64_t bytes = 0;     // 0 for a sync
  uint64_t start_ns = 0;  // time in the trace, since the first replayed request
  uint64_t end_ns = 0;
  uint32_t file = 0;
  int32_t thread = 0;
  Access access = Access::read;
  uint64_t order = 0;  // used by the queue

  bool is_sync() const { return bytes == 0; }
};

struct ReplayQueueOptions {
  Concurrency concurrency = Concurrency::original;
  Pace pace = Pace::fast;
  unsigned depth_max = 64;  // most requests in flight; with `ahead` their constant number
  size_t window = 256;
};

// Thread safety: none. Invariants: start() returns each added transfer once; threads_ has an entry
// for each thread with a transfer that waits or is in flight.
class ReplayQueue {
 public:
  explicit ReplayQueue(const ReplayQueueOptions& options);

  bool full() const { return waiting_.size() >= options_.window; }
  bool empty() const { return waiting_count_ == 0; }  // no transfer waits
  unsigned in_flight() const { return in_flight_; }

  // Adds a transfer, in the trace's order. REQUIRES: not full().
  void add(const Transfer& transfer);

  // Starts the next transfer that may start at `now_ns` (since the replay began; ignored at the fast
  // pace), and returns it. Returns nullopt if there is none.
  std::optional<Transfer> start(uint64_t now_ns);
  // After start() returned nullopt: the time of the next start() if no transfer ends before. nullopt
  // means that no transfer can start before another one ends.
  std::optional<uint64_t> due_ns() const { return due_ns_; }
  // Ends a transfer. REQUIRES: start() has returned it, and it has not ended yet.
  void ended(const Transfer& transfer);

 private:
  struct Waiting {
    Transfer transfer;
    uint32_t concurrent = 1;  // limit of rule 2, this one included
    bool started = false;
  };
  struct Thread {
    uint32_t waiting = 0;
    std::vector<uint64_t> flying_ends;  // ends, in the trace, of transfers in flight
    // In the current scan: the earliest end of transfers in flight or passed over.
    uint64_t scan = 0;
    uint64_t earliest_end = 0;
  };

  uint32_t concurrent_at(const Transfer& transfer);
  bool is_written_before(const Transfer& sync) const;
  bool waits_for_own_sync(const Transfer& transfer) const;

  const ReplayQueueOptions options_;
  std::deque<Waiting> waiting_;  // the first one has not started
  size_t waiting_count_ = 0;
  uint32_t concurrent_max_ = 1;  // largest `concurrent` so far
  unsigned in_flight_ = 0;
  std::unordered_map<int32_t, Thread> threads_;
  uint64_t scans_ = 0;
  std::optional<uint64_t> due_ns_;
  std::priority_queue<uint64_t, std::vector<uint64_t>, std::greater<>> ends_;  // the latest ends
  // For syncs: writes in flight, the last scan that passed over a write of each file, and, for rule
  // 1, syncs in flight.
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
