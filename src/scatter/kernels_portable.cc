#include "scatter/kernels_tiers.h"

#define PENSTOCK_TIER portable
#include "scatter/kernels_impl.h"
