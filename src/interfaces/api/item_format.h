#pragma once

// The words that say what the bytes of files are, made a format.

#include "items/format.h"
#include "items/text/locale.h"
#include "penstock/files.h"

namespace penstock::api {

// What of an operation says how items with equal keys stand.
struct ItemRules {
  bool stable = false;
  bool unique = false;
  bool repeatable = true;  // another run must find the same order
};

// The format, or what is wrong with the words. Keys of text have `descending` in them.
Result<items::Format> format_of(const ItemFormat& items, const ItemRules& rules = {});
// Null: none, or one that orders text as C does. Errors: not_found.
Result<std::shared_ptr<const items::Locale>> locale_of(const ItemFormat& items);
// Whether items are to be in the reverse order of that format's.
bool is_reversed(const ItemFormat& items, const items::Format& format);

}  // namespace penstock::api
