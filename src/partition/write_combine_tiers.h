#pragma once

#include "partition/write_combine.h"

// The kernels of each instruction set; write_combine.cc chooses.
#define PENSTOCK_DECLARE_KERNELS(tier)                                              \
  namespace penstock::partition_internal::tier {                                    \
  Combine<uint32_t> kernel_u32(BucketFunction::Kind kind, LineBytes line_bytes);    \
  Combine<uint64_t> kernel_u64(BucketFunction::Kind kind, LineBytes line_bytes);    \
  Combine<KeyValue32> kernel_kv32(BucketFunction::Kind kind, LineBytes line_bytes); \
  Combine<KeyValue64> kernel_kv64(BucketFunction::Kind kind, LineBytes line_bytes); \
  }

PENSTOCK_DECLARE_KERNELS(portable)
PENSTOCK_DECLARE_KERNELS(avx512)
#undef PENSTOCK_DECLARE_KERNELS
