#pragma once

// The seam: every read and write of this layer, whichever engine makes it, is cut into steps here,
// and every answer of the system comes back here. A step is one system call. The faults of tests
// enter at this one place (test_seam.h).
//
// How a request is cut. Only whole sectors inside its range go direct, and only when the memory at
// them is aligned as well; what is left over in front and behind goes through the buffered
// descriptor. So
//   - a page with dirty buffered data is never touched by a direct write of the same request, and
//     two requests that share a page at their unaligned ends both write it through the page cache,
//     which keeps them coherent;
//   - a direct transfer that stops early, even inside a sector, is continued by a buffered step up
//     to the next sector, and direct from there.
// The state of a request between steps is done_bytes alone.

#include <cstdint>
#include <span>

#include "base/run_scope.h"
#include "io/engine.h"

namespace penstock::io {

struct Step {
  Operation operation;
  int descriptor;
  uint64_t offset;  // ~0: the stream's own position
  std::byte* data;
  size_t bytes;
  uint32_t delay_us;  // of a test: to be spent before the call
  int error;          // of a test: the call's answer, without making it
};

inline constexpr uint64_t stream_position = ~uint64_t{0};

// REQUIRES: the request is not complete.
Step next_step(Request& request) noexcept;

// What the system answered (bytes, or a negative errno) to the request's last step. True when the
// request is now complete.
bool absorb(Request& request, int64_t result) noexcept;

// Makes the step's call in this thread, its delay included.
int64_t perform(const Step& step) noexcept;

// All calls of the request, in this thread.
void make_calls(Request& request) noexcept;
// Where what it writes goes in order; nullptr: it does not.
Outlet* outlet_of(const Request& request) noexcept;

// One call of a Descriptor: bytes, or a negative errno. `offset`: stream_position, or of a file.
int64_t read_some(int descriptor, uint64_t offset, std::span<std::byte> into) noexcept;
// Of one that writes: how much the call may have, or a negative errno instead of the call.
int64_t disturbed_write(size_t bytes) noexcept;

// Sets up a request's own fields and counts it. The account outlives the request's last step.
void begin(Request& request, TrafficAccount& traffic) noexcept;
// All of it is done: what was read of a temporary is held against what was written.
void end(Request& request) noexcept;

// What makes an output last. As the system's calls of these names: 0, or -1 and errno.
int sync_data(int descriptor) noexcept;    // fdatasync
int sync_folder(int descriptor) noexcept;  // fsync
int close_written(int descriptor) noexcept;
int rename_written(const char* from, const char* to) noexcept;
int link_written(const char* from, const char* to) noexcept;  // linkat, `from` followed

}  // namespace penstock::io
