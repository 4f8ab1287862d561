#pragma once

// The coordinates of a sort's pictures.

#include <algorithm>
#include <array>
#include <string>

#include "trace/report/sort_run.h"
#include "trace/report/text.h"

namespace penstock::report {

// Size of a picture in the SVG's own coordinates, which the page stretches.
inline constexpr double box_width = 1000;
inline constexpr double box_height = 400;

inline constexpr std::array<const char*, external::bucket_stages> stage_classes = {
    "reading", "waiting", "sorting", "writing"};

inline std::string seconds_text(double seconds) {
  return seconds <= 0 ? "0 s" : duration_text(seconds);
}

inline double x_of(const TimeSpan& span, double seconds) {
  return box_width * std::clamp((seconds - span.begin_s) / (span.end_s - span.begin_s), 0.0, 1.0);
}

}  // namespace penstock::report
