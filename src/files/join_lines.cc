#include "files/join_lines.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/misuse.h"
#include "bowtie/addresses.h"
#include "files/file_run.h"
#include "files/join_sides.h"
#include "files/merge_files.h"
#include "record/fields.h"
#include "record/rows.h"
#include "record/text/text_order.h"

namespace penstock::files {
namespace {

using bowtie::OutputStream;
using bowtie::Streams;

constexpr size_t all_keys = ~size_t{0};

// A word of the list.
struct Column {
  int side = 0;
  size_t field = all_keys;  // from 0 on
};

// "1.name": the side, and what stands behind the point.
std::optional<std::pair<int, std::string_view>> side_and_field(std::string_view word) {
  if (word.size() < 3 || word[1] != '.' || (word[0] != '1' && word[0] != '2')) return {};
  return std::pair{word[0] - '1', word.substr(2)};
}

std::vector<std::string_view> words_of(std::string_view list) {
  std::vector<std::string_view> words;
  while (!list.empty()) {
    const size_t end = std::min(list.find_first_of(", \t"), list.size());
    words.push_back(list.substr(0, end));
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return words;
}

// A line and its fields. Thread safety: one thread.
struct Line {
  std::string_view text;
  std::vector<std::string_view> fields;
  std::string_view line_return;  // of a row that ends with one

  void set(std::string_view line, const record::Format& format, const record::FieldStyle& style) {
    text = record::without_line_end(format, line);
    if (style.csv) {
      const std::string_view row = record::without_return(text);
      line_return = text.substr(row.size());
      text = row;
    }
    split_fields(text, style, fields);
  }
};

// The lines that come out. Thread safety: one thread.
class LineWriter final : public JoinWriter {
 public:
  LineWriter(const JoinLinesOptions& options, OutputStream& output, uint64_t* lines)
      : options_(options),
        format_(options.files.format),
        style_(record::style_of(format_, options.separator)),
        separator_(style_.separator.value_or(' ')),
        empty_(style_.csv ? record::row_field(options.empty, separator_) : options.empty),
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
    line_ += field.empty() ? std::string_view(empty_) : field;
  }
  void add(const Line* line, size_t field) {
    add(line != nullptr && field < line->fields.size() ? line->fields[field] : std::string_view());
  }
  void add_keys(const Line* left, const Line* right);

  const JoinLinesOptions& options_;
  const record::Format& format_;
  const record::FieldStyle style_;
  const char separator_;
  const std::string empty_;
  OutputStream& output_;
  uint64_t* lines_;
  std::array<std::vector<size_t>, 2> keys_;  // fields
  std::array<size_t, 2> widths_ = {};        // of the first line of each side
  std::vector<Column> columns_;              // empty: no list
  bool is_auto_ = false;
  Line left_;
  Line right_;
  std::string line_;
  bool begun_ = false;
};

Status LineWriter::begin(const JoinSide& left, const JoinSide& right) {
  constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";
  std::array<std::vector<std::string>, 2> names;
  std::array<Line, 2> headers;
  bool marked = false;
  for (size_t side = 0; side < 2; ++side) {
    const JoinSide& one = side == 0 ? left : right;
    if (one.format().keys != nullptr)
      keys_[side] = static_cast<const record::TextOrder&>(*one.format().keys).fields();
    std::string_view header = one.header();
    if (header.starts_with(byte_order_mark)) {
      header.remove_prefix(byte_order_mark.size());
      marked |= side == 0;
    }
    headers[side].set(header, format_, style_);
    if (style_.csv && !header.empty())
      names[side] = record::fields_of_row(headers[side].text, separator_);
    if (header.empty() && !one.done()) {
      Line first;
      first.set(one.item(), format_, style_);
      widths_[side] = first.fields.size();
    } else if (!header.empty()) {
      widths_[side] = headers[side].fields.size();
    }
  }
  if (auto status = resolve(names); !status) return status;
  if (left.header().empty() && right.header().empty()) return {};
  if (marked && !output_.append(byte_order_mark.data(), byte_order_mark.size()))
    return output_.status();
  return write(left.header().empty() ? nullptr : &headers[0],
               right.header().empty() ? nullptr : &headers[1]);
}

Status LineWriter::resolve(const std::array<std::vector<std::string>, 2>& names) {
  is_auto_ = options_.list == "auto";
  if (is_auto_ || options_.list.empty()) return {};
  for (const std::string_view word : words_of(options_.list)) {
    if (word == "0") {
      columns_.push_back({});
      continue;
    }
    const auto place = side_and_field(word);
    if (!place) return misuse("write such a list of fields", "-o " + options_.list, "0, 1.2, 2.3");
    const auto& [side, name] = *place;
    const std::vector<std::string>& header = names[static_cast<size_t>(side)];
    auto column = record::column_of(name, header, "-o " + std::string(word));
    // A side that holds nothing, not even a header, has nothing in its columns.
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
      // So that all rows have as many fields.
      if (is_auto_ || (style_.csv && line == nullptr)) fields = widths_[side];
      for (size_t field = 0; field < fields; ++field) {
        if (std::ranges::find(keys_[side], field) == keys_[side].end()) add(line, field);
      }
    }
  }
  line_ += (left != nullptr ? left : right)->line_return;
  line_ += format_.line_end;
  if (!output_.append(line_.data(), line_.size())) return output_.status();
  return {};
}

// The order of a side.
Result<record::Format> format_of_side(const JoinLinesOptions& options, size_t side) {
  record::Format format = options.files.format;
  record::TextOptions text{.letters = options.letters,
                           .separator = format.csv ? format.csv : options.separator,
                           .stable = true,
                           .locale = options.locale,
                           .csv = format.csv.has_value()};
  for (const std::string& key : options.keys[side]) {
    // Of fields all but the blanks in front; of columns all.
    const char* const blanks = text.separator ? "" : "b";
    text.keys.push_back(text.csv ? key
                                 : fmt::format("{0}{1},{0}{2}", key, blanks, options.letters));
  }
  if (text.csv && format.header_lines > 0) {
    format.columns = std::make_shared<const record::TextOptions>(std::move(text));
    return format;
  }
  auto order = record::TextOrder::make(text);
  if (!order) return std::unexpected(order.error());
  format.keys = *order;
  return format;
}

// Files are looked at; what a pipe holds, nobody knows before.
Result<bool> is_sorted(const JoinLinesOptions& options, size_t side, const record::Format& format) {
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
  return !words.empty() && std::ranges::all_of(words, [](std::string_view one) {
    return one == "0" || side_and_field(one).has_value();
  });
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
  std::vector<record::Format> formats;
  std::vector<std::shared_ptr<const file::File>> sorted(2);
  for (size_t side = 0; side < 2; ++side) {
    auto format = format_of_side(options, side);
    if (!format) return std::unexpected(format.error());
    formats.push_back(*format);
    if (!options.sort) continue;
    auto in_order = is_sorted(options, side, *format);
    if (!in_order) return std::unexpected(in_order.error());
    if (*in_order) continue;
    auto file = options.sort(side, *format);
    if (!file) return std::unexpected(file.error());
    sorted[side] = std::move(*file);
    ++stats.sorted_inputs;
    if (auto size = sorted[side]->size(); size) run.count_temporary_bytes(*size);
  }
  std::vector<std::optional<const file::File*>> instead(2);
  for (size_t side = 0; side < 2; ++side) {
    if (sorted[side] != nullptr) instead[side] = sorted[side].get();
  }
  auto status = run.start({.formats = formats, .instead = instead, .takes_headers = true});
  if (!status) return std::unexpected(status.error());
  auto output = run.open_output();
  if (!output) return std::unexpected(output.error());
  const uint64_t usable = run.usable_bytes();
  const bool known = run.input_bytes() != bowtie::unknown_bytes;
  if (!run.inputs().empty()) {
    status = run.pass(
        // Products have no bound that is known before.
        run.inputs(), {{.file = &*output, .bytes_max = bowtie::stream_address_bytes}},
        [&](Streams& streams) -> Status {
          JoinSide left(streams, run.places()[0], formats[0], false);
          JoinSide right(streams, run.places()[1], formats[1], false);
          for (JoinSide* side : {&left, &right}) {
            if (auto started = side->start(); !started) return started;
          }
          LineWriter writer(options, streams.output(0), &stats.items);
          return join_sides(left, right, writer, {.bytes_max = usable / 8});
        },
        {.format = files.format,
         .memory_bytes = usable - usable / 4,
         .phase = "join",
         .total_bytes = known ? 2 * run.input_bytes() : 0});
    if (!status) return std::unexpected(status.error());
  }
  if (status = run.finish(*output, stats); !status) return std::unexpected(status.error());
  return stats;
}

}  // namespace penstock::files
