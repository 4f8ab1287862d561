#pragma once

// What the programs in the kernel have written down, made into events (capture_bpf.cc).

#include <cstddef>
#include <memory>
#include <span>

#include "trace/capture/bpf/records.h"
#include "trace/capture/recorder.h"

namespace penstock::trace {

struct FollowerOptions {
  bool running = false;    // the program runs already
  bool sees_rings = true;  // requests of io_urings have records
};

// Thread safety: none.
class RecordFollower {
 public:
  RecordFollower(Recorder& recorder, const FollowerOptions& options);
  ~RecordFollower();
  RecordFollower(const RecordFollower&) = delete;
  RecordFollower& operator=(const RecordFollower&) = delete;

  // One record, in the order in which they were written. REQUIRES: as long as its kind says.
  void take(std::span<const std::byte> record);
  // There are no more: what was counted beside them.
  void finish(const kernel::Counters& counted);
  // Whether the program was seen to run.
  bool has_run() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace penstock::trace
