#pragma once

// Wakes who waits for requests, from another thread.
//
// io::Engine::wait_any() returns when a request is complete, and not before. A doorbell is a request on
// the engine that is complete when somebody rings: a read of one byte from a pipe, into which
// ring() writes. So it wakes every engine, with nothing of its own inside of them.
//
// On an emulated device it may come as late as the end of the oldest request in flight, for which
// an engine sleeps. The emulated device loses nothing by that: it is busy until then.

#include <memory>

#include "io/engine.h"
#include "io/file.h"
#include "os/fd.h"
#include "penstock/base.h"

namespace penstock::trace {

// Thread safety: used by the thread that uses the engine; ring() is another one's. Invariant: who
// has set it is going to be rung.
class Doorbell {
 public:
  // `engine` must stay. It needs room for one more request in flight.
  static Result<std::unique_ptr<Doorbell>> open(io::Engine& engine);
  // REQUIRES: it has been rung as often as it was set.
  ~Doorbell();
  Doorbell(const Doorbell&) = delete;
  Doorbell& operator=(const Doorbell&) = delete;

  // wait_any() gives its request once it has been rung. REQUIRES: !is_set().
  void set();
  // Until wait_any() has given the request.
  bool is_set() const { return is_set_; }
  // REQUIRES: wait_any() gave `done`. Whether it is this one's, which can then be set again.
  bool rang(const io::Request* done);

  // Once for each set(), at or after it. Thread safety: any thread.
  void ring() const;

 private:
  explicit Doorbell(io::Engine& engine) : engine_(engine) {}

  io::Engine& engine_;
  io::File read_end_;
  os::Fd write_end_;
  io::Request request_;
  std::byte byte_{};
  bool is_set_ = false;
};

}  // namespace penstock::trace
