#pragma once

// The output of a join of lines: fields of all sides in one line, objects of JSON lines, or lines of
// the first side as they are.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "files/bowtie/computations.h"
#include "files/ops/join/join_lines.h"
#include "files/ops/join/join_sides.h"

namespace penstock::files {

// The first row of a side, or its header: the number of fields that every row has, and the carriage
// return.
struct FirstRow {
  size_t fields = 0;
  std::string line_return;
};
// Returns the row that was first in an input before it was sorted.
std::optional<FirstRow> first_row_of(const SortedCopy& sorted, const items::Format& format);

// A row with values in more fields than the first row of its side, for which there is no column.
struct LongRow {
  size_t side = 0;
  size_t fields_max = 0;
  std::string text;
};
// Returns the error of such a row, with its place if the file can be read again.
std::unexpected<Error> refuse_long_row(const LongRow& row, const FilesOptions& files);

// The properties of a run that a writer needs. `lines` counts the written ones without the header.
// `long_row` is set if such a row ends the run.
struct LineOutput {
  bowtie::OutputStream& output;
  const std::vector<std::optional<FirstRow>>& first_rows;  // one for each side
  uint64_t& lines;
  std::optional<LongRow>& long_row;
};
// The memory that it takes.
inline constexpr uint64_t line_writer_bytes = 640 * KiB;
// REQUIRES: the arguments outlive it; the options' list is one of fields of the sides.
std::unique_ptr<JoinWriter> line_writer(const JoinLinesOptions& options, const LineOutput& to);

}  // namespace penstock::files
