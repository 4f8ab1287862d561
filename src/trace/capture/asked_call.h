#pragma once

// A captured call, or request of an io_uring: what it asks for, and the event that it is once it
// succeeded. Shared by the backends.

#include <array>
#include <cstdint>

#include "trace/calls/call_table.h"
#include "trace/format/format.h"

namespace penstock::trace {

struct SystemCall {
  uint64_t number = 0;
  std::array<uint64_t, 6> arguments{};
};

// A call as it was asked for. Numbers that lie in the program's memory are given by their
// addresses.
struct AskedCall {
  Effect effect = Effect::nothing;
  int32_t descriptor = -1;
  int32_t descriptor2 = -1;
  int32_t directory = 0;  // of path_at
  uint32_t flags = 0;     // as in Event
  uint32_t operation =
      0;  // of a ring's call, the command of fcntl and ioctl, the access of mmap, the whence of lseek
  uint64_t offset = no_offset;
  uint64_t bytes = 0;
  uint64_t offset_at = 0;     // copy: where the offset of the input stands; 0: none
  uint64_t offset2_at = 0;    // and of the output. Both are moved on by the call.
  uint64_t path_at = 0;       // rename: the new name
  uint64_t structure_at = 0;  // openat2, ring_setup, ring_register, aio_submit
};

// Says what the arguments ask for; nothing where the call is not captured, or not of interest with
// these arguments.
AskedCall decode(const SystemCall& call);

// Says what an operation of an io_uring asks for; nothing where it is not of interest. `asked` has
// its descriptor, offset and bytes; `flags` are the operation's own.
AskedCall decode_request(uint8_t operation, AskedCall asked, uint64_t flags);

// The event of a call that succeeded, as far as its arguments and its answer tell. The backends add
// what has to be found out elsewhere (which file, where a copy began, how large a file is now), the
// times, process and thread.
// REQUIRES: the effect is truncate_path, or an event.
Event event_of(const AskedCall& asked, uint64_t result);

}  // namespace penstock::trace
