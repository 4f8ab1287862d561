#pragma once

// What the model knows about a device, by the names of this folder; penstock/disk.h says what it is.

#include "penstock/disk.h"

namespace penstock::bowtie {

using penstock::DeviceProfile;
using penstock::find_profile;
using penstock::paper_array;
using penstock::published_profiles;
using penstock::SwitchDelay;

// More than memory itself moves: what is said or measured to be faster is no disk's speed.
inline constexpr double believable_bytes_per_s = 1e12;

}  // namespace penstock::bowtie
