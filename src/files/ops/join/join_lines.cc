#include "files/ops/join/join_lines.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/misuse.h"
#include "base/printable.h"
#include "files/bowtie/addresses.h"
#include "files/ops/join/join_sides.h"
#include "files/ops/merge/merge_files.h"
#include "files/run/file_run.h"
#include "files/run/walk.h"
#include "items/fields.h"
#include "items/keys/text/text_order.h"
#include "items/rows.h"

namespace penstock::files {
namespace {

using bowtie::OutputStream;
using bowtie::Streams;

constexpr size_t all_keys = ~size_t{0};

// A word of the list of output fields.
struct Column {
  int side = 0;
  size_t field = all_keys;  // 0-based
};

// Splits "1.name" into the side and the text behind the point.
std::optional<std::pair<int, std::string_view>> side_and_field(std::string_view word) {
  if (word.size() < 3 || word[1] != '.' || (word[0] != '1' && word[0] != '2')) return {};
  return std::pair{word[0] - '1', word.substr(2)};
}

constexpr std::string_view separators = ", \t";

// Splits a list at these separators. A word, or its part behind the point, may be quoted to contain
// them, as in CSV. Returns empty if a quote is not closed or closed too early.
std::optional<std::vector<std::string>> words_of(std::string_view list) {
  std::vector<std::string> words;
  for (size_t at = 0; at < list.size(); ++at) {
    std::string& word = words.emplace_back();
    bool closed = false;
    for (; at < list.size() && separators.find(list[at]) == separators.npos; ++at) {
      if (closed) return {};
      if (list[at] != items::quote || !(word.empty() || (word.size() == 2 && word[1] == '.'))) {
        word += list[at];
        continue;
      }
      for (++at;; ++at) {
        if (at == list.size()) return {};
        if (list[at] == items::quote && !list.substr(at + 1).starts_with(items::quote)) break;
        at += list[at] == items::quote;
        word += list[at];
      }
      closed = true;
    }
  }
  return words;
}

// A line and its fields. Thread safety: one thread.
struct Line {
  std::string_view text;
  std::vector<std::string_view> fields;
  std::string_view line_return;  // carriage return at the end of a row

  void set(std::string_view line, const items::Format& format, const items::FieldStyle& style) {
    text = items::without_line_end(format, line);
    if (style.csv) {
      const std::string_view row = items::without_return(text);
      line_return = text.substr(row.size());
      text = row;
    }
    split_fields(text, style, fields);
  }
};

// The first row of a side, or its header: the number of fields that every row has, and the carriage
// return.
struct FirstRow {
  size_t fields = 0;
  std::string line_return;
};

// True if the fields of a row behind the first `fields` are empty.
bool fits(const std::vector<std::string_view>& row, size_t fields) {
  return std::all_of(row.begin() + static_cast<ptrdiff_t>(std::min(fields, row.size())), row.end(),
                     [](std::string_view one) { return one.empty() || one == "\"\""; });
}

FirstRow first_row_of(const Line& line) {
  return {line.fields.size(), std::string(line.line_return)};
}

// The row that was first in an input before it was sorted.
std::optional<FirstRow> first_row_of(const SortedCopy& sorted, const items::Format& format) {
  if (sorted.first_row.empty()) return {};
  Line line;
  line.set(sorted.first_row, format, items::style_of(format, {}));
  return first_row_of(line);
}

// A row with values in more fields than the first row of its side, for which there is no column.
struct LongRow {
  size_t side = 0;
  size_t fields_max = 0;
  std::string text;
};

bool is_too_long(std::string_view row, const items::Format& format, size_t fields_max) {
  std::vector<std::string_view> fields;
  split_fields(items::without_return(row), items::style_of(format, {}), fields);
  return !fits(fields, fields_max);
}

// The error of such a row, with its place if the file can be read again.
std::unexpected<Error> refuse(const LongRow& row, const FilesOptions& files) {
  std::optional<ItemPlace> found;
  if (is_named_file(files, row.side)) {
    found = find_row(files, {row.side}, [&](std::string_view text) {
      return is_too_long(text, files.format, row.fields_max);
    });
  }
  return failure(
      ErrorCode::corrupt,
      fmt::format("join {}: it has values in more than the {} columns of the {}",
                  found ? found->place.text(files.format) : "the row '" + printable(row.text) + "'",
                  row.fields_max, files.format.header_lines > 0 ? "header" : "first row"),
      input_name(files, row.side), "-o with the columns that are wanted, or -o auto");
}

// The lines that come out. Thread safety: one thread.
class LineWriter final : public JoinWriter {
 public:
  LineWriter(const JoinLinesOptions& options, const std::array<std::optional<FirstRow>, 2>& rows,
             OutputStream& output, uint64_t* lines, std::optional<LongRow>* long_row)
      : options_(options),
        rows_(rows),
        long_row_(long_row),
        format_(options.files.format),
        style_(items::style_of(format_, options.separator)),
        separator_(style_.separator.value_or(' ')),
        empty_(style_.csv ? items::row_field(options.empty, separator_) : options.empty),
        output_(output),
        lines_(lines) {}

