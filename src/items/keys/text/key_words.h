#pragma once

// Keys as a command line writes them.

#include <string>
#include <string_view>
#include <vector>

#include "items/keys/text/key.h"
#include "penstock/base.h"

namespace penstock::items {

// A key as it is written, which may name several comparisons.
struct Written {
  TextKey key;
  unsigned compares = 0;  // mask of the named TextCompare values

  bool orders_nothing() const {
    return compares == 0 && !key.only_letters && !key.only_printable && !key.ignores_case &&
           !key.skips_blanks_at_start && !key.skips_blanks_at_end;
  }
};

// Consumes the letters that are orders. -b behind a key's start skips blanks there, behind its end
// at the end.
void read_letters(std::string_view& text, Written& written, bool at_start, bool at_end);
// Settles which of its orders the key has. Returns false if they exclude each other.
bool settle(Written& written);
// Reads "2.3b,4r". Errors: invalid_argument, with what is wrong with it.
Result<Written> read_key(std::string_view spec);
std::unexpected<Error> bad_key(std::string_view spec, std::string_view why);
// Reads "price", "price:nr" or "price:n:r": a column, and letters behind colons. (A column whose
// own name ends like that is found first.)
Result<Written> read_column(std::string_view spec, const std::vector<std::string>& header);

}  // namespace penstock::items
