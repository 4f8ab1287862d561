#pragma once

// A time at which somebody who waits for requests is woken.
//
// Engine::wait_any() returns when a request is complete, and not before. Who has to start another
// one at a certain time, while some are in flight, sets an alarm: a request on the engine that is
// complete at that time. It is a read of one byte from a pipe, into which a thread writes when the
// time has come; so it wakes every engine, with nothing of its own inside of them.
//
// On an emulated device the alarm may come as late as the end of the oldest request in flight, for
// which an engine sleeps. The emulated device loses nothing by that: it is busy until then.

#include <chrono>
#include <memory>

#include "file/engine.h"
#include "penstock/error.h"

namespace penstock::file {

// Thread safety: used by the thread that uses the engine. Invariants: what set() submits is
// complete at the latest when the alarm goes.
class Alarm {
 public:
  // `engine` must stay. It needs room for one more request in flight.
  static Result<std::unique_ptr<Alarm>> open(Engine& engine);
  virtual ~Alarm() = default;  // waits for the request, which is complete at once then

  // wait_any() gives request() at that time, or a little later. REQUIRES: !is_set().
  virtual void set(std::chrono::steady_clock::time_point time) = 0;
  // Until wait_any() has given request().
  virtual bool is_set() const = 0;
  // REQUIRES: wait_any() gave `done`. Whether it is this alarm's, which can then be set again.
  virtual bool rang(const Request* done) = 0;
};

}  // namespace penstock::file
