#pragma once

#include "penstock/base.h"

namespace penstock::stream {

using penstock::ErrorPolicy;

}  // namespace penstock::stream
