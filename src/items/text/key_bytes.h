#pragma once

// The bytes of a key, whose order is the key's.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "items/text/key.h"
#include "items/text/locale.h"

namespace penstock::items {

struct KeyBytes {
  bool last = false;               // nothing follows: the bytes need no end of their own
  uint64_t random_seed = 0;        // of TextCompare::random
  const Locale* locale = nullptr;  // none: C
};

// `text`: the key as it stands in its line.
void append_key(const TextKey& key, std::string_view text, const KeyBytes& how, std::string& to);

// A text without changes. `last`: as above.
void append_text(std::string_view text, const Locale* locale, bool last, std::string& to);
// The part of the key's text that its order looks at: a number, a month, or all. Empty: it has none, and would stand there.
std::string_view compared_part(const TextKey& key, std::string_view text, const Locale* locale);
// Turns the order of the bytes behind `from`.
void complement(std::string& text, size_t from);

}  // namespace penstock::items
