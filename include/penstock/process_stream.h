#pragma once

// A RemapStream whose producer and consumer are different processes, each with a plain pointer of
// its own. Either may die at any moment: the other one then meets an error where it would have
// waited, and never waits for ever.
//
//   auto stream = penstock::ProcessStream::create({.bytes = 10 * penstock::TiB}, Side::producer);
//   // the other process, which has got stream->fd() by inheritance or over a socket (SCM_RIGHTS):
//   auto other = penstock::ProcessStream::attach(fd, Side::consumer);
//
// Reading, writing, jumping, coming back (L and M), finishing and failing are as in
// penstock/remap_stream.h. The blocks are pages of a memory file that both processes map; no bytes
// are copied, and the system frees them when both are gone, however they went.
//
// After fork() the child cannot use its parent's streams: it attaches on its own. A process that
// calls exec() without closing its stream counts as running until the new program ends. Both
// processes must see each other's numbers (one pid namespace).

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "penstock/error.h"
#include "penstock/error_policy.h"
#include "penstock/side.h"
#include "penstock/units.h"

namespace penstock {

namespace stream {
class ProcessStreamCore;
}

// Memory: read_ahead + producer_comeback + consumer_comeback + 1 blocks for both processes
// together. Thread safety: as RemapStream: several threads of a process may share its side.
class ProcessStream {
 public:
  using Side = penstock::Side;

  struct Options {
    uint64_t bytes = 0;  // the longest that the stream may become: address space, not memory
    size_t block_bytes = 4 * MiB;           // a power of two, at least 4 KiB
    uint32_t read_ahead_blocks = 1;         // N
    uint32_t producer_comeback_blocks = 1;  // L
    uint32_t consumer_comeback_blocks = 1;  // M
    // What this side does when the other one fails or dies. attach() has its own.
    ErrorPolicy policy = ErrorPolicy::stop;
    // How long an access waits for a process that attaches; the other side counts as failed after
    // that. 0: for ever.
    uint32_t attach_ms_max = 0;
    bool strict = false;                // of this side: finds every breach of L and M (slower)
    std::string name = "process pipe";  // for messages, of both sides; the first 63 bytes
  };
  struct AttachOptions {
    ErrorPolicy policy = ErrorPolicy::stop;
    bool strict = false;
  };

  // Makes a stream, of which this process is one side.
  static Result<ProcessStream> create(const Options& options, Side side);
  // Becomes the other side of the stream behind `fd`, which is not used any more afterwards.
  // Errors: invalid_argument when it is no such stream, or the side is taken; cancelled when the
  // process that made it has ended, or does not wait any more (attach_ms_max).
  static Result<ProcessStream> attach(int fd, Side side, const AttachOptions& options);
  static Result<ProcessStream> attach(int fd, Side side) { return attach(fd, side, {}); }
  ProcessStream(ProcessStream&&) noexcept;
  ProcessStream& operator=(ProcessStream&&) noexcept;
  // A producer that has not finished fails, a consumer cancels.
  ~ProcessStream();

  // The descriptor for the other process; closed on exec, and by the destructor.
  int fd() const;
  Side side() const;

  // ---- the producer. REQUIRES: side() == Side::producer.
  template <class T = char>
  T* writer() const {
    return reinterpret_cast<T*>(address());
  }
  Status prepare_write(const void* address, size_t bytes);
  Status finish(uint64_t bytes);

  // ---- the consumer. REQUIRES: side() == Side::consumer.
  template <class T = char>
  T* reader() const {
    return reinterpret_cast<T*>(address());
  }
  Status prepare_read(const void* address, size_t bytes);
  Result<uint64_t> wait_ready(uint64_t offset);

  // ---- both
  void fail(Error error);  // this side gives up; the message's first 255 bytes reach the other
  void cancel();
  Status status() const;  // the error with which a side gave up or died, or ok
  uint64_t memory_bytes() const;

 private:
  explicit ProcessStream(std::unique_ptr<stream::ProcessStreamCore> core);
  std::byte* address() const;

  std::unique_ptr<stream::ProcessStreamCore> core_;
};

}  // namespace penstock
