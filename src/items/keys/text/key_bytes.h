#pragma once

// The bytes of a key, whose order is the key's.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "items/keys/text/key.h"
#include "items/keys/text/locale.h"

namespace penstock::items {

struct KeyBytes {
  bool last = false;               // nothing follows, so the bytes need no end of their own
  uint64_t random_seed = 0;        // seed of TextCompare::random
  const Locale* locale = nullptr;  // nullptr is the locale C
};

// Appends the bytes of a key, which stands in its line as `text`.
void append_key(const TextKey& key, std::string_view text, const KeyBytes& how, std::string& to);

// Appends a text without changes. `last` is KeyBytes::last.
void append_text(std::string_view text, const Locale* locale, bool last, std::string& to);
// Returns the part of the key's text that its order compares: a number, a month, or all. It is
// empty, at the place where the part would stand, if there is none.
std::string_view compared_part(const TextKey& key, std::string_view text, const Locale* locale);
// Reverses the order of the bytes behind `from`.
void complement(std::string& text, size_t from);

}  // namespace penstock::items
