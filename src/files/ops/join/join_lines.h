#pragma once

// Joins two or more files of lines, or rows of CSV, by fields, as join(1) of POSIX and GNU, but with
// inputs in any order; and files of JSON lines by members.

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "files/ops/join/join_sides.h"
#include "files/run/options.h"
#include "files/run/sorted_copy.h"
#include "io/file.h"
#include "items/keys/text/text_order.h"

namespace penstock::files {

using penstock::JoinLinesStats;

struct JoinLinesOptions {
  // Two inputs or more. The format: lines, with their end and separator and a header of at most one
  // line; no keys.
  FilesOptions files;
  // The fields or columns of the first side's key and of all others', the same number on all sides:
  // "2", or for columns also "price", "price:n" (items/keys/text/text_order.h); of JSON lines the
  // members, ".user.id:n".
  std::array<std::vector<std::string>, 2> keys = {};
  std::optional<char> separator = {};                // between fields; empty: blanks
  std::string letters = {};                          // the keys' order: "f" and "r"
  std::shared_ptr<const items::Locale> locale = {};  // the keys' locale
  std::string time_format = {};                      // and forms of values (ItemFormat)
  std::string number_format = {};
  JoinKinds kinds = {};
  // The fields of the output: "0" is the key, "1.2" the first side's second field, "3.price" the
  // third side's column; "auto": the key and as many other fields as the first line of each side
  // has. Empty: the key and all other fields.
  std::string list = {};
  std::string empty = {};  // replaces fields that are empty or missing
  // Sorts an input that is not in the order of this format, or whose order is unknown before it is
  // read. Empty: the inputs are declared sorted.
  using Sort = std::function<Result<SortedCopy>(size_t side, const items::Format& format)>;
  Sort sort = {};
};

// Joins the lines of equal keys in the order of their files, each one with all of the later sides;
// lines without a match stand between them in key order. join_sides.h says how many items of a key
// may be held.
//
// Errors: as join_files().
Result<JoinLinesStats> join_lines(const JoinLinesOptions& options);

}  // namespace penstock::files
