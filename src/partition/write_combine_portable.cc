#include "partition/write_combine_tiers.h"

#define PENSTOCK_TIER portable
#include "partition/write_combine_kernel.h"
