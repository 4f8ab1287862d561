#pragma once

// Decoding of a captured call, or of a request of an io_uring, and its event after it succeeded.
// All backends use it.

#include <array>
#include <cstdint>

#include "trace/calls/call_table.h"
#include "trace/format/format.h"

namespace penstock::trace {

struct SystemCall {
  uint64_t number = 0;
  std::array<uint64_t, 6> arguments{};
};

// The decoded arguments of a call. Numbers in the program's memory are represented by their
// addresses.
struct DecodedCall {
  Effect effect = Effect::nothing;
  int32_t descriptor = -1;
  int32_t descriptor2 = -1;
  int32_t directory = 0;  // descriptor at which path_at begins
  uint32_t flags = 0;     // flags of Event
  uint32_t operation =
      0;  // operation of a ring, command of fcntl and ioctl, access of mmap, whence of lseek
  uint64_t offset = no_offset;
  uint64_t bytes = 0;
  uint64_t offset_at = 0;     // copy: address of the input's offset, which moves on; 0: none
  uint64_t offset2_at = 0;    // copy: likewise for the output
  uint64_t path_at = 0;       // rename: the new name
  uint64_t structure_at = 0;  // openat2, ring_setup, ring_register, aio_submit
};

// Decodes a call. Effect::nothing: it is not captured, or not relevant with these arguments.
DecodedCall decode(const SystemCall& call);

// Decodes an operation of an io_uring. The effect is `nothing` if it is not relevant. `decoded` has
// its descriptor, offset and bytes; `flags` are the operation's own.
DecodedCall decode_request(uint8_t operation, DecodedCall decoded, uint64_t flags);

// Returns the event of a call that succeeded, as far as it follows from arguments and result. The
// backends add the file, the offsets of a copy, the size of a file, the times, process and thread.
// REQUIRES: the effect is truncate_path, or an event.
Event event_of(const DecodedCall& decoded, uint64_t result);

}  // namespace penstock::trace
