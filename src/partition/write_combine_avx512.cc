#if defined(__x86_64__)

#include "partition/write_combine_tiers.h"

#define PENSTOCK_TIER avx512
#include "partition/write_combine_kernel.h"

#endif
