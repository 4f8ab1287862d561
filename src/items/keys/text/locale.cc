#include "items/keys/text/locale.h"

#include <ctype.h>
#include <langinfo.h>
#include <string.h>
#include <wchar.h>
#include <wctype.h>

#include <algorithm>
#include <cstdlib>

#include "base/thread_object.h"

namespace penstock::items {
namespace {

constexpr bool is_digit_of_c(int c) {
  return c >= '0' && c <= '9';
}
constexpr bool is_capital_of_c(int c) {
  return c >= 'A' && c <= 'Z';
}
constexpr bool is_small_of_c(int c) {
  return c >= 'a' && c <= 'z';
}

constexpr ByteClasses make_classes_of_c() {
  ByteClasses classes;
  for (int c = 0; c < 256; ++c) {
    const auto at = static_cast<size_t>(c);
    classes.counts[at] = is_digit_of_c(c) || is_capital_of_c(c) || is_small_of_c(c) || c == ' ' ||
                         c == '\t' || c == '\n';
    classes.prints[at] = c >= 0x20 && c < 0x7f;
    classes.upper[at] = static_cast<char>(is_small_of_c(c) ? c - 'a' + 'A' : c);
  }
  return classes;
}
constexpr ByteClasses classes_of_c = make_classes_of_c();

constexpr nl_item month_items[] = {ABMON_1, ABMON_2, ABMON_3, ABMON_4,  ABMON_5,  ABMON_6,
                                   ABMON_7, ABMON_8, ABMON_9, ABMON_10, ABMON_11, ABMON_12};

ByteClasses classes_in(locale_t locale) {
  ByteClasses classes;
  for (int c = 0; c < 256; ++c) {
    const auto at = static_cast<size_t>(c);
    classes.counts[at] = isalnum_l(c, locale) || isblank_l(c, locale) || c == '\n';
    classes.prints[at] = isprint_l(c, locale);
    classes.upper[at] = static_cast<char>(toupper_l(c, locale));
  }
  return classes;
}

// A second call follows if the first guess of the length was too short.
void append_collated_part(const char* text, size_t bytes, locale_t locale, std::string& to) {
  const size_t from = to.size();
  size_t room = 4 * bytes + 16;
  to.resize(from + room + 1);
  const size_t made = strxfrm_l(to.data() + from, text, room + 1, locale);
  if (made > room) {
    to.resize(from + made + 1);
    strxfrm_l(to.data() + from, text, made + 1, locale);
  }
  to.resize(from + made);
}

}  // namespace

Result<std::shared_ptr<const Locale>> Locale::open(const std::string& name) {
  const locale_t made = newlocale(LC_ALL_MASK, name.c_str(), locale_t{});
  if (made == locale_t{}) {
    return failure(ErrorCode::not_found, "find this locale", "--locale=" + name,
                   "one that `locale -a` lists");
  }
  return std::shared_ptr<const Locale>(new Locale(made));
}

Locale::Locale(locale_t locale) : locale_(locale), classes_(classes_in(locale)) {
  auto name_of = [&](int category) {
    return std::string(nl_langinfo_l(_NL_LOCALE_NAME(category), locale));
  };
  collation_ = name_of(LC_COLLATE);
  name_ = collation_ + "/" + name_of(LC_CTYPE) + "/" + name_of(LC_NUMERIC) + "/" + name_of(LC_TIME);
  is_utf8_ = std::string_view(nl_langinfo_l(CODESET, locale)) == "UTF-8";
  // One string with each byte once is its own key if strings collate as their bytes.
  std::string all;
  for (int c = 1; c < 256; ++c) all.push_back(static_cast<char>(c));
  std::string made;
  append_collated_part(all.c_str(), all.size(), locale_, made);
  collates_ = made != all;
  const std::string_view point = nl_langinfo_l(RADIXCHAR, locale);
  const std::string_view group = nl_langinfo_l(THOUSEP, locale);
  if (point.size() == 1) point_ = point.front();
  if (group.size() == 1) group_ = group.front();
  has_wide_group_ = group.size() > 1;
  for (const nl_item item : month_items) {
    std::string& month = months_.emplace_back();
    for (const unsigned char c : std::string_view(nl_langinfo_l(item, locale)))
      if (!isblank_l(c, locale)) month += classes_.upper[c];
  }
}

Locale::~Locale() {
  freelocale(locale_);
}

bool Locale::is_as_c() const {
  return !collates_ && point_ == '.' && group_ == '\0' && months_ == months_of(nullptr) &&
         classes_.counts == classes_of_c.counts && classes_.prints == classes_of_c.prints &&
         classes_.upper == classes_of_c.upper;
}

void Locale::append_collated(std::string_view text, std::string& to) const {
  if (!collates_) {
    to.append(text);
    return;
  }
  static constinit thread_local ThreadObject<std::string> copy_of_thread;
  std::string& copy = copy_of_thread.get();  // ends with a NUL
  copy.assign(text);
  for (size_t at = 0;;) {
    const size_t end = std::min(copy.find('\0', at), copy.size());
    append_collated_part(copy.c_str() + at, end - at, locale_, to);
    if (end == copy.size()) return;
    to.push_back('\0');
    at = end + 1;
  }
}

long double Locale::number(const char* text, char** end) const {
  return strtold_l(text, end, locale_);
}

size_t Locale::columns(std::string_view text) const {
  const locale_t before = uselocale(locale_);  // for this thread alone
  size_t columns = 0;
  mbstate_t state{};
  while (!text.empty()) {
    wchar_t character = 0;
    const size_t bytes = mbrtowc(&character, text.data(), text.size(), &state);
    if (bytes > text.size() || bytes == 0) {  // not a character, or a NUL
      state = {};
      columns += bytes == 0 ? 0 : 1;
      // A character that the end cuts off counts as one.
      text.remove_prefix(bytes == static_cast<size_t>(-2) ? text.size() : 1);
      continue;
    }
    const int width = wcwidth(character);
    columns += width >= 0                                 ? static_cast<size_t>(width)
               : iswcntrl(static_cast<wint_t>(character)) ? 0
                                                          : 1;
    text.remove_prefix(bytes);
  }
  uselocale(before);
  return columns;
}

const ByteClasses& classes_of(const Locale* locale) {
  return locale == nullptr ? classes_of_c : locale->classes();
}

const std::vector<std::string>& months_of(const Locale* locale) {
  static const std::vector<std::string> names = {"JAN", "FEB", "MAR", "APR", "MAY", "JUN",
                                                 "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"};
  return locale == nullptr ? names : locale->months();
}

}  // namespace penstock::items
