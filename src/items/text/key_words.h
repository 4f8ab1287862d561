#pragma once

// Keys as a command line writes them.

#include <string>
#include <string_view>
#include <vector>

#include "items/text/key.h"
#include "penstock/base.h"

namespace penstock::items {

// A key as it is written: how it compares may have been said twice.
struct Written {
  TextKey key;
  unsigned compares = 0;  // a bit for each TextCompare but bytes

  bool orders_nothing() const {
    return compares == 0 && !key.only_letters && !key.only_printable && !key.ignores_case &&
           !key.skips_blanks_at_start && !key.skips_blanks_at_end;
  }
};

// Takes the letters that are orders; -b of a key's start skips blanks there, of its end there.
void read_letters(std::string_view& text, Written& written, bool at_start, bool at_end);
// Which of its orders it is. False: they exclude each other.
bool settle(Written& written);
// "2.3b,4r". Errors: what is wrong with it.
Result<Written> read_key(std::string_view spec);
std::unexpected<Error> bad_key(std::string_view spec, std::string_view why);
// "price", "price:nr", "price:n:r": a column, and letters behind colons. (A column whose own name ends
// like that is found first.)
Result<Written> read_column(std::string_view spec, const std::vector<std::string>& header);

}  // namespace penstock::items
