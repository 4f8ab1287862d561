#pragma once

// Joins two files of lines, or rows of CSV, by fields: join(1) of POSIX and GNU, of inputs in any
// order.

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "files/run/options.h"
#include "files/run/sorted_copy.h"
#include "io/file.h"
#include "items/keys/text/text_order.h"

namespace penstock::files {

using penstock::JoinLinesStats;

struct JoinLinesOptions {
  // Exactly two inputs. Its format: lines, with what ends and separates them, and a header of at
  // most one line; no keys.
  FilesOptions files;
  // Of each side the fields or columns by which it is joined, as many on both: "2", and of columns
  // "price", "price:n" (items/keys/text/text_order.h).
  std::array<std::vector<std::string>, 2> keys = {};
  std::optional<char> separator = {};                // of fields; none: blanks
  std::string letters = {};                          // of fields: "f" and "r"
  std::shared_ptr<const items::Locale> locale = {};  // of fields
  bool pairs = true;                                 // are written
  std::array<bool, 2> alone = {};                    // so are lines of this side that have no other
  // What is written: "0" is the key, "1.2" the left side's second field, "2.price" the right one's
  // column; "auto": the key and all others, as many as the first line of each side has. Empty: the
  // key and all others.
  std::string list = {};
  std::string empty = {};  // in place of fields that are empty or not there
  // Makes a sorted file of an input that is not in the order of this format, or of which nobody can
  // know before it was read. Nothing: the inputs are said to be sorted.
  using Sort = std::function<Result<SortedCopy>(size_t side, const items::Format& format)>;
  Sort sort = {};
};

// The lines of equal keys in the order of their files, each left one with all right ones; lines
// without another where they stand between them. See join_sides.h for what of a key may be held.
//
// Errors: as join_files().
Result<JoinLinesStats> join_lines(const JoinLinesOptions& options);

// Whether a word is a list of fields as above.
bool is_field_list(std::string_view word);
// Whether a word is meant as one: it begins with a digit and a point, holds a comma, or is a number, and it is no
// path that begins with / or . as ./1.csv does.
bool looks_like_field_list(std::string_view word);
std::unexpected<Error> no_field_list(const std::string& word);

}  // namespace penstock::files
