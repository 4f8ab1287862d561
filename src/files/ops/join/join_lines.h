#pragma once

// Joins two files of lines, or rows of CSV, by fields, as join(1) of POSIX and GNU, but with inputs
// in any order.

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
  // Exactly two inputs. The format: lines, with their end and separator and a header of at most one
  // line; no keys.
  FilesOptions files;
  // The fields or columns of each side's key, the same number on both sides: "2", or for columns
  // also "price", "price:n" (items/keys/text/text_order.h).
  std::array<std::vector<std::string>, 2> keys = {};
  std::optional<char> separator = {};                // between fields; empty: blanks
  std::string letters = {};                          // the keys' order: "f" and "r"
  std::shared_ptr<const items::Locale> locale = {};  // the keys' locale
  bool pairs = true;                                 // writes pairs
  std::array<bool, 2> alone = {};                    // writes lines of this side that have no match
  // The fields of the output: "0" is the key, "1.2" the left side's second field, "2.price" the
  // right side's column; "auto": the key and as many other fields as the first line of each side
  // has. Empty: the key and all other fields.
  std::string list = {};
  std::string empty = {};  // replaces fields that are empty or missing
  // Sorts an input that is not in the order of this format, or whose order is unknown before it is
  // read. Empty: the inputs are declared sorted.
  using Sort = std::function<Result<SortedCopy>(size_t side, const items::Format& format)>;
  Sort sort = {};
};

// Joins the lines of equal keys in the order of their files, each left one with all right ones;
// lines without a match stand between them in key order. join_sides.h says how many items of a key
// may be held.
//
// Errors: as join_files().
Result<JoinLinesStats> join_lines(const JoinLinesOptions& options);

// True if a word is a list of fields as in JoinLinesOptions::list.
bool is_field_list(std::string_view word);
// True if a word looks like an attempt at one: it begins with a digit and a point, contains a
// comma, or is a number, and is not a path that begins with / or . such as ./1.csv.
bool looks_like_field_list(std::string_view word);
std::unexpected<Error> no_field_list(const std::string& word);

}  // namespace penstock::files
