#pragma once

// An alarm that ends a wait for requests at a given time.
//
// The next request may have to start at a certain time, while others are in flight. An alarm is a
// thread that rings a doorbell (doorbell.h) at that time.

#include <chrono>
#include <memory>

#include "io/engine.h"
#include "penstock/base.h"

namespace penstock::trace {

// Thread safety: used by the engine's thread alone. Invariants: the request of set() is complete at
// the latest when the destructor returns.
class Alarm {
 public:
  // REQUIRES: `engine` outlives the alarm, and has room for one more request in flight.
  static Result<std::unique_ptr<Alarm>> open(io::Engine& engine);
  virtual ~Alarm() = default;  // ends the request at once, and waits for it

  // Makes wait_any() return the alarm's request at that time, or a little later. REQUIRES: !is_set().
  virtual void set(std::chrono::steady_clock::time_point time) = 0;
  // Returns whether the alarm is set and wait_any() has not returned its request.
  virtual bool is_set() const = 0;
  // Returns whether a request from wait_any() is the alarm's, which can then be set again.
  virtual bool rang(const io::Request* done) = 0;
};

}  // namespace penstock::trace
