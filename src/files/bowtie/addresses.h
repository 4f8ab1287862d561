#pragma once

// Addresses that are reserved for what nobody knows the length of. A process has 128 TiB of them;
// beside the shadow of a sanitizer there are a few, and under a limit (ulimit -v) a part of what it leaves.

#include <cstdint>

#include "os/limits.h"
#include "os/sanitizer.h"
#include "penstock/base.h"

namespace penstock::bowtie {

// All outputs of a pass together.
inline uint64_t outputs_address_bytes() {
  return os::addresses_for_unknown(os::shadowed ? 512 * GiB : 32 * TiB);
}
// One pipe, or one output of a pass that has no other.
inline uint64_t stream_address_bytes() {
  return outputs_address_bytes() / 2;
}

}  // namespace penstock::bowtie
