#include "sort/kernels/kernels_tiers.h"

#define PENSTOCK_TIER portable
#include "sort/kernels/kernels_impl.h"
