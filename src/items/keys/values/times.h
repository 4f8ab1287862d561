#pragma once

// Times as people write them.
//
//   2024-03-01   2024-03   20240301T120000Z   2024-03-01T12:00:00.25+01:00   2024-03-01 12:00 UTC
//   1709294400   -0.5      (a number alone: seconds since 1970)
//
// A time without a zone is one of UTC. A second of 60 is the first one of the next minute, as in
// POSIX, and 24:00 is the next day's beginning. Fractions have any length. Other forms need a format.

#include <string>
#include <string_view>

#include "items/keys/text/locale.h"
#include "penstock/base.h"

namespace penstock::items {

// A format of times, in the notation of strptime(3):
//
//   %Y %y %m %d %e %j     year (4 digits, or 2: 69 is 1969, 68 is 2068), month, day, day of the year
//   %b %B %h, %a %A       name of a month, English or as in the locale; of a day, which is not compared
//   %H %I %p %M %S %f     hour (of 24, or of 12 with AM or PM), minute, second, digits of its fraction
//   %s, %z                seconds since 1970; zone (Z, UTC, +hh, +hhmm, +hh:mm)
//   %D %F %T %R           %m/%d/%y, %Y-%m-%d, %H:%M:%S, %H:%M
//   %n %t, a blank, %%    any blanks, or none; a percent sign
//
// Numbers may lack zeros in front, %Y but for. Other characters stand for themselves.
//
// Thread safety: immutable.
class TimeFormat {
 public:
  // An empty text stands for the times above. Errors: invalid_argument.
  static Result<TimeFormat> parse(std::string_view text);

  // Appends bytes whose order is that of the times; none is the beginning of another. Returns false,
  // and appends nothing, if the text is no time.
  bool append(std::string_view text, const Locale* locale, std::string& to) const;

 private:
  std::string codes_;  // %D, %F, %T and %R are written out
};

}  // namespace penstock::items