  Status begin(const JoinSide& left, const JoinSide& right) override;
  std::string_view piece_of_right(const JoinSide& right) override { return right.item(); }
  Status pair(std::string_view left, std::string_view right) override {
    left_.set(left, format_, style_);
    right_.set(right, format_, style_);
    ++*lines_;
    return write(&left_, &right_);
  }
  bool wants_pairs() const override { return options_.pairs; }
  bool wants_alone(int side) const override { return options_.alone[static_cast<size_t>(side)]; }
  Status alone(int side, std::string_view item) override {
    Line& line = side == 0 ? left_ : right_;
    line.set(item, format_, style_);
    ++*lines_;
    return write(side == 0 ? &line : nullptr, side == 1 ? &line : nullptr);
  }

 private:
  Status resolve(const std::array<std::vector<std::string>, 2>& names);
  Status write(const Line* left, const Line* right);
  void add(std::string_view field) {
    if (!line_.empty() || begun_) line_ += separator_;
    begun_ = true;
    const bool is_empty = field.empty() || (style_.csv && field == "\"\"" && !empty_.empty());
    line_ += is_empty ? std::string_view(empty_) : field;
  }
  void add(const Line* line, size_t field) {
    add(line != nullptr && field < line->fields.size() ? line->fields[field] : std::string_view());
  }
  void add_keys(const Line* left, const Line* right);

