#pragma once

// Brings a file to the disk beside requests that go on.
//
// io::File::sync() keeps its caller for as long as the disk takes, milliseconds and more. Who has
// requests in flight would start nothing in that time and hear of nothing that has ended. Here a
// thread of its own makes the call, and the engine's wait_any() tells when it is done.

#include <memory>

#include "io/engine.h"
#include "penstock/base.h"

namespace penstock::trace {

// Thread safety: used by the thread that uses the engine.
class BackgroundSync {
 public:
  // Both must stay. The engine needs room for one more request in flight.
  static Result<std::unique_ptr<BackgroundSync>> open(io::Engine& engine, const io::File& file);
  virtual ~BackgroundSync() = default;  // waits for the sync under way

  // REQUIRES: !running().
  virtual void start() = 0;
  // Until wait_any() has given what ended() knows.
  virtual bool running() const = 0;
  // REQUIRES: wait_any() gave `done`. Whether it says that the sync has ended.
  virtual bool ended(const io::Request* done) = 0;
  // Of the last one that has ended.
  virtual const Status& status() const = 0;
};

}  // namespace penstock::trace
