#pragma once

// Address space for streams of unknown length. A process has 128 TiB of addresses; a sanitizer's
// shadow leaves a few of them, and under a limit (ulimit -v) only a part of the limit is used.

#include <cstdint>

#include "os/limits.h"
#include "os/sanitizer.h"
#include "penstock/base.h"

namespace penstock::bowtie {

// Bytes of addresses for all outputs of a pass together.
inline uint64_t outputs_address_bytes() {
  return os::addresses_for_unknown(os::shadowed ? 512 * GiB : 32 * TiB);
}
// Bytes of addresses for one pipe, or for one output of a pass whose only output it is.
inline uint64_t stream_address_bytes() {
  return outputs_address_bytes() / 2;
}

}  // namespace penstock::bowtie
