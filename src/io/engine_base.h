#pragma once

// The common part of the engines: requests in flight, complete requests, and requests to outlets.
//
// An engine implements start() (begin the next step of a request) and reap() (block until something
// has come back), and calls finished() when a request is complete. A write to a stream goes to its
// outlet instead, whose thread calls served().
//
// If the system refuses an engine's resources, its user's thread serves requests (serve_here).
//
// While a device is emulated (emulation.h), a request that the real device has served stays in
// flight until the emulated one has ended it: those in front are complete and its time has come.
//
// Invariants: active_ counts requests that are not complete; on_emulated_ holds all requests in
// flight that an emulated device has to end, in that order; completed_ holds complete ones to
// report.

#include <vector>

#include "base/run_scope.h"
#include "io/engine.h"

namespace penstock::io {

class Outlet;

// A list of requests, linked through Request::links.
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

  // Called by an outlet's thread when it has served the request; it uses neither afterwards. reap()
  // gets it.
  virtual void served(Request& request) noexcept = 0;

 protected:
  explicit EngineBase(unsigned depth);

  // Begins the request. May call finished() if it is complete at once.
  virtual void start(Request& request) noexcept = 0;
  // Hands the request to the outlet. Returns false if it must be served here.
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
  const RunState run_ = current_run();  // keeps the account alive
  TrafficAccount& traffic_ = current_traffic();
  unsigned active_ = 0;
  unsigned unreported_ = 0;
  RequestList completed_;
  std::vector<Request*> on_emulated_;  // in the order of submission; at most depth_, reserved
};

// Open an engine of a kind; fail if the system refuses it.
Result<std::unique_ptr<Engine>> open_uring_engine(unsigned depth);
Result<std::unique_ptr<Engine>> open_thread_engine(unsigned depth);
Result<std::unique_ptr<Engine>> open_caller_engine(unsigned depth);

}  // namespace penstock::io
