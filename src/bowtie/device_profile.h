#pragma once

// What the model knows about a device, by the names of this folder; penstock/disk.h says what it is.

#include "penstock/disk.h"

namespace penstock::bowtie {

using penstock::DeviceProfile;
using penstock::find_profile;
using penstock::paper_array;
using penstock::published_profiles;
using penstock::SwitchDelay;

}  // namespace penstock::bowtie