  const JoinLinesOptions& options_;
  const std::array<std::optional<FirstRow>, 2>& rows_;
  std::optional<LongRow>* const long_row_;  // the row that ended the run
  const items::Format& format_;
  const items::FieldStyle style_;
  const char separator_;
  const std::string empty_;
  OutputStream& output_;
  uint64_t* lines_;
  std::array<std::vector<size_t>, 2> keys_;  // key fields of each side
  std::array<size_t, 2> widths_ = {};        // number of fields of each side's first line
  std::string end_;                          // line end of the output: the first line's
  std::vector<Column> columns_;              // the list; empty: there is none
  bool is_auto_ = false;
  Line left_;
  Line right_;
  std::string line_;
  bool begun_ = false;
};

Status LineWriter::begin(const JoinSide& left, const JoinSide& right) {
  std::array<std::vector<std::string>, 2> names;
  std::array<Line, 2> headers;
  std::array<bool, 2> has_header = {};
  std::optional<std::string> line_return;
  for (size_t side = 0; side < 2; ++side) {
    const JoinSide& one = side == 0 ? left : right;
    if (one.format().keys != nullptr)
      keys_[side] = static_cast<const items::TextOrder&>(*one.format().keys).fields();
    const size_t mark_bytes = items::mark_bytes(format_, one.header());
    const std::string_view header = std::string_view(one.header()).substr(mark_bytes);
    if (side == 0 && mark_bytes > 0 && !output_.append(one.header().data(), mark_bytes))
      return output_.status();
    has_header[side] = !header.empty();
    Line& first = headers[side];
    if (has_header[side]) {
      first.set(header, format_, style_);
      if (style_.csv) names[side] = items::fields_of_row(first.text, separator_);
    } else if (!one.done()) {
      first.set(one.item(), format_, style_);
    } else {
      continue;
    }
    const FirstRow row = has_header[side] || !rows_[side] ? first_row_of(first) : *rows_[side];
    widths_[side] = row.fields;
    if (!line_return) line_return = row.line_return;
  }
  end_ = line_return.value_or("") + format_.line_end;
  if (auto status = resolve(names); !status) return status;
  if (!has_header[0] && !has_header[1]) return {};
  return write(has_header[0] ? &headers[0] : nullptr, has_header[1] ? &headers[1] : nullptr);
}

Status LineWriter::resolve(const std::array<std::vector<std::string>, 2>& names) {
  is_auto_ = options_.list == "auto";
  if (is_auto_ || options_.list.empty()) return {};
  const auto words = words_of(options_.list);
  if (!words) return no_field_list(options_.list);
  for (const std::string& word : *words) {
    if (word == "0") {
      columns_.push_back({});
      continue;
    }
    const auto place = side_and_field(word);
    if (!place) return no_field_list(options_.list);
    const auto& [side, name] = *place;
    const std::vector<std::string>& header = names[static_cast<size_t>(side)];
    auto column = items::column_of(name, header, "-o " + word);
    // An empty side without a header has only missing fields, whatever the column.
    if (!column && header.empty() && style_.csv && format_.header_lines > 0) column = all_keys - 1;
    if (!column) {
      column.error().hint += "; for a file --output FILE";
      return std::unexpected(column.error());
    }
    columns_.push_back({side, *column});
  }
  return {};
}

void LineWriter::add_keys(const Line* left, const Line* right) {
  const size_t side = left != nullptr ? 0 : 1;
  for (const size_t field : keys_[side]) add(left != nullptr ? left : right, field);
}

Status LineWriter::write(const Line* left, const Line* right) {
  line_.clear();
  begun_ = false;
  if (!columns_.empty()) {
    for (const Column& column : columns_) {
      if (column.field == all_keys) {
        add_keys(left, right);
      } else {
        add(column.side == 0 ? left : right, column.field);
      }
    }
  } else {
    add_keys(left, right);
    for (size_t side = 0; side < 2; ++side) {
      const Line* const line = side == 0 ? left : right;
      size_t fields = line != nullptr ? line->fields.size() : 0;
      // Every row gets as many fields as the first, so that each value stays in its column.
      if (style_.csv && !is_auto_ && line != nullptr && !fits(line->fields, widths_[side])) {
        *long_row_ = LongRow{side, widths_[side], std::string(line->text)};
        return failure(ErrorCode::corrupt, "join a row that is too long", "join");
      }
      if (is_auto_ || style_.csv) fields = widths_[side];
      for (size_t field = 0; field < fields; ++field) {
        if (std::ranges::find(keys_[side], field) == keys_[side].end()) add(line, field);
      }
    }
  }
  line_ += end_;
  if (!output_.append(line_.data(), line_.size())) return output_.status();
  return {};
}

// The order of a side.
Result<items::Format> format_of_side(const JoinLinesOptions& options, size_t side) {
  items::Format format = options.files.format;
  const items::FieldStyle style = items::style_of(format, options.separator);
  items::TextOptions text{.letters = options.letters,
                          .separator = style.separator,
                          .stable = true,
                          .locale = options.locale,
                          .csv = style.csv};
  for (const std::string& key : options.keys[side]) {
    // A field counts without the blanks in front of it, a column as it is.
    const char* const blanks = text.separator ? "" : "b";
    text.keys.push_back(text.csv ? key
                                 : fmt::format("{0}{1},{0}{2}", key, blanks, options.letters));
  }
  if (text.csv && format.header_lines > 0) {
    format.columns = std::make_shared<const items::TextOptions>(std::move(text));
    return format;
  }
  auto order = items::TextOrder::make(text);
  if (!order) return std::unexpected(order.error());
  format.keys = *order;
  return format;
}

// Checks a file; a pipe counts as unsorted, because it cannot be read twice.
Result<bool> is_sorted(const JoinLinesOptions& options, size_t side, const items::Format& format) {
  if (!is_named_file(options.files, side)) return false;
  MergeFilesOptions look;
  static_cast<FilesOptions&>(look) = with_input(options.files, side);
  look.format = format;
  auto found = find_disorder(look);
  if (!found) return std::unexpected(found.error());
  return !*found;
}

}  // namespace

bool is_field_list(std::string_view word) {
  if (word == "auto") return true;
  const auto words = words_of(word);
  return words && !words->empty() && std::ranges::all_of(*words, [](std::string_view one) {
           return one == "0" || side_and_field(one).has_value();
         });
}

bool looks_like_field_list(std::string_view word) {
  if (word.starts_with('/') || word.starts_with("./") || word.starts_with("../")) return false;
  const bool begins_with_digit = !word.empty() && word[0] >= '0' && word[0] <= '9';
  return word.contains(',') || word.starts_with(items::quote) ||
         (begins_with_digit && (word.size() == 1 || word[1] == '.' || word[1] == ' ' ||
                                word.find_first_not_of("0123456789") == word.npos));
}

std::unexpected<Error> no_field_list(const std::string& word) {
  return misuse("read this list of fields", "-o " + word,
                "0, 1.2, 2.name or 2.\"a, name\", with commas between them; for a file --output "
                "FILE, or ./NAME");
}

Result<JoinLinesStats> join_lines(const JoinLinesOptions& options) {
  const FilesOptions& files = options.files;
  if (input_count(files) != 2) {
    return failure(ErrorCode::invalid_argument, fmt::format("join {} files", input_count(files)),
                   "join", "two files");
  }
  if (options.keys[0].size() != options.keys[1].size())
    return misuse("join by more keys on one side", "join", "as many keys for both files");
  FileRun run(files, "join");
  JoinLinesStats stats;
  std::vector<items::Format> formats;
  std::array<std::optional<SortedCopy>, 2> sorted;
  std::array<std::optional<FirstRow>, 2> first_rows;
  for (size_t side = 0; side < 2; ++side) {
    auto format = format_of_side(options, side);
    if (!format) return std::unexpected(format.error());
    formats.push_back(*format);
    if (!options.sort) continue;
    auto in_order = is_sorted(options, side, *format);
    if (!in_order) return std::unexpected(in_order.error());
    if (*in_order) continue;
    auto copy = options.sort(side, *format);
    if (!copy) return std::unexpected(copy.error());
    sorted[side] = std::move(*copy);
    first_rows[side] = first_row_of(*sorted[side], *format);
    ++stats.sorted_inputs;
    if (auto size = sorted[side]->file.size(); size) run.count_temporary_bytes(*size);
  }
  std::vector<std::optional<const io::File*>> instead(2);
  for (size_t side = 0; side < 2; ++side) {
    if (sorted[side]) instead[side] = &sorted[side]->file;
  }
  auto status = run.start({.formats = formats, .instead = instead, .own_headers = true});
  if (!status) return std::unexpected(status.error());
  auto output = run.open_output();
  if (!output) return std::unexpected(output.error());
  const std::array names = {input_name(files, 0), input_name(files, 1)};
  std::optional<LongRow> long_row;
  const uint64_t usable = run.usable_bytes();
  const bool known = run.input_bytes() != bowtie::unknown_bytes;
  if (!run.inputs().empty()) {
    status = run.pass(
        // The size of products has no known bound.
        run.inputs(), {{.file = &*output, .bytes_max = bowtie::stream_address_bytes()}},
        [&](Streams& streams) -> Status {
          JoinSide left(streams, run.places()[0], formats[0], false, run.headers()[0], names[0]);
          JoinSide right(streams, run.places()[1], formats[1], false, run.headers()[1], names[1]);
          for (JoinSide* side : {&left, &right}) {
            if (auto started = side->start(); !started) return started;
          }
          LineWriter writer(options, first_rows, streams.output(0), &stats.items, &long_row);
          return join_sides(left, right, writer, {.bytes_max = usable / 8});
        },
        {.format = files.format,
         .memory_bytes = usable - usable / 4,
         .phase = "join",
         .total_bytes = known ? 2 * run.input_bytes() : 0});
    if (long_row) return refuse(*long_row, files);
    if (!status) return std::unexpected(status.error());
  }
  if (status = run.finish(*output, stats); !status) return std::unexpected(status.error());
  return stats;
}

}  // namespace penstock::files
