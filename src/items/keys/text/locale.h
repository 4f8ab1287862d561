#pragma once

// A locale of the C library: how text collates, which bytes are letters, how numbers and months are
// written.
//
// The process's own locale is neither read nor changed: nothing here calls setlocale(), so other
// threads, and programs that use the library, keep theirs.

#include <locale.h>

#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/base.h"

namespace penstock::items {

// Classes of single bytes, which sort(1) uses in UTF-8, too.
struct ByteClasses {
  std::array<bool, 256> counts{};  // letters, digits and blanks: -d
  std::array<bool, 256> prints{};  // -i
  std::array<char, 256> upper{};   // -f
};

// Thread safety: immutable.
class Locale {
 public:
  // Opens a locale such as "de_DE.UTF-8"; an empty name means the environment (LC_ALL, LC_COLLATE,
  // LC_CTYPE, LC_NUMERIC, LC_TIME and LANG). Errors: not_found.
  static Result<std::shared_ptr<const Locale>> open(const std::string& name);
  ~Locale();
  Locale(const Locale&) = delete;
  Locale& operator=(const Locale&) = delete;

  // Returns whether text is ordered as without a locale.
  bool is_as_c() const;
  bool is_utf8() const { return is_utf8_; }
  // The names of all categories that matter, which a resumed sort compares.
  const std::string& name() const { return name_; }
  const std::string& collation() const { return collation_; }
  // Returns false if strings compare as their bytes. If true, different strings may be equal.
  bool collates() const { return collates_; }
  // Appends bytes whose order is strcoll()'s order of the text. A NUL ends a part of the text:
  // parts compare one after another, and NULs separate their bytes. (No other byte is a NUL.)
  void append_collated(std::string_view text, std::string& to) const;

  const ByteClasses& classes() const { return classes_; }
  char point() const { return point_; }
  // The separator of groups of digits, or NUL if there is none or it has several bytes.
  char group() const { return group_; }
  bool has_wide_group() const { return has_wide_group_; }
  // The 12 abbreviations of months in capitals, January first.
  const std::vector<std::string>& months() const { return months_; }
  long double number(const char* text, char** end) const;
  // Returns how many columns the text takes on a terminal.
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

// These return the values of the locale C if `locale` is nullptr.
const ByteClasses& classes_of(const Locale* locale);
const std::vector<std::string>& months_of(const Locale* locale);

}  // namespace penstock::items
