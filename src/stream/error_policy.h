#pragma once

#include "penstock/error_policy.h"

namespace penstock::stream {

using penstock::ErrorPolicy;

}  // namespace penstock::stream
