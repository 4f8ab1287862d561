#pragma once

#include "penstock/base.h"

namespace penstock::file {

// For the main() of our own programs: PENSTOCK_EMULATE (a slower device, told on stderr) and
// PENSTOCK_INJECT (faults) in the environment, so that a program as users have it can be tested. A
// program of others that uses the library is left alone. Fails where one of them cannot be read.
Status obey_environment();

}  // namespace penstock::file
