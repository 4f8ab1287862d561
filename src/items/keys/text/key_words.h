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
  bool ascends = false;   // ":asc", whatever the order of other keys

  bool orders_nothing() const {
    return compares == 0 && !ascends && !key.only_letters && !key.only_printable &&
           !key.ignores_case && !key.skips_blanks_at_start && !key.skips_blanks_at_end;
  }
  // Takes the orders of all keys, if this key of a line has none: GNU sort's rule.
  void inherit_as_field(const Written& all);
  // Takes those orders of all keys that this key of a column does not say otherwise: a direction
  // unless it has one, and a comparison unless it has one.
  void inherit_as_column(const Written& all);
};

// Returns the noun for one value of such an order, "time". REQUIRES: may_be_none(compare).
std::string_view name_of_value(TextCompare compare);

// Consumes the letters that are orders. -b behind a key's start skips blanks there, behind its end
// at the end.
void read_letters(std::string_view& text, Written& written, bool at_start, bool at_end);
// Reads the letters of keys that have none of their own, which "r" may be among, and perhaps a word
// after them, as in "r:time". Errors: invalid_argument.
Result<Written> read_whole(std::string_view letters);
// Returns the options of a command line that stand for these, "-n" or "--sort=time", for messages.
std::string shown_letters(std::string_view letters);
// Reads "desc", "asc", a word such as "time" or letters after a colon of the key `spec`. Errors:
// invalid_argument.
Status read_order(std::string_view word, std::string_view spec, Written& written);
// Settles which of its orders the key has. Returns false if they exclude each other.
bool settle(Written& written);
// Reads "2.3b,4r", which words may follow, as in "2,2:time:desc". Errors: invalid_argument, with
// what is wrong with it.
Result<Written> read_key(std::string_view spec);
std::unexpected<Error> bad_key(std::string_view spec, std::string_view why);
// Reads "price", "price:nr", "price:n:r" or "price:n:desc": a column, and letters or words after
// colons. (A column whose own name ends like that is found first.)
Result<Written> read_column(std::string_view spec, const std::vector<std::string>& header);
// Reads columns with commas between them, "price:n,city". (A column whose own name has commas is
// found first.) "2,2n" is an error, because it is one key of lines.
Result<std::vector<Written>> read_columns(std::string_view spec,
                                          const std::vector<std::string>& header);
// Returns whether a key can only be one of columns, such as "price" or "2:n": not one of lines, even
// if mistaken, such as "0" or "2.0n", nor of bytes, such as "4:8".
bool names_column(std::string_view spec);

}  // namespace penstock::items
