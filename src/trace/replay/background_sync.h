#pragma once

// A sync of a file that runs beside other requests.
//
// io::File::sync() blocks its caller for as long as the disk takes, milliseconds and more. The
// caller could neither start requests nor see ended ones in that time. So a thread of its own makes
// the call, and the engine's wait_any() returns when it has ended.

#include <memory>

#include "io/engine.h"
#include "penstock/base.h"

namespace penstock::trace {

// Thread safety: used by the engine's thread alone.
class BackgroundSync {
 public:
  // REQUIRES: both outlive the object, and the engine has room for one more request in flight.
  static Result<std::unique_ptr<BackgroundSync>> open(io::Engine& engine, const io::File& file);
  virtual ~BackgroundSync() = default;  // waits for the sync under way

  // Starts a sync. REQUIRES: !running().
  virtual void start() = 0;
  // Returns whether a sync was started that ended() has not reported.
  virtual bool running() const = 0;
  // Returns whether a request from wait_any() reports the end of the sync.
  virtual bool ended(const io::Request* done) = 0;
  // Returns the status of the last sync that has ended.
  virtual const Status& status() const = 0;
};

}  // namespace penstock::trace
