#pragma once

// Runs read and write requests on files, several in flight, in any order of completion.
//
// A request that the system serves in part is continued until it is whole or the file ends. Direct
// requests whose offset, length or address are no multiples of the sector are served all the same
// (the unaligned rest goes through the file's buffered descriptor), so callers may pass any range;
// aligned ones are the fast ones. Requests on a stream (Kind::stream) ignore their offset and run one
// after the other in the order of submission. No request can be taken back: what a stream holds is
// read by Descriptor (descriptor.h), here only what somebody writes for sure, in one request at a time (a
// doorbell's byte); and what goes to a stream is written by its outlet (outlet.h), whose calls end.
//
// Kinds: io_uring, threads (pread/pwrite, where io_uring is refused), caller (the same, by the thread
// that uses the engine: nothing is set up, and nothing overlaps). Automatic picks io_uring when the
// kernel allows it, and the caller for so few bytes that they are there before a ring is;
// PENSTOCK_IO=threads|io_uring in the environment overrides both. Where the system has no thread to give (`ulimit -u`, a full pids
// cgroup), to us or to io_uring, and where it stops taking requests, the thread that uses the
// engine makes them itself, one after the other.
//
// Thread safety: one thread uses an engine at a time (several engines run side by side). submit,
// wait and wait_any neither allocate nor take locks that user code may hold: they may stand on the
// fault path. Invariants: every submitted request is reported exactly once, by wait() or by
// wait_any(); until then neither it nor its file may move or vanish. A child process must not use
// an engine that its parent opened.

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "io/file.h"
#include "penstock/base.h"

namespace penstock {
struct TrafficAccount;
}

namespace penstock::io {

class EngineBase;

// Requests are reads and writes. The others are calls that tests let fail as well (test_seam.h).
enum class Operation : uint8_t { read, write, sync, close, rename };
inline constexpr size_t operations = 5;

struct Request {
  Operation operation = Operation::read;
  const File* file = nullptr;
  uint64_t offset = 0;
  std::byte* data = nullptr;
  size_t bytes = 0;
  void* owner = nullptr;  // the caller's
  uint64_t tag = 0;       // the caller's
  // Set by the engine.
  size_t done_bytes = 0;   // when complete: bytes transferred; less than `bytes` only at the end of
                           // a file or on an error
  int error = 0;           // an errno, or 0
  bool in_flight = false;  // from submit() until it is complete
  struct Links {           // the engine's own
    Request* next = nullptr;
    Request* previous = nullptr;
    bool listed = false;           // complete, and not yet reported
    bool buffered = false;         // the step in flight goes through the page cache
    bool delayed = false;          // the delay of a test is in flight instead
    EngineBase* engine = nullptr;  // that an outlet tells
    TrafficAccount* traffic = nullptr;
    // On an emulated device (emulation.h): when that will have ended it; 0: on none.
    uint64_t emulated_end_ns = 0;
    bool served = false;                     // by the real one
    uint32_t first_turn = 0, last_turn = 0;  // BlockChecks::Turns
  } links = {};
};

enum class EngineKind { automatic, io_uring, threads, caller };
// "io_uring", for reports.
const char* name_of(EngineKind kind);

struct EngineOptions {
  unsigned depth = 64;  // requests in flight at most; submit() blocks beyond it
  EngineKind kind = EngineKind::automatic;
  // Of all requests together, where that is known.
  uint64_t total_bytes = UINT64_MAX;
};

// Reads and writes of a run so far, for reports: of the run that this thread works for
// (base/run_scope.h), or of all that work for none. A seek is a request that does not start where the last
// request on the same file ended; a switch one that does not start where the last request on any file
// of the run did: what one device that holds all its files would have to seek for, in the order in
// which requests were submitted.
struct Traffic {
  uint64_t bytes_read, bytes_written, requests, seeks, switches;
};
Traffic traffic();

// What is wrong with a request that has an error. Of a temporary that did not come back as it was
// written (request.error is `damaged`): where, and what to try. Of an outlet: what its sink said.
inline constexpr int damaged = EBADMSG;
Error error_of(const Request& request);
// Of a temporary of this name: what did not come back.
Error damaged_temporary(const std::string& name, uint64_t offset, uint64_t bytes);

class Engine {
 public:
  static Result<std::unique_ptr<Engine>> open(const EngineOptions& options = {});
  virtual ~Engine() = default;  // waits for what is in flight; what nobody waited for is forgotten

  virtual EngineKind kind() const = 0;
  virtual void submit(Request& request) noexcept = 0;
  // Returns when that request is complete.
  virtual void wait(Request& request) noexcept = 0;
  // The next completed request that was not waited for by name; nullptr when nothing is in flight.
  virtual Request* wait_any() noexcept = 0;
  // Submitted and not yet reported.
  virtual unsigned in_flight() const noexcept = 0;
};

// Reads or writes a range with plain calls, any alignment, through the same seam for tests. For
// small pieces.
Status read_exactly(const File& file, uint64_t offset, std::byte* data, size_t bytes);
Status write_exactly(const File& file, uint64_t offset, const std::byte* data, size_t bytes);

}  // namespace penstock::io
