#pragma once

// Components that a build leaves out: their commands stay words of the program, and say how to get
// them.

#include <string>

#include "cli/common/command.h"
#include "penstock/base.h"

namespace penstock::cli {

// The error of a use of `component` ("tracing"), which the build's `option` ("PENSTOCK_TRACE") left
// out.
std::unexpected<Error> left_out(const std::string& subject, const char* component,
                                const char* option);

// Adds a command that takes any words and fails with that error. The help does not list it.
Command add_left_out(Parser& program, const char* name, const char* component, const char* option);

}  // namespace penstock::cli
