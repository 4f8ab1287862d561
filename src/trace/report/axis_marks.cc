#include "trace/report/axis_marks.h"

#include <algorithm>
#include <cmath>

#include "trace/report/sort_picture.h"
#include "trace/report/text.h"

namespace penstock::report {
namespace {

// Drops the zeros behind a decimal point: "2 s" for "2.00 s".
std::string trimmed(std::string text) {
  const size_t unit = text.find(' ');
  const size_t point = text.find('.');
  if (point == text.npos || unit == text.npos || point > unit) return text;
  size_t end = text.find_last_not_of('0', unit - 1);
  if (end > point) ++end;
  return text.erase(end, unit - end);
}

double round_step(double least_s) {
  for (const double step : {60.0, 120.0, 300.0, 600.0, 1200.0, 1800.0, 3600.0, 7200.0, 18000.0}) {
    if (least_s > 20 && least_s <= step) return step;
  }
  const double unit = least_s > 18000 ? 36000 : 1;  // ten hours, or a second
  const double power = unit * std::pow(10, std::floor(std::log10(least_s / unit)));
  for (const double times : {1.0, 2.0, 5.0}) {
    if (least_s <= times * power * (1 + 1e-9)) return times * power;
  }
  return 10 * power;
}

template <class Text>
std::vector<AxisMark> marks_between(double low, double high, double step, Text text) {
  std::vector<AxisMark> marks;
  // Numbers of steps are exact, sums of steps are not.
  for (double i = std::ceil(low / step - 1e-9); i * step <= high + step * 1e-9; ++i)
    marks.push_back({std::clamp((i * step - low) / (high - low), 0.0, 1.0), text(i * step)});
  return marks;
}

}  // namespace

std::vector<AxisMark> time_marks(const TimeSpan& span) {
  const double range_s = span.end_s - span.begin_s;
  if (!(range_s > 1e-9) || !std::isfinite(range_s) || !std::isfinite(span.begin_s) ||
      std::abs(span.begin_s) > 1e9 * range_s)
    return {};
  return marks_between(span.begin_s, span.end_s, round_step(range_s / 6),
                       [](double seconds) { return trimmed(seconds_text(seconds)); });
}

std::vector<AxisMark> byte_marks(double most) {
  if (!(most >= 1) || !std::isfinite(most)) return {};
  const double step = std::max(1.0, std::exp2(std::ceil(std::log2(most / 4))));
  return marks_between(0, most, step, [](double bytes) {
    return bytes == 0 ? std::string("0") : trimmed(bytes_text(bytes));
  });
}

}  // namespace penstock::report
