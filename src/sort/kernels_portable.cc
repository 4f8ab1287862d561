#include "sort/kernels_tiers.h"

#define PENSTOCK_TIER portable
#include "sort/kernels_impl.h"
