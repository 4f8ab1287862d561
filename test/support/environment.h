#pragma once

#include "penstock/base.h"

namespace penstock::io {

// Obeys PENSTOCK_EMULATE (a slower device, told on stderr) and PENSTOCK_INJECT (faults) in
// the environment. Fails if one of them cannot be parsed.
Status obey_environment();

}  // namespace penstock::io
