#pragma once

// What both engines share: who is in flight, who is complete, and what goes to an outlet.
//
// An engine's own part is start() (begin the next step of a request) and reap() (block until
// something has come back). What comes back is told to finished() when the request is complete. What is
// written to a stream goes to its outlet instead, whose thread tells served().
//
// Where the system refuses what an engine is made of, its user's thread serves requests itself
// (serve_here).
//
// While a device is emulated (emulation.h), a request that the real one has served is not complete
// before the emulated one has: it stays in flight until those in front of it are complete and its
// time has come.
//
// Invariants: active_ counts requests that are not complete; on_emulated_ holds all requests in flight
// that an emulated device has to end, in that order; completed_ holds what is complete and not
// reported.

#include <vector>

#include "base/run_scope.h"
#include "io/engine.h"

namespace penstock::io {

class Outlet;

// Requests in a row, linked through Request::links.
class RequestList {
 public:
  bool empty() const { return first_ == nullptr; }
  void push_back(Request& request) noexcept;
  void remove(Request& request) noexcept;
  Request* pop_front() noexcept;

 private:
  Request* first_ = nullptr;
  Request* last_ = nullptr;
};

class EngineBase : public Engine {
 public:
  void submit(Request& request) noexcept final;
  void wait(Request& request) noexcept final;
  Request* wait_any() noexcept final;
  unsigned in_flight() const noexcept final { return active_ + unreported_; }

  // From an outlet's thread: it has served the request, and uses neither again. reap() then has it.
  virtual void served(Request& request) noexcept = 0;

 protected:
  explicit EngineBase(unsigned depth);

  // Begins the request. When it is complete at once, finished() may be called from inside.
  virtual void start(Request& request) noexcept = 0;
  // Gives the request to the outlet. False: it must be served here.
  virtual bool push(Outlet& outlet, Request& request) noexcept;
  // Blocks until a request that was started or pushed has made progress. REQUIRES: there is one.
  virtual void reap() noexcept = 0;

  void finished(Request& request) noexcept;
  // Makes the request's calls in this thread.
  void serve_here(Request& request) noexcept;
  void drain() noexcept;  // for the destructors

 private:
  void advance() noexcept;
  void report(Request& request) noexcept;

  const unsigned depth_;
  const RunState run_ = current_run();  // keeps the account
  TrafficAccount& traffic_ = current_traffic();
  unsigned active_ = 0;
  unsigned unreported_ = 0;
  RequestList completed_;
  std::vector<Request*> on_emulated_;  // in the order of submission; at most depth_, reserved
};

// The kinds. Fails when the system refuses.
Result<std::unique_ptr<Engine>> open_uring_engine(unsigned depth);
Result<std::unique_ptr<Engine>> open_thread_engine(unsigned depth);
Result<std::unique_ptr<Engine>> open_caller_engine(unsigned depth);

}  // namespace penstock::io
