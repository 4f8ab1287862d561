#pragma once

// Tables that no option describes: if a key names a column, the separator and the header are
// recognized from the first bytes of the input.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/common/beginnings.h"
#include "cli/common/format_options.h"
#include "penstock/files.h"

namespace penstock::cli {

// Prepares the format for its keys: recognizes the table if they or other columns ask for one.
// `columns`: all of them, the keys in front. Errors: those of recognize_table(); a key names a
// column, and an option leaves lines without columns; "--key 2", if an input is a table by its name
// or by its first line: it may mean the column or the field of a line, and lines have no header.
// (-k is GNU sort's, and means the field.)
Status prepare_for_keys(const std::vector<std::string>& columns,
                        const std::vector<std::string>& inputs, const SourceOptions& source,
                        Beginnings& beginnings, FormatOptions& format);
// The part of prepare_for_keys() on such numbers.
Status refuse_bare_numbers(const FormatOptions& format, const std::vector<std::string>& inputs,
                           const SourceOptions& source, Beginnings& beginnings);
// Refuses keys that are names of columns, where `option` leaves lines without columns.
Status refuse_names(const std::vector<std::string>& keys, const std::string& option);

// Returns whether a key can only be a column's, and the options leave open what the input is: they
// are none of --format and -z, and with --csv and --tsv there is no word on the header.
bool asks_for_table(const FormatOptions& format, const std::vector<std::string>& keys);

// Sets the options that describe the first input that is not empty, as --csv -t ';' --header does;
// rows with another number of columns than the header then are errors. Empty and missing inputs
// count as CSV with commas. With --csv and --tsv only the header is set. Errors: invalid_argument
// if there are no such columns, or the input can be read only once.
Status recognize_table(const std::vector<std::string>& keys, const std::vector<std::string>& inputs,
                       const SourceOptions& source, Beginnings& beginnings, FormatOptions& format);

// The beginning of a file that may be a table, without any word on it.
struct TableLook {
  char separator = ',';
  bool is_even = false;                 // all rows have as many columns, and break no rule
  std::optional<bool> has_header = {};  // nullopt: the rows do not show it
  bool breaks_lines = false;            // a field has a line end
  std::vector<std::string> first = {};  // the first row
};
// Returns nullopt if the input is no file, or its first row is the only one. `separator`: the only
// one to try.
std::optional<TableLook> look_at_table(const std::string& input, const SourceOptions& source,
                                       Beginnings& beginnings, std::optional<char> separator = {});

// "orders.csv: separator ';', header: id, customer, price", if recognize_table() has found that;
// otherwise empty.
std::string table_notice(const FilesOptions& files, Beginnings& beginnings);
// A notice about the first key that compares a column of numbers as text, in a file; empty if there
// is none.
std::string text_order_notice(const FilesOptions& files, Beginnings& beginnings);
// A notice about a header that counts as data. It is given if the separator was given, and, for
// lines without keys, if the file has a table's name or stderr is a terminal. On a terminal, rows
// that line ends cut into pieces cause it, too. `takes_keys`: the command has --key.
std::string header_notice(const FilesOptions& files, Beginnings& beginnings, bool takes_keys);
// Returns whether a file's name is one of tables, such as "orders.csv" or "orders.tsv.gz", or of
// those whose `suffix` this is.
bool has_name_of_table(std::string_view name, std::string_view suffix = {});

}  // namespace penstock::cli
