#pragma once

// The seam: every read and write of this layer, from whichever engine, is cut into steps here, and
// every answer of the system comes back here. A step is one system call. The faults of tests enter
// only here (test_seam.h).
//
// Cutting a request. Only whole sectors inside its range go direct, and only if the memory at them
// is aligned as well; the rest in front and behind goes through the buffered descriptor. So
//   - a direct write never touches a page with dirty buffered data of the same request, and two
//     requests that share a page at their unaligned ends both write it through the page cache,
//     which keeps them coherent;
//   - a direct transfer that stops early, even inside a sector, is continued by a buffered step up
//     to the next sector, and direct from there.
// The only state of a request between steps is done_bytes.

#include <cstdint>
#include <span>

#include "base/run_scope.h"
#include "io/engine.h"

namespace penstock::io {

struct Step {
  Operation operation;
  int descriptor;
  uint64_t offset;  // ~0: the stream's current position
  std::byte* data;
  size_t bytes;
  uint32_t delay_us;  // injected by a test: to wait before the call
  int error;          // injected by a test: result without making the call
};

inline constexpr uint64_t stream_position = ~uint64_t{0};

// REQUIRES: the request is not complete.
Step next_step(Request& request) noexcept;

// Takes the system's answer (bytes, or a negative errno) to the request's last step. Returns true
// if the request is now complete.
bool absorb(Request& request, int64_t result) noexcept;

// Makes the step's call in this thread, after its delay.
int64_t perform(const Step& step) noexcept;

// Makes all calls of the request in this thread.
void make_calls(Request& request) noexcept;
// Returns the outlet of a write to a stream; nullptr otherwise.
Outlet* outlet_of(const Request& request) noexcept;

// Makes one read of a Descriptor, at stream_position or an offset: bytes, or a negative errno.
int64_t read_some(int descriptor, uint64_t offset, std::span<std::byte> into) noexcept;
// Returns how many bytes a write may have, or a negative errno instead of the call.
int64_t disturbed_write(size_t bytes) noexcept;

// Sets up a request's own fields and counts it. The account outlives the request's last step.
void begin(Request& request, TrafficAccount& traffic) noexcept;
// Ends a request: compares the bytes read from a temporary with the checks.
void end(Request& request) noexcept;

// Calls that make an output durable. They return 0, or -1 and errno, like the system's.
int sync_data(int descriptor) noexcept;    // fdatasync
int sync_folder(int descriptor) noexcept;  // fsync
int close_written(int descriptor) noexcept;
int rename_written(const char* from, const char* to) noexcept;
int link_written(const char* from, const char* to) noexcept;  // linkat; follows `from`

}  // namespace penstock::io
