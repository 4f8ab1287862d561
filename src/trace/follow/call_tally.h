#pragma once

// The sums of calls and their time: of each file, of all files, and of the clock.

#include <cstdint>
#include <optional>

#include "penstock/trace.h"
#include "trace/follow/busy_time.h"

namespace penstock::trace {

class CallTally {
 public:
  // `result` gets the sums of all files.
  explicit CallTally(Conversion& result) : result_(result) {}

  // Adds a call to the sums of its file, if that has any, and to those of all files: once, though it
  // is added once for each of its files.
  void add(const Event& event, CallSums* file) {
    const std::optional<CallKind> kind = kind_of(event);
    if (!kind) return;
    // io_submit() returns before its requests end: their time is not known.
    const uint64_t ns = (event.flags & flag::unconfirmed) != 0 ? 0 : event.latency_ns;
    if (file != nullptr) add(file->of(*kind), ns);
    if (last_event_ == result_.events) return;
    last_event_ = result_.events;
    add(result_.calls.of(*kind), ns);
    busy_.add(event.start_ns, event.start_ns + ns);
  }

  void finish() { result_.busy_ns = busy_.finish(); }

 private:
  static void add(CallSum& sum, uint64_t ns) {
    ++sum.calls;
    sum.ns += ns;
  }

  // Returns the kind that a call counts as; nullopt for a call that asks a file for nothing.
  static std::optional<CallKind> kind_of(const Event& event) {
    if ((event.flags & flag::failed) != 0) return CallKind::failed;
    switch (event.call) {
      case Call::read:
        return CallKind::read;
      case Call::write:
        return CallKind::write;
      case Call::copy:
        return CallKind::copy;
      case Call::sync:
        return CallKind::sync;
      case Call::open:
        return CallKind::open;
      case Call::stat:
        return CallKind::stat;
      case Call::truncate:
      case Call::allocate:
      case Call::rename:
      case Call::unlink:
      case Call::map:
        return CallKind::other;
      default:
        return {};
    }
  }

  Conversion& result_;
  BusyTime busy_;
  uint64_t last_event_ = 0;  // number of the last event in the sums of all files
};

}  // namespace penstock::trace
