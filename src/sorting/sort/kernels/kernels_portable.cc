#include "sorting/sort/kernels/kernels_tiers.h"

#define PENSTOCK_TIER portable
#include "sorting/sort/kernels/kernels_impl.h"
