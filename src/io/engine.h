#pragma once

// Runs read and write requests on files, several in flight, in any order of completion.
//
// A request that the system serves in part is continued until it is complete or the file ends.
// Callers may pass any range: if the offset, length or address of a direct request is no multiple
// of the sector, the unaligned rest goes through the file's buffered descriptor; aligned requests
// are the fast ones. Requests on a stream (Kind::stream) ignore their offset and run one after the
// other in the order of submission. No request can be taken back. So Descriptor (descriptor.h)
// reads streams; an engine only reads bytes that are sure to come, in one request at a time (a
// doorbell's byte). An outlet (outlet.h), whose calls can be ended, writes to streams.
//
// Kinds: io_uring; threads (pread/pwrite, if io_uring is refused); caller (the same, in the thread
// that uses the engine: nothing is set up, and nothing overlaps). Automatic picks io_uring if the
// kernel allows it, and the caller for so few bytes that they are transferred before a ring is set
// up; PENSTOCK_IO=threads|io_uring in the environment overrides both. If the system refuses threads
// to us or to io_uring (`ulimit -u`, a full pids cgroup), or stops taking requests, the thread that
// uses the engine makes them itself, one after the other.
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

// The operations of requests are read and write. Tests also make the others fail (test_seam.h).
enum class Operation : uint8_t { read, write, sync, close, rename };
inline constexpr size_t operations = 5;

struct Request {
  Operation operation = Operation::read;
  const File* file = nullptr;
  uint64_t offset = 0;
  std::byte* data = nullptr;
  size_t bytes = 0;
  void* owner = nullptr;  // for the caller
  uint64_t tag = 0;       // for the caller
  // Set by the engine.
  // Bytes transferred when complete; less than `bytes` only at the end of a file or after an error.
  size_t done_bytes = 0;
  int error = 0;           // an errno, or 0
  bool in_flight = false;  // from submit() until it is complete
  struct Links {           // for the engine
    Request* next = nullptr;
    Request* previous = nullptr;
    bool listed = false;           // complete, and not yet reported
    bool buffered = false;         // the step in flight goes through the page cache
    bool delayed = false;          // an injected delay is in flight instead
    EngineBase* engine = nullptr;  // to be notified by an outlet
    TrafficAccount* traffic = nullptr;
    // The end on an emulated device (emulation.h); 0: no device.
    uint64_t emulated_end_ns = 0;
    bool served = false;                           // the real device has ended it
    uint32_t first_read_id = 0, last_read_id = 0;  // BlockChecks::PartialReadIds
  } links = {};
};

enum class EngineKind { automatic, io_uring, threads, caller };
// Returns "io_uring" and the like, for reports.
const char* name_of(EngineKind kind);

struct EngineOptions {
  unsigned depth = 64;  // most requests in flight; submit() blocks beyond it
  EngineKind kind = EngineKind::automatic;
  // The sum of all requests, if it is known.
  uint64_t total_bytes = UINT64_MAX;
};

// Reads and writes so far, for reports: of this thread's run (base/run_scope.h), or of all threads
// without a run. A seek is a request that does not start where the last request on the same file
// ended. A switch is one that does not start where the run's last request on any file ended: a seek
// of a single device that holds all its files, in the order of submission.
struct Traffic {
  uint64_t bytes_read, bytes_written, requests, seeks, switches;
};
Traffic traffic();

// Returns the error of a failed request. For a damaged temporary (request.error is `damaged`) it
// tells the place and what to try; for an outlet it is the sink's error.
inline constexpr int damaged = EBADMSG;
Error error_of(const Request& request);
// Returns the error of a temporary with damaged bytes.
Error damaged_temporary(const std::string& name, uint64_t offset, uint64_t bytes);

class Engine {
 public:
  static Result<std::unique_ptr<Engine>> open(const EngineOptions& options = {});
  virtual ~Engine() = default;  // waits for requests in flight, and drops unreported ones

  virtual EngineKind kind() const = 0;
  virtual void submit(Request& request) noexcept = 0;
  // Returns when the request is complete.
  virtual void wait(Request& request) noexcept = 0;
  // Returns the next completed request that no wait() took; nullptr if nothing is in flight.
  virtual Request* wait_any() noexcept = 0;
  // Returns the number of requests that are submitted and not yet reported.
  virtual unsigned in_flight() const noexcept = 0;
};

// Read or write a small range of any alignment with plain calls, through the seam for tests.
Status read_exactly(const File& file, uint64_t offset, std::byte* data, size_t bytes);
Status write_exactly(const File& file, uint64_t offset, const std::byte* data, size_t bytes);

}  // namespace penstock::io
