#pragma once

// What a locale of the C library says of text: how it collates, which bytes are letters, how numbers and months are written.
//
// The process's own locale is neither asked nor changed: nothing here calls setlocale(), and other threads, and programs that
// use the library, keep theirs.

#include <locale.h>

#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/base.h"

namespace penstock::items {

// Of single bytes, as sort(1) asks for them in UTF-8, too.
struct ByteClasses {
  std::array<bool, 256> counts{};  // letters, digits and blanks: -d
  std::array<bool, 256> prints{};  // -i
  std::array<char, 256> upper{};   // -f
};

// Thread safety: immutable.
class Locale {
 public:
  // "de_DE.UTF-8"; empty: as LC_ALL, LC_COLLATE, LC_CTYPE, LC_NUMERIC, LC_TIME and LANG say. Errors: not_found.
  static Result<std::shared_ptr<const Locale>> open(const std::string& name);
  ~Locale();
  Locale(const Locale&) = delete;
  Locale& operator=(const Locale&) = delete;

  // Text is ordered as without a locale.
  bool is_as_c() const;
  bool is_utf8() const { return is_utf8_; }
  // Of each category that counts: what a resumed sort must find the same.
  const std::string& name() const { return name_; }
  const std::string& collation() const { return collation_; }
  // False: strings compare as their bytes. True: different strings may be equal.
  bool collates() const { return collates_; }
  // Appends bytes, the order of which is strcoll()'s of the text. A NUL ends a part of the text: the parts compare one after
  // another, and NULs part their bytes. (No other byte is a NUL.)
  void append_collated(std::string_view text, std::string& to) const;

  const ByteClasses& classes() const { return classes_; }
  char point() const { return point_; }
  // Between groups of digits; none: a NUL. (Of several bytes it is none.)
  char group() const { return group_; }
  bool has_wide_group() const { return has_wide_group_; }
  // As they begin months, in capitals, January first; 12 of them.
  const std::vector<std::string>& months() const { return months_; }
  long double number(const char* text, char** end) const;
  // How wide a terminal shows it.
  size_t columns(std::string_view text) const;

 private:
  explicit Locale(locale_t locale);

  locale_t locale_;
  std::string name_;
  std::string collation_;
  bool is_utf8_ = false;
  bool collates_ = false;
  ByteClasses classes_;
  char point_ = '.';
  char group_ = '\0';
  bool has_wide_group_ = false;
  std::vector<std::string> months_;
};

// As in the locale C.
const ByteClasses& classes_of(const Locale* locale);
const std::vector<std::string>& months_of(const Locale* locale);

}  // namespace penstock::items
