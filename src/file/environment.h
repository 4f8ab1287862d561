#pragma once

#include "penstock/base.h"

namespace penstock::file {

// For the main() of our own programs: PENSTOCK_EMULATE (a slower device, told on stderr) and
// PENSTOCK_INJECT (faults) in the environment, so that a program as users have it can be tested; and
// PENSTOCK_CORE_DUMPS=without-memory, for users whose data must not be in core dumps. A program of
// others that uses the library is left alone. Fails where one of them cannot be read or obeyed.
Status obey_environment();

}  // namespace penstock::file
