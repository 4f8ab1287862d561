#include "cli/common/table_guess.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <ranges>
#include <span>
#include <string_view>
#include <tuple>
#include <utility>

#include "base/amounts.h"
#include "base/misuse.h"
#include "base/printable.h"
#include "base/shell_word.h"
#include "cli/common/command.h"
#include "cli/common/input_notices.h"
#include "cli/common/print.h"
#include "interfaces/api/binary_input.h"
#include "interfaces/api/item_format.h"
#include "io/names.h"
#include "items/items.h"
#include "items/keys/text/key_words.h"
#include "items/keys/text/text_order.h"
#include "items/rows.h"

namespace penstock::cli {
namespace {

constexpr std::string_view separators = ",;\t|";
constexpr size_t sample_rows_max = 1000;  // rows to look at

// The first input that is not empty, and its beginning.
struct FirstInput {
  std::string name;
  const Beginning& beginning;
};

const std::vector<std::string>& named_or_stdin(const std::vector<std::string>& inputs) {
  static const std::vector<std::string> standard_input = {"-"};
  return inputs.empty() ? standard_input : inputs;
}

// nullopt: all inputs are empty, or the run will not be able to read the next one.
std::optional<FirstInput> first_input(const std::vector<std::string>& inputs,
                                      const SourceOptions& source, Beginnings& beginnings) {
  for (const std::string& input : named_or_stdin(inputs)) {
    const Beginning& beginning = beginnings.of(input, source, io::Wait::enough);
    if (!beginning.can_open) return {};
    if (beginning.is_empty()) continue;
    if (!beginning.is_read_once && (beginning.text.empty() || beginning.is_damaged)) return {};
    return FirstInput{input, beginning};
  }
  return {};
}

// The beginning of an input, with this separator.
struct Table {
  char separator = ',';
  std::vector<std::string> first;              // the first row
  std::vector<std::vector<std::string>> rows;  // those after the header, or all
  bool is_broken = false;                      // a row breaks the rules
  bool is_even = true;                         // all rows have as many columns as the first

