#pragma once

// Converts the words that describe a file's items to a format.

#include "items/format.h"
#include "items/keys/text/locale.h"
#include "penstock/files.h"

namespace penstock::api {

// An operation's rules for the order of items with equal keys.
struct ItemRules {
  bool stable = false;
  bool unique = false;
  bool repeatable = true;  // every run must find the same order
};

// Returns the format, or the error in the words. Text keys include `descending`.
Result<items::Format> format_of(const ItemFormat& items, const ItemRules& rules = {});
// Returns the dialect of CSV. Errors: a word is no character, or stands for two things.
Result<items::Dialect> dialect_of(const ItemFormat& items);
// Returns the locale; null if there is none, or if it orders text as C does. Errors: not_found.
Result<std::shared_ptr<const items::Locale>> locale_of(const ItemFormat& items);
// Whether the items' order is the reverse of the format's.
bool is_reversed(const ItemFormat& items, const items::Format& format);

}  // namespace penstock::api
