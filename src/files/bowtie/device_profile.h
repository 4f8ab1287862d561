#pragma once

// The model's description of a device: penstock/disk.h, under the names of this folder.

#include "penstock/disk.h"

namespace penstock::bowtie {

using penstock::DeviceProfile;
using penstock::find_profile;
using penstock::paper_array;
using penstock::published_profiles;
using penstock::SwitchDelay;

// Faster than memory: a speed above this, given or measured, is not a disk's.
inline constexpr double believable_bytes_per_s = 1e12;

}  // namespace penstock::bowtie
