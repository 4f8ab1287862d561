#pragma once

// A doorbell by which another thread ends a wait for requests.
//
// io::Engine::wait_any() returns when a request is complete, and not before. A doorbell is a
// request that completes when a thread rings: a read of one byte from a pipe, into which ring()
// writes. So it works with every engine, without support by the engine.
//
// On an emulated device it may come as late as the end of the oldest request in flight, for which
// an engine sleeps. The emulated device loses nothing by that: it is busy until then.

#include <memory>

#include "io/engine.h"
#include "io/file.h"
#include "os/fd.h"
#include "penstock/base.h"

namespace penstock::trace {

// Thread safety: used by the engine's thread alone, except ring(). Invariant: each set() is
// followed by a ring().
class Doorbell {
 public:
  // REQUIRES: `engine` outlives the doorbell, and has room for one more request in flight.
  static Result<std::unique_ptr<Doorbell>> open(io::Engine& engine);
  // REQUIRES: the bell was rung as often as it was set.
  ~Doorbell();
  Doorbell(const Doorbell&) = delete;
  Doorbell& operator=(const Doorbell&) = delete;

  // Makes wait_any() return the bell's request after a ring. REQUIRES: !is_set().
  void set();
  // Returns whether the bell is set and wait_any() has not returned its request.
  bool is_set() const { return is_set_; }
  // Returns whether a request from wait_any() is the bell's, which can then be set again.
  bool rang(const io::Request* done);

  // Rings the bell. REQUIRES: one call for each set(), at or after it. Thread safety: any thread.
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
