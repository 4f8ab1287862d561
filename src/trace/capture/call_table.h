#pragma once

// Which system calls are of interest, and what their arguments say. Shared by the backends: each
// sees a number and six registers.

#include <array>
#include <cstdint>
#include <span>

#include "trace/format/format.h"

namespace penstock::trace {

struct SystemCall {
  uint64_t number = 0;
  std::array<uint64_t, 6> arguments{};
};

enum class Asked : uint8_t {
  nothing,  // of interest
  open,
  close,
  close_range,
  duplicate,
  set_flags,
  read,
  write,
  seek,
  copy,
  truncate,       // by descriptor
  truncate_path,  // by name
  allocate,
  sync,
  rename,
  unlink,
  map,
  ring_setup,
  ring_enter,
  ring_register,
  aio_submit,
};

// What a call asks for. Numbers that lie in the program's memory are given by their addresses.
struct AskedCall {
  Asked what = Asked::nothing;
  int32_t descriptor = -1;
  int32_t descriptor2 = -1;
  int32_t directory = 0;   // of path_at
  uint32_t flags = 0;      // as in Event
  uint32_t operation = 0;  // of ring_register
  uint64_t offset = no_offset;
  uint64_t bytes = 0;
  uint64_t offset_at = 0;     // copy: where the offset of the input stands; 0: none
  uint64_t offset2_at = 0;    // and of the output. Both are moved on by the call.
  uint64_t path_at = 0;       // rename: the new name
  uint64_t structure_at = 0;  // openat2, ring_setup, ring_register, aio_submit
};

AskedCall decode(const SystemCall& call);

// The numbers that decode() knows. Some are of interest with certain arguments alone: see
// watch_program().
std::span<const uint32_t> watched_numbers();

// "The current directory", where a descriptor of a directory is meant.
extern const int32_t current_directory;

}  // namespace penstock::trace
