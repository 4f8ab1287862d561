#include "items/keys/values/times.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <optional>
#include <utility>

#include "base/misuse.h"
#include "items/keys/text/key_bytes.h"
#include "items/keys/values/scanner.h"

// The bytes of a time: the seconds since 1970, rounded down, in 8 bytes (big-endian, the sign bit
// flipped), and the fraction as TextCompare::numeric.

namespace penstock::items {
namespace {

// Parts of a time that were read, each in its range or not.
struct Parts {
  unsigned year = 1970, month = 1, day = 1;
  unsigned day_of_year = 0;  // counts in place of month and day; 0: there is none
  unsigned hour = 0, minute = 0, second = 0;
  bool is_of_12 = false;
  bool is_afternoon = false;
  std::string_view fraction = {};
  int64_t zone_seconds = 0;
};

// Seconds since 1970. The fraction is added, also to negative ones.
struct Moment {
  int64_t seconds = 0;
  std::string_view fraction = {};
};

std::optional<Moment> moment_of(Parts parts) {
  using namespace std::chrono;
  if (parts.is_of_12) {
    if (parts.hour < 1 || parts.hour > 12) return {};
    parts.hour = parts.hour % 12 + (parts.is_afternoon ? 12 : 0);
  }
  const bool ends_day = parts.hour == 24 && parts.minute == 0 && parts.second == 0 &&
                        parts.fraction.find_first_not_of('0') == std::string_view::npos;
  if ((parts.hour > 23 && !ends_day) || parts.minute > 59 || parts.second > 60) return {};
  const year of_date(static_cast<int>(parts.year));
  sys_days date;
  if (parts.day_of_year > 0) {
    if (parts.day_of_year > (of_date.is_leap() ? 366u : 365u)) return {};
    date = sys_days(of_date / January / 1) + days(parts.day_of_year - 1);
  } else {
    const auto written = of_date / month(parts.month) / day(parts.day);
    if (!written.ok()) return {};
    date = written;
  }
  const int64_t seconds_of_day = (int64_t{parts.hour} * 60 + parts.minute) * 60 + parts.second;
  return Moment{seconds(date.time_since_epoch()).count() + seconds_of_day - parts.zone_seconds,
                parts.fraction};
}

// Reads "Z", "UTC", "+01", "+0100" or "+01:00".
bool read_zone(Scanner& text, Parts& parts) {
  if (text.take_word("utc") || text.take_word("gmt") || text.take_word("z")) return true;
  bool negative = false;
  unsigned hours = 0, minutes = 0;
  if (!text.take_sign(negative) || !text.number(hours, 2, 2)) return false;
  const bool has_colon = text.take(':');
  if ((has_colon || (!text.is_at_end() && is_digit(text.rest().front()))) &&
      !text.number(minutes, 2, 2))
    return false;
  if (hours > 23 || minutes > 59) return false;
  parts.zone_seconds = (int64_t{hours} * 60 + minutes) * 60 * (negative ? -1 : 1);
  return true;
}

// Reads what follows a date: hours, perhaps minutes, seconds and a fraction, perhaps a zone.
bool read_time_of_day(Scanner& text, Parts& parts) {
  if (!text.number(parts.hour, 2, 2)) return false;
  const bool has_colons = text.take(':');
  const auto goes_on = [&] { return !text.is_at_end() && is_digit(text.rest().front()); };
  if (has_colons || goes_on()) {
    if (!text.number(parts.minute, 2, 2)) return false;
    if (has_colons ? text.take(':') : goes_on()) {
      if (!text.number(parts.second, 2, 2)) return false;
      if (text.take('.') || text.take(',')) {
        parts.fraction = text.digits();
        if (parts.fraction.empty()) return false;
      }
    }
  }
  (void)text.take_blanks();
  return text.is_at_end() || (read_zone(text, parts) && text.is_at_end());
}

// Reads a number of seconds. REQUIRES: `room` outlives the result.
std::optional<Moment> read_seconds(Scanner& text, std::string& room) {
  constexpr size_t digits_max = 18;
  bool negative = false;
  (void)text.take_sign(negative);
  const std::string_view whole = text.digits();
  if (whole.empty() || whole.size() > digits_max) return {};
  Moment moment;
  std::from_chars(whole.data(), whole.data() + whole.size(), moment.seconds);
  if (text.take('.')) moment.fraction = text.digits();
  if (!negative) return moment;
  moment.seconds = -moment.seconds;
  while (moment.fraction.ends_with('0')) moment.fraction.remove_suffix(1);
  if (moment.fraction.empty()) return moment;
  // -0.25 is -1 and 0.75.
  --moment.seconds;
  room.clear();
  for (const char digit : moment.fraction) room += static_cast<char>('0' + '9' - digit);
  ++room.back();
  moment.fraction = room;
  return moment;
}

std::optional<Moment> read_iso(std::string_view value, std::string& room) {
  Scanner text(value);
  Parts parts;
  const bool begins_with_year = text.number(parts.year, 4, 4);
  if (begins_with_year && text.take('-')) {
    if (!text.number(parts.month, 2, 2)) return {};
    if (text.is_at_end()) return moment_of(parts);
    if (!text.take('-') || !text.number(parts.day, 2, 2)) return {};
    if (text.is_at_end()) return moment_of(parts);
    if (!text.take_word("t") && text.take_blanks() == 0) return {};
  } else {
    const bool has_day =
        begins_with_year && text.number(parts.month, 2, 2) && text.number(parts.day, 2, 2);
    if (has_day && text.is_at_end()) {
      if (const auto day = moment_of(parts)) return day;
    }
    if (has_day && text.take_word("t"))
      return read_time_of_day(text, parts) ? moment_of(parts) : std::nullopt;
    Scanner number(value);
    const auto moment = read_seconds(number, room);
    return number.is_at_end() ? moment : std::nullopt;
  }
  if (!read_time_of_day(text, parts)) return {};
  return moment_of(parts);
}

constexpr std::array<std::string_view, 12> months = {
    "january", "february", "march",     "april",   "may",      "june",
    "july",    "august",   "september", "october", "november", "december"};

bool read_month(Scanner& text, const Locale* locale, Parts& parts) {
  constexpr size_t short_bytes = 3;
  if (locale != nullptr) {
    // The longest name counts if one begins with another.
    size_t bytes = 0;
    for (unsigned month = 0; month < locale->months().size(); ++month) {
      const std::string& name = locale->months()[month];
      const std::string_view rest = text.rest();
      if (name.size() <= bytes || rest.size() < name.size()) continue;
      size_t same = 0;
      while (same < name.size() &&
             locale->classes().upper[static_cast<unsigned char>(rest[same])] == name[same])
        ++same;
      if (same < name.size()) continue;
      bytes = same;
      parts.month = month + 1;
    }
    text.skip(bytes);
    if (bytes > 0) return true;
  }
  for (unsigned month = 0; month < months.size(); ++month) {
    if (!text.take_word(months[month].substr(0, short_bytes))) continue;
    (void)text.take_word(months[month].substr(short_bytes));
    parts.month = month + 1;
    return true;
  }
  return false;
}

// Skips the name of a day: letters, of any language.
bool skip_name(Scanner& text) {
  size_t bytes = 0;
  for (const char c : text.rest()) {
    const bool is_letter = (small_letter(c) >= 'a' && small_letter(c) <= 'z') || c < 0;
    if (!is_letter) break;
    ++bytes;
  }
  text.skip(bytes);
  return bytes > 0;
}

constexpr std::string_view plain_codes = "YymdejbaHIpMSfsz%";

// Reads what the code stands for. %s sets `seconds`.
bool read_code(char code, Scanner& text, const Locale* locale, Parts& parts,
               std::optional<Moment>& seconds, std::string& room) {
  unsigned short_year = 0;
  switch (code) {
    case 'Y':
      return text.number(parts.year, 4, 4);
    case 'y':
      if (!text.number(short_year, 2, 2)) return false;
      parts.year = short_year + (short_year < 69 ? 2000 : 1900);
      return true;
    case 'm':
      return text.number(parts.month, 1, 2);
    case 'e':
      (void)text.take_blanks();
      [[fallthrough]];
    case 'd':
      return text.number(parts.day, 1, 2);
    case 'j':
      return text.number(parts.day_of_year, 1, 3) && parts.day_of_year > 0;
    case 'b':
      return read_month(text, locale, parts);
    case 'a':
      return skip_name(text);
    case 'I':
      parts.is_of_12 = true;
      [[fallthrough]];
    case 'H':
      return text.number(parts.hour, 1, 2);
    case 'p':
      parts.is_afternoon = text.take_word("pm") || text.take_word("p.m.");
      return parts.is_afternoon || text.take_word("am") || text.take_word("a.m.");
    case 'M':
      return text.number(parts.minute, 1, 2);
    case 'S':
      return text.number(parts.second, 1, 2);
    case 'f':
      parts.fraction = text.digits();
      return !parts.fraction.empty();
    case 's':
      seconds = read_seconds(text, room);
      return seconds.has_value();
    case 'z':
      return read_zone(text, parts);
    default:
      return text.take(code);  // %%
  }
}

std::optional<Moment> read_by(std::string_view codes, std::string_view value, const Locale* locale,
                              std::string& room) {
  Scanner text(value);
  Parts parts;
  std::optional<Moment> seconds;
  for (size_t i = 0; i < codes.size(); ++i) {
    if (codes[i] == ' ') {
      (void)text.take_blanks();
    } else if (codes[i] != '%') {
      if (!text.take(codes[i])) return {};
    } else if (!read_code(codes[++i], text, locale, parts, seconds, room)) {
      return {};
    }
  }
  if (!text.is_at_end()) return {};
  return seconds ? seconds : moment_of(parts);
}

}  // namespace

Result<TimeFormat> TimeFormat::parse(std::string_view text) {
  TimeFormat format;
  const std::string option = "--time-format '" + std::string(text) + "'";
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      format.codes_ += is_blank(text[i]) ? ' ' : text[i];
      continue;
    }
    const char code = ++i < text.size() ? text[i] : '\0';
    constexpr std::pair<char, std::string_view> others[] = {
        {'D', "%m/%d/%y"}, {'F', "%Y-%m-%d"}, {'T', "%H:%M:%S"}, {'R', "%H:%M"}, {'B', "%b"},
        {'h', "%b"},       {'A', "%a"},       {'n', " "},        {'t', " "}};
    const auto* const other =
        std::ranges::find(others, code, &std::pair<char, std::string_view>::first);
    if (other != std::end(others)) {
      format.codes_ += other->second;
    } else if (code != '\0' && plain_codes.contains(code)) {
      format.codes_ += {'%', code};
    } else {
      return misuse("read times with %" + std::string(text.substr(i, 1)), option,
                    "%Y %y %m %d %e %j %b %B %a %A %H %I %p %M %S %f %z %s %D %F %T %R %%");
    }
  }
  const auto has = [&](std::string_view code) { return format.codes_.contains(code); };
  if (!text.empty() && !format.codes_.contains('%'))
    return misuse("read times without a part such as %Y", option, "%d/%m/%Y, or another format");
  if (has("%I") != has("%p"))
    return misuse("read hours of 12 without AM and PM, or these alone", option,
                  "%I with %p, or %H");
  return format;
}

bool TimeFormat::append(std::string_view text, const Locale* locale, std::string& to) const {
  std::string room;
  text = without_blanks(text);
  const auto moment = codes_.empty() ? read_iso(text, room) : read_by(codes_, text, locale, room);
  if (!moment) return false;
  const auto biased = static_cast<uint64_t>(moment->seconds) ^ uint64_t { 1 } << 63;
  for (int shift = 56; shift >= 0; shift -= 8) to.push_back(static_cast<char>(biased >> shift));
  std::string_view fraction = moment->fraction;
  while (fraction.ends_with('0')) fraction.remove_suffix(1);
  append_number({.fraction = fraction}, to);
  return true;
}

}  // namespace penstock::items