  size_t columns() const { return first.size(); }
};

Table table_of(const Beginning& beginning, const items::Dialect& dialect, size_t header_lines) {
  items::Format format = *items::parse_format("lines");
  format.csv = dialect;
  Table table{.separator = dialect.separator};
  std::string_view text = beginning.text;
  text.remove_prefix(items::mark_bytes(format, text));
  for (size_t number = 0; !text.empty() && number < sample_rows_max; ++number) {
    const auto* const at = reinterpret_cast<const std::byte*>(text.data());
    std::string_view row = items::item_at(format, at, at + text.size());
    if (row.empty() && number > 0 && !beginning.is_all) break;
    if (row.empty()) row = text;
    text.remove_prefix(row.size());
    row = items::without_line_end(format, row);
    if (items::fault_of_row(row, dialect, format.line_end)) {
      table.is_broken = true;
      break;
    }
    std::vector<std::string> fields = items::fields_of_row(row, dialect);
    if (number == 0) table.first = fields;
    if (number < header_lines) continue;
    table.is_even &= fields.size() == table.columns();
    table.rows.push_back(std::move(fields));
  }
  return table;
}

bool is_decimal(std::string_view text) {
  constexpr auto digits = [](std::string_view part) {
    return !part.empty() && part.find_first_not_of("0123456789") == part.npos;
  };
  if (text.starts_with('-')) text.remove_prefix(1);
  const size_t point = std::min(text.find('.'), text.size());
  return digits(text.substr(0, point)) && (point == text.size() || digits(text.substr(point + 1)));
}

// A number, but not one with a zero in front, such as a postcode.
bool is_quantity(std::string_view text) {
  const std::string_view digits = text.substr(text.starts_with('-'));
  return is_decimal(text) && (!digits.starts_with('0') || digits.size() == 1 || digits[1] == '.');
}

// Returns whether all values of a column are such numbers, and at least `least` of them. Empty
// values count as none.
bool all_are(bool (*is_such)(std::string_view), const Table& table, size_t column, size_t least) {
  size_t numbers = 0;
  for (const auto& row : table.rows) {
    if (column >= row.size() || row[column].empty()) continue;
    if (!is_such(row[column])) return false;
    ++numbers;
  }
  return numbers >= least;
}

// The number of keys whose columns the table has; `names`: its header, or empty.
size_t keys_found(const std::vector<std::string>& keys, const Table& table,
                  const std::vector<std::string>& names) {
  return static_cast<size_t>(std::ranges::count_if(keys, [&](const std::string& key) {
    const auto columns = items::read_columns(key, names);
    return columns && std::ranges::all_of(*columns, [&](const items::Written& column) {
             return column.key.start_field < table.columns();
           });
  }));
}

// Returns whether the first row is a header: a row of text above a column of numbers. nullopt if
// that cannot be seen. `rows`: the table without its first row.
std::optional<bool> has_header(const Table& rows) {
  if (std::ranges::any_of(rows.first, is_decimal)) return false;
  for (size_t column = 0; column < rows.columns(); ++column) {
    if (all_are(is_decimal, rows, column, 1)) return true;
  }
  return {};
}

// Returns the table that the separators make, which has most of the keys, then as many columns in
// each row. `has_names`: the first row may be a header. `dialect`: quotes.
Table best_table(const Beginning& beginning, std::string_view among,
                 const std::vector<std::string>& keys = {}, bool has_names = true,
                 items::Dialect dialect = {}) {
  std::optional<Table> best;
  std::tuple<size_t, bool, bool, size_t> best_rank;
  for (const char separator : among) {
    dialect.separator = separator;
    Table table = table_of(beginning, dialect, 1);
    const std::tuple rank(
        keys_found(keys, table, has_names ? table.first : std::vector<std::string>()),
        table.columns() > 1, table.is_even && !table.is_broken, table.columns());
    if (best && rank <= best_rank) continue;
    best = std::move(table);
    best_rank = rank;
  }
  return *best;
}

std::string shown(char separator) {
  return separator == '\t' ? "tab" : fmt::format("'{}'", separator);
}

// Returns whether a key is a number alone, of a field or of a column, and was given as --key, not as
// GNU sort's -k.
bool is_bare_number(const std::string& key) {
  return !key.empty() && key.find_first_not_of("0123456789") == key.npos && was_typed("--key", key);
}

// Returns the options that describe a table.
std::string words_for(const TableLook& table) {
  std::string words = table.separator == '\t' ? "--tsv" : "--csv";
  if (table.has_header.value_or(true)) words += " --header";
  if (!std::string_view("\t,").contains(table.separator))
    words += " -t " + shell_word(std::string_view(&table.separator, 1));
  return words;
}

// Returns whether a key can only be a name, and no number.
bool needs_name(std::string_view key) {
  return !items::read_columns(key, {});
}

// Returns whether a key is a name for sure, not a number that is wrong, such as "0" or "1:q".
bool is_name(std::string_view key) {
  return needs_name(key) && !key.empty() && (key.front() < '0' || key.front() > '9');
}

std::unexpected<Error> no_columns(const std::string& key, const FirstInput& input) {
  return misuse(
      fmt::format("find the column {}: its first line has none of the separators , ; tab |", key),
      io::shown_input(input.name),
      "--csv --header -t SEPARATOR; or for a field of lines -k FIELD, as in -k 2,2n");
}

// Refuses a file in which lines of another kind, such as comments, stand in front of the header.
Status refuse_late_header(const std::vector<std::string>& keys, const Beginning& beginning,
                          const std::string& input) {
  constexpr size_t lines_max = 100;
  Beginning rest = beginning;
  for (size_t line = 1; line <= lines_max; ++line) {
    const size_t end = rest.text.find('\n');
    if (end == rest.text.npos) return {};
    rest.text.erase(0, end + 1);
    for (const char separator : separators) {
      const Table table = table_of(rest, separator, 1);
      if (table.columns() < 2 || keys_found(keys, table, table.first) < keys.size()) continue;
      return misuse(
          fmt::format("find the column {} in its first line; line {} is the header", keys.front(),
                      line + 1),
          io::shown_input(input),
          fmt::format("sed {}d {} | penstock ... -", line == 1 ? "1" : fmt::format("1,{}", line),
                      typed_word(input == "-" ? "" : input)));
    }
  }
  return {};
}

}  // namespace

bool has_name_of_table(std::string_view name, std::string_view suffix) {
  for (const std::string_view packed : {".gz", ".zst", ".lz4", ".xz", ".bz2"})
    if (name.ends_with(packed)) name.remove_suffix(packed.size());
  if (!suffix.empty()) return name.ends_with(suffix);
  return name.ends_with(".csv") || name.ends_with(".tsv");
}

bool asks_for_table(const FormatOptions& format, const std::vector<std::string>& keys) {
  const TextWords& text = format.text;
  if (format.name != "lines" || format.is_named() || text.zero) return false;
  if (text.separator && text.separator->size() != 1) return false;
  if (text.rows() && (text.no_header || !text.header.empty())) return false;
  // Numbers alone are columns if the file has --no-header, which lines need not be told.
  return std::ranges::any_of(keys, [&](const std::string& key) {
    return text.rows() ? is_name(key)
                       : items::names_column(key) || (text.no_header && is_bare_number(key));
  });
}

Status refuse_names(const std::vector<std::string>& keys, const std::string& option) {
  const auto name = std::ranges::find_if(keys, is_name);
  if (name == keys.end()) return {};
  return misuse("find a column by its name with " + option, "--key " + *name,
                "the number of a field, as in --key 2,2n; or the same without " + option);
}

namespace {

// Refuses a name that is no file, but a column of another input.
Status refuse_column_as_file(const std::vector<std::string>& inputs, const SourceOptions& source,
                             Beginnings& beginnings, bool has_key) {
  const auto is_there = [](const std::string& name) {
    return name == "-" || ::access(name.c_str(), F_OK) == 0;
  };
  const auto missing = std::ranges::find_if_not(inputs, is_there);
  const auto other = std::ranges::find_if(inputs, is_there);
  if (missing == inputs.end() || other == inputs.end() || !items::names_column(*missing)) return {};
  const Beginning& beginning = beginnings.of(*other, source);
  if (beginning.is_read_once) return {};
  for (const char separator : separators) {
    const Table table = table_of(beginning, separator, 1);
    if (table.columns() > 1 && items::read_columns(*missing, table.first))
      return misuse(
          "open this file; it is a column of " + io::shown_input(*other), *missing,
          (has_key ? "no such word, or another --key " : "--key ") + typed_word(*missing));
  }
  return {};
}

}  // namespace

Status prepare_for_keys(const std::vector<std::string>& columns,
                        const std::vector<std::string>& inputs, const SourceOptions& source,
                        Beginnings& beginnings, FormatOptions& format) {
  if (Status files = refuse_column_as_file(inputs, source, beginnings, !format.keys.empty());
      !files)
    return files;
  if (asks_for_table(format, columns))
    return recognize_table(columns, inputs, source, beginnings, format);
  if (format.name != "lines" || format.text.rows()) return {};
  if (format.text.zero) return refuse_names(format.keys, "-z");
  return format.is_named() ? refuse_names(format.keys, "--format lines")
                           : refuse_bare_numbers(format, inputs, source, beginnings);
}

Status recognize_table(const std::vector<std::string>& keys, const std::vector<std::string>& inputs,
                       const SourceOptions& source, Beginnings& beginnings, FormatOptions& format) {
  const auto named = std::ranges::find_if(keys, needs_name);
  TextWords& text = format.text;
  if (text.no_header && named != keys.end())
    return misuse("find a column by its name without a header", "--key " + *named,
                  "its number, as in --key 2:n, or no --no-header");
  if (text.rows()) {
    text.header = "true";
    return {};
  }
  const bool says_header = text.no_header || !text.header.empty();
  const auto set = [&](std::optional<char> separator, bool header) {
    text.csv = format.rows_fit_header = true;
    if (separator) text.separator = std::string(1, *separator);
    if (header && text.header.empty()) text.header = "true";
    return Status{};
  };
  const auto input = first_input(inputs, source, beginnings);
  if (!input) return set({}, !text.no_header);
  constexpr const char* say_it =
      "--csv --header or --csv --no-header, with -t for another separator than a comma";
  const std::string shown_name = io::shown_input(input->name);
  if (input->name == "-" && ::isatty(STDIN_FILENO) == 1)
    return misuse("look for columns on a terminal", "standard input", "the name of a file");
  const Beginning& beginning = input->beginning;
  ItemFormat words{.quote = text.quote, .escape = text.escape, .lenient = text.lenient};
  if (text.separator && text.separator->size() == 1) words.separator = text.separator->front();
  const auto dialect = api::dialect_of(words);
  if (!dialect) return std::unexpected(dialect.error());
  if (beginning.is_read_once)
    return misuse("look for columns in a named pipe or a device before it is read", shown_name,
                  say_it);
  if (!beginning.has_row(*dialect))
    return misuse(fmt::format("find the end of its first row in {}",
                              bytes_text(static_cast<double>(beginning.text.size()))),
                  shown_name, say_it);
  // How many rows of a pipe can be seen depends on the time; a header is waited for.
  if (named == keys.end() && !says_header && !beginning.head.is_file)
    return misuse("know whether the first row of a pipe is a header", shown_name,
                  "--header or --no-header");
  if (beginning.text.starts_with("{\""))
    return misuse("find columns in lines of JSON", shown_name,
                  "--jsonl" + (format.keys.empty() ? "" : " --key " + format.keys.front()));
  if (items::wide_encoding(beginning.text) != nullptr) return set({}, !text.no_header);
  if (source.decompress && beginning.text.contains('\0')) {
    if (Status lines = api::refuse_binary({}, input->name, beginning.head); !lines) return lines;
  }

  // Keys that are names decide by the header alone.
  const std::string given = text.separator.value_or("");
  const Table best = best_table(beginning, given.empty() ? separators : std::string_view(given),
                                keys, !text.no_header, *dialect);
  const size_t found =
      keys_found(keys, best, text.no_header ? std::vector<std::string>() : best.first);
  if (named != keys.end() && found == 0) {
    if (Status header = refuse_late_header(keys, beginning, input->name); !header) return header;
  }
  if (given.empty() && found == 0 && best.columns() <= 1 && !best.is_broken)
    return no_columns(named != keys.end() ? *named : keys.front(), *input);
  // A table of one column has no separator.
  const auto separator = best.columns() > 1 ? std::optional(best.separator) : std::nullopt;
  if (named != keys.end() || says_header) return set(separator, !text.no_header);
  const auto header = has_header(best);
  if (!header)
    return misuse("know whether its first row is a header", shown_name, "--header or --no-header");
  return set(separator, *header);
}

Status refuse_bare_numbers(const FormatOptions& format, const std::vector<std::string>& inputs,
                           const SourceOptions& source, Beginnings& beginnings) {
  const TextWords& text = format.text;
  if (format.name != "lines" || format.is_named() || text.zero || text.rows() || text.separator)
    return {};
  const auto number = std::ranges::find_if(format.keys, is_bare_number);
  if (number == format.keys.end()) return {};
  for (const std::string& input : named_or_stdin(inputs) | std::views::take(seen_inputs_max)) {
    const auto table = look_at_table(input, source, beginnings);
    if (!table || table->first.size() < 2) continue;
    const auto lacks_field = [&] {
      return !field_notice({.source = source}, beginnings, input, {*number}, true).empty();
    };
    if (!has_name_of_table(input) && !(table->is_even && lacks_field())) continue;
    return misuse("take a number alone for a column of " + io::shown_input(input),
                  "--key " + *number,
                  fmt::format("{} --key {}, or -k{} for a field of lines", words_for(*table),
                              *number, *number));
  }
  return {};
}

std::optional<TableLook> look_at_table(const std::string& input, const SourceOptions& source,
                                       Beginnings& beginnings, std::optional<char> separator) {
  const Beginning& beginning = beginnings.of(input, source);
  if (!beginning.head.is_file || beginning.is_damaged || beginning.text.empty() ||
      beginning.text.contains('\0'))
    return {};
  const char given[] = {separator.value_or(',')};
  Table table = best_table(beginning, separator ? std::string_view(given, 1) : separators);
  if (table.rows.empty()) return {};
  const auto breaks_lines = [](const auto& row) {
    return std::ranges::any_of(row, [](const std::string& field) { return field.contains('\n'); });
  };
  return TableLook{
      .separator = table.separator,
      .is_even = table.is_even && !table.is_broken,
      .has_header = has_header(table),
      .breaks_lines = breaks_lines(table.first) || std::ranges::any_of(table.rows, breaks_lines),
      .first = std::move(table.first)};
}

std::string table_notice(const FilesOptions& files, Beginnings& beginnings) {
  const ItemFormat& items = files.items;
  if (!items.rows_fit_header) return {};
  const auto input = first_input(files.inputs, files.source, beginnings);
  if (!input) return {};
  const Table table =
      table_of(input->beginning, api::dialect_of(items).value_or(items::Dialect()), 1);
  if (table.first.empty()) return {};
  std::string notice = io::shown_input(input->name) + ": ";
  notice += table.columns() == 1 ? std::string("one column")
                                 : fmt::format("separator {}", shown(table.separator));
  if (items.header_lines == 0)
    return notice + fmt::format(", no header, {} columns", table.columns());
  constexpr size_t names_max = 8;
  const size_t names = std::min(table.columns(), names_max);
  notice += fmt::format(
      ", header: {}",
      fmt::join(table.first | std::views::take(names) | std::views::transform(typed_word), ", "));
  if (names < table.columns()) notice += fmt::format(", ... ({} columns)", table.columns());
  return notice;
}

std::string text_order_notice(const FilesOptions& files, Beginnings& beginnings) {
  const ItemFormat& items = files.items;
  if (!items.csv || items.keys.empty() ||
      !beginnings.of(files.inputs.front(), files.source).head.is_file)
    return {};
  const auto input = first_input(files.inputs, files.source, beginnings);
  if (!input || !input->beginning.head.is_file) return {};
  const auto dialect = api::dialect_of(items);
  if (!dialect) return {};
  const Table table = table_of(input->beginning, *dialect, items.header_lines);
  if (table.is_broken) return {};
  const bool has_names = items.header_lines > 0;
  const auto order =
      items::TextOrder::make({.keys = items.keys,
                              .letters = items.letters,
                              .separator = table.separator,
                              .csv = *dialect,
                              .header = has_names ? table.first : std::vector<std::string>()});
  if (!order) return {};
  for (const items::TextKey& key : (*order)->keys()) {
    const size_t column = key.start_field;
    if (key.compare != items::TextCompare::bytes || column >= table.columns() ||
        !all_are(is_quantity, table, column, 2))
      continue;
    const std::string name = has_names ? table.first[column] : std::to_string(column + 1);
    return fmt::format("{}{} looks like numbers (try: --key {})", has_names ? "" : "column ", name,
                       typed_word(name + (key.reverse ? ":n:desc" : ":n")));
  }
  return {};
}

std::string header_notice(const FilesOptions& files, Beginnings& beginnings, bool takes_keys) {
  const ItemFormat& items = files.items;
  if (items.name != "lines" || items.header_lines > 0 || items.zero_terminated) return {};
  const std::string& input = files.inputs.front();
  const bool is_declared = items.csv || items.separator;
  const bool is_named = has_name_of_table(input);
  const bool is_told_all = ::isatty(STDERR_FILENO) != 0;
  if (!is_declared && (!items.keys.empty() || !(is_named || is_told_all))) return {};
  const auto separator = items.csv ? std::optional(items.separator.value_or(',')) : items.separator;
  const auto table = look_at_table(input, files.source, beginnings, separator);
  if (!table || !(table->is_even || items.csv || is_named)) return {};
  if (!items.csv && !is_named && table->first.size() < 2) return {};
  if (table->has_header.value_or(!is_declared && is_named && is_told_all)) {
    const std::string& name = table->first.front();
    const std::string key =
        name.empty() || !takes_keys ? "" : fmt::format("--key {}, or ", typed_word(name));
    return fmt::format("{}: row 1 looks like a header, but counts as data (try: {})", input,
                       is_declared ? "--header" : key + words_for(*table));
  }
  if (is_declared || !is_told_all || !table->breaks_lines) return {};
  return fmt::format("{}: read as lines, which cut rows with line ends in quotes (try: {})", input,
                     words_for(*table));
}

}  // namespace penstock::cli
