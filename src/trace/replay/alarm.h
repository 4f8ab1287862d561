#pragma once

// A time at which somebody who waits for requests is woken.
//
// Who has to start another request at a certain time, while some are in flight, sets an alarm: a
// thread that rings a doorbell (doorbell.h) when the time has come.

#include <chrono>
#include <memory>

#include "io/engine.h"
#include "penstock/base.h"

namespace penstock::trace {

// Thread safety: used by the thread that uses the engine. Invariants: what set() submits is
// complete at the latest when the alarm goes.
class Alarm {
 public:
  // `engine` must stay. It needs room for one more request in flight.
  static Result<std::unique_ptr<Alarm>> open(io::Engine& engine);
  virtual ~Alarm() = default;  // waits for the request, which is complete at once then

  // wait_any() gives request() at that time, or a little later. REQUIRES: !is_set().
  virtual void set(std::chrono::steady_clock::time_point time) = 0;
  // Until wait_any() has given request().
  virtual bool is_set() const = 0;
  // REQUIRES: wait_any() gave `done`. Whether it is this alarm's, which can then be set again.
  virtual bool rang(const io::Request* done) = 0;
};

}  // namespace penstock::trace
