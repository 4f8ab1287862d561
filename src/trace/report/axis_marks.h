#pragma once

// Marks of the axes of a sort's pictures, at round numbers.

#include <string>
#include <vector>

#include "trace/report/sort_run.h"

namespace penstock::report {

struct AxisMark {
  double share = 0;  // its place: 0 is the beginning of the axis, 1 its end
  std::string text;
};

// Returns marks at multiples of 1, 2 or 5 times a power of ten seconds, or of round parts of minutes
// and hours: three to eight, for a span that is not empty.
std::vector<AxisMark> time_marks(const TimeSpan& span);
// Returns marks at multiples of a power of two, from 0 on: three to five for at least four bytes.
std::vector<AxisMark> byte_marks(double most);

}  // namespace penstock::report
