#include "sorting/scatter/kernels_tiers.h"

#if defined(__x86_64__)
#define PENSTOCK_TIER avx512
#include "sorting/scatter/kernels_impl.h"
#endif
