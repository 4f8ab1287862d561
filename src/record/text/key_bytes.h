#pragma once

// The bytes of a key, whose order is the key's.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "record/text/key.h"

namespace penstock::record {

struct KeyBytes {
  bool last = false;         // nothing follows: the bytes need no end of their own
  uint64_t random_seed = 0;  // of TextCompare::random
};

// `text`: the key as it stands in its line.
void append_key(const TextKey& key, std::string_view text, const KeyBytes& how, std::string& to);

// Text with an end, so that more may follow.
void append_bytes(std::string_view text, std::string& to);
// Turns the order of the bytes behind `from`.
void complement(std::string& text, size_t from);

}  // namespace penstock::record
