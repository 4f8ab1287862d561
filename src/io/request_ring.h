#pragma once

// A fixed number of requests with the engine that serves them: read-ahead and write-behind.
//
// Reading and working in turns lets the disk rest while the caller works. A caller of a ring keeps
// it full, takes a completed request, and submits the next:
//
//   while (more || !ring.idle()) {
//     if (more && !ring.full()) {
//       ring.submit({.operation = Operation::read, .file = &file, .offset = …,
//                    .data = ring.next_buffer(), .bytes = …});
//       continue;
//     }
//     const Request& done = ring.wait_oldest();   // or wait_any()
//     if (Status status = ring.status(); !status) return status;
//     use(done.data, done.done_bytes);            // it is intact until the next submit()
//   }
//
// One queue of slots serves both orders. submit() takes the slot at `begun`; a wait stores the slot
// that ended at `ended`:
//
//        ended              begun           ended + depth
//          |   in flight      |     free      |
//
// wait_oldest() alone leaves the queue as it is: the slots are used in turn, each with its buffer.
// wait_any() overwrites places of slots in flight, so that wait_oldest() may not follow before the
// ring is idle.
//
// Errors. status() returns the first failure that a wait has met: a request with an error, or a
// write that ends early. A read that ends early has met the end of its file, and its caller judges
// done_bytes. After a failure submit() does nothing, so that a caller that cannot stop at once can
// continue and check status() later.
//
// Buffers begin at sectors, on huge pages if the requests fill one, and are charged to the run. A
// ring without buffers serves requests on memory of the caller.
//
// Thread safety: one thread at a time; it may change. Invariants: begun_ - ended_ requests are in
// flight; the free slots are queue_[begun_ .. ended_ + depth), modulo depth; submit() does not
// allocate.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "io/engine.h"
#include "os/memory.h"
#include "penstock/base.h"

namespace penstock::io {

struct RequestRingOptions {
  unsigned depth = 1;       // the most requests in flight
  size_t buffer_bytes = 0;  // the size of each request's buffer, in whole sectors; 0: no buffers
  uint64_t total_bytes = UINT64_MAX;  // the sum of all requests, if it is known
  EngineKind kind = EngineKind::automatic;
  // Text of an error about memory.
  const char* subject = "requests";
  const char* hint = "";
};

class RequestRing {
 public:
  RequestRing() = default;
  RequestRing(const RequestRing&) = delete;
  RequestRing& operator=(const RequestRing&) = delete;

  // REQUIRED before next_buffer() and submit().
  Status open(const RequestRingOptions& options);
  bool is_open() const { return engine_ != nullptr; }

  unsigned in_flight() const { return static_cast<unsigned>(begun_ - ended_); }
  bool idle() const { return in_flight() == 0; }
  // A ring that is not open is idle, and never full.
  bool full() const { return !idle() && in_flight() == queue_.size(); }
  // The buffer of the request that is submitted next. REQUIRES: !full().
  std::byte* next_buffer() const;
  // All buffers, one behind the other.
  std::span<std::byte> buffers() const { return {buffers_.begin(), buffers_.bytes()}; }
  // REQUIRES: !full().
  void submit(const Request& request);

  // The request that was submitted first, or the one that ends first; it is intact until the next
  // submit(). REQUIRES: !idle().
  const Request& wait_oldest();
  const Request& wait_any();
  // Waits until the ring is idle, and returns status().
  Status wait_all();
  // The first failure that a wait has met.
  Status status() const;

 private:
  const Request& take(Request& request);

  size_t buffer_bytes_ = 0;
  os::Reservation buffers_;
  std::vector<Request> slots_;
  std::vector<Request*> queue_;
  uint64_t begun_ = 0, ended_ = 0;
  std::optional<Error> error_;
  std::unique_ptr<Engine> engine_;  // destroyed first: it waits for requests in flight
};

// Reads the bytes [begin, end) of a file, a few pieces ahead, and calls use(offset, bytes) with one
// piece after the other. Errors: those of the file and of `use`; io if the file ends before.
// REQUIRES: `piece_bytes` are whole sectors.
Status read_ahead(const File& file, uint64_t begin, uint64_t end, size_t piece_bytes,
                  const std::function<Status(uint64_t, std::span<const std::byte>)>& use);

}  // namespace penstock::io
