#include "sorting/scatter/kernels_tiers.h"

#if defined(__x86_64__)
#define PENSTOCK_TIER avx2
#include "sorting/scatter/kernels_impl.h"
#endif
