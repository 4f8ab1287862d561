#pragma once

// Conversion of the kernel programs' records to events, for capture_bpf.cc.

#include <cstddef>
#include <memory>
#include <span>

#include "trace/capture/bpf/records.h"
#include "trace/capture/recorder.h"

namespace penstock::trace {

struct FollowerOptions {
  bool running = false;    // the program already runs
  bool sees_rings = true;  // requests of io_urings have records
};

// Thread safety: none.
class RecordFollower {
 public:
  RecordFollower(Recorder& recorder, const FollowerOptions& options);
  ~RecordFollower();
  RecordFollower(const RecordFollower&) = delete;
  RecordFollower& operator=(const RecordFollower&) = delete;

  // Adds a record, in the order of the ring. REQUIRES: it has the length of its kind.
  void add(std::span<const std::byte> record);
  // Ends the records, and adds the kernel's counters.
  void finish(const kernel::Counters& counted);
  // Returns whether the program was seen to run.
  bool has_run() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace penstock::trace
