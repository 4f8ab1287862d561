#include "sorting/scatter/kernels_tiers.h"

#define PENSTOCK_TIER portable
#include "sorting/scatter/kernels_impl.h"
