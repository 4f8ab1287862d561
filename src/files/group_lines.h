#pragma once

// Groups lines, or rows of CSV, by keys of text: how many of each, and sums of numbers in other
// fields. Whole lines are group_files()'s, which holds a table of them; here the lines are sorted
// first, and neighbours are added up.

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "file/file.h"
#include "files/options.h"
#include "files/sorted_copy.h"

namespace penstock::files {

struct GroupLinesOptions {
  FilesOptions files;                  // its format: lines with keys, of a stable order
  std::optional<char> separator = {};  // of fields; none: blanks
  Aggregates aggregates = {};          // `distinct`: the first line of each key, whole
  // What sum, min and max are of: fields or columns, "3", "price". Empty ones count for nothing.
  std::vector<std::string> values = {};
  // The lines with the highest counts alone, in the order of these; of equal counts in that of keys.
  std::optional<uint64_t> top = {};
  // All inputs as one sorted file, with one header.
  using Sort = std::function<Result<SortedCopy>(const FilesOptions& files)>;
  Sort sort;
};

// In the order of the keys. Of lines: the count, the text of each key as the first line has it, and
// the sum, minimum and maximum of each value, with the separator between them, or tabs. Of rows: the
// keys, the count, the values; and a header with their names, if the inputs have one.
//
// Numbers are decimal ones, and added exactly. Errors: corrupt, with the text, where one is none;
// unsupported, where a sum has more than 38 digits; out_of_memory, where an eighth of the memory does
// not hold the `top` ones; otherwise as sort_files().
Result<GroupFilesStats> group_lines(const GroupLinesOptions& options);

}  // namespace penstock::files
