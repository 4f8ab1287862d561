#include "files/ops/join/line_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>
#include <utility>

#include "base/printable.h"
#include "base/run_scope.h"
#include "files/ops/group/group_rounds.h"
#include "files/ops/join/field_list.h"
#include "files/run/walk.h"
#include "items/fields.h"
#include "items/keys/text/text_order.h"
#include "items/rows.h"

namespace penstock::files {
namespace {

// Longer fields are written at once, not copied to a line.
constexpr size_t piece_bytes_max = 64 * KiB;
// Two batches of rows, and lines of twice as many bytes.
constexpr uint64_t batch_bytes = (line_writer_bytes - thread_bytes) / 4;

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

// True if the fields of a row after the first `fields` are empty.
bool fits(const std::vector<std::string_view>& row, size_t fields, const items::Dialect& dialect) {
  return std::all_of(row.begin() + static_cast<ptrdiff_t>(std::min(fields, row.size())), row.end(),
                     [&](std::string_view one) { return is_empty_field(one, dialect); });
}

FirstRow first_row_of(const Line& line) {
  return {line.fields.size(), std::string(line.line_return)};
}

bool is_too_long(std::string_view row, const items::Format& format, size_t fields_max) {
  std::vector<std::string_view> fields;
  split_fields(items::without_return(row), items::style_of(format, {}), fields);
  return !fits(fields, fields_max, *format.csv);
}

// Lines with fields of all sides. Thread safety: one thread.
class FieldWriter final : public JoinWriter {
 public:
  FieldWriter(const JoinLinesOptions& options, const LineOutput& to)
      : options_(options),
        to_(to),
        format_(options.files.format),
        style_(items::style_of(format_, options.separator)),
        separator_(style_.separator.value_or(' ')),
        empty_(style_.csv ? items::row_field(options.empty, *style_.csv) : options.empty) {}

  Status begin(const std::vector<SideHead>& sides) override;
  Status write(JoinRow row) override {
    for (size_t side = 0; side < row.size(); ++side) {
      row_[side] = row[side] ? &lines_[side] : nullptr;
      if (row[side]) lines_[side].set(*row[side], format_, style_);
    }
    ++to_.lines;
    if (auto made = make_line(); !made) return made;
    return keeps_lines_ ? Status() : flush();
  }

  // From here on write() keeps its lines, or writes them again; flush() writes those that are kept.
  void keep_lines(bool keeps) { keeps_lines_ = keeps; }
  size_t kept_bytes() const { return line_.size(); }
  // The most bytes of the line of a row of so many bytes.
  size_t line_bytes_max(size_t row_bytes) const { return repeats_ * row_bytes + fixed_bytes_; }
  Status flush() {
    const bool written = fine_ && to_.output.append(line_.data(), line_.size());
    line_.clear();
    return written ? Status() : to_.output.status();
  }

 private:
  static constexpr size_t all_keys = ~size_t{0};

  // A word of the list.
  struct Column {
    size_t side = 0;
    size_t field = all_keys;  // 0-based
  };

  Status resolve(const std::vector<std::vector<std::string>>& names);
  Status make_line();
  // Adds all fields of a side but its keys.
  Status add_others(size_t side);
  void add(std::string_view field) {
    if (begun_) line_ += separator_;
    begun_ = true;
    const bool is_empty =
        field.empty() || (style_.csv && !empty_.empty() && is_empty_field(field, *style_.csv));
    if (keeps_lines_ || (field.size() < piece_bytes_max && line_.size() < piece_bytes_max)) {
      line_ += is_empty ? std::string_view(empty_) : field;
      return;
    }
    // A long line is written in pieces.
    fine_ = fine_ && to_.output.append(line_.data(), line_.size()) &&
            to_.output.append(field.data(), field.size());
    line_.clear();
  }
  void add(const Line* line, size_t field) {
    add(line != nullptr && field < line->fields.size() ? line->fields[field] : std::string_view());
  }
  void add_keys();
  void measure_lines();

  const JoinLinesOptions& options_;
  const LineOutput to_;
  const items::Format& format_;
  const items::FieldStyle style_;
  const char separator_;
  const std::string empty_;
  std::vector<std::vector<size_t>> keys_;  // key fields of each side
  std::vector<size_t> widths_;             // number of fields of each side's first line
  std::string end_;                        // line end of the output: the first line's
  std::vector<Column> columns_;            // the list; empty: there is none
  bool is_auto_ = false;
  size_t repeats_ = 1;       // the most columns of one field
  size_t fixed_bytes_ = 0;   // those of separators, of the text of missing fields, and of the end
  std::vector<Line> lines_;  // one of each side
  std::vector<const Line*> row_;  // one of each side, or nullptr
  std::string line_;              // the end of the line that is not written yet, or kept lines
  bool keeps_lines_ = false;
  bool begun_ = false;
  bool fine_ = true;  // no write failed
};

Status FieldWriter::begin(const std::vector<SideHead>& sides) {
  std::vector<std::vector<std::string>> names(sides.size());
  keys_.resize(sides.size());
  widths_.resize(sides.size());
  lines_.resize(sides.size());
  row_.resize(sides.size());
  std::optional<std::string> line_return;
  bool has_header = false;
  for (size_t side = 0; side < sides.size(); ++side) {
    const SideHead& one = sides[side];
    if (one.format.keys != nullptr)
      keys_[side] = static_cast<const items::TextOrder&>(*one.format.keys).fields();
    const size_t mark_bytes = items::mark_bytes(format_, one.header);
    const std::string_view header = one.header.substr(mark_bytes);
    if (side == 0 && mark_bytes > 0 && !to_.output.append(one.header.data(), mark_bytes))
      return to_.output.status();
    Line& first = lines_[side];
    if (!header.empty()) {
      has_header = true;
      row_[side] = &first;
      first.set(header, format_, style_);
      if (style_.csv) names[side] = items::fields_of_row(first.text, *style_.csv);
    } else if (one.first) {
      first.set(*one.first, format_, style_);
    } else {
      continue;
    }
    const auto& before = to_.first_rows[side];
    const FirstRow row = row_[side] != nullptr || !before ? first_row_of(first) : *before;
    widths_[side] = row.fields;
    if (!line_return) line_return = row.line_return;
  }
  end_ = line_return.value_or("") + format_.line_end;
  if (auto status = resolve(names); !status) return status;
  measure_lines();
  if (!has_header) return {};
  auto made = make_line();
  return made ? flush() : made;
}

Status FieldWriter::resolve(const std::vector<std::vector<std::string>>& names) {
  is_auto_ = options_.list == "auto";
  if (is_auto_ || options_.list.empty()) return {};
  const auto list = fields_of_list(options_.list, names.size());
  if (!list) return no_field_list(options_.list);
  for (const ListedField& listed : *list) {
    if (!listed.side) {
      columns_.push_back({});
      continue;
    }
    const std::vector<std::string>& header = names[*listed.side];
    const std::string word = fmt::format("-o {}.{}", *listed.side + 1, listed.name);
    auto column = items::column_of(listed.name, header, word);
    // An empty side without a header has only missing fields, whatever the column.
    if (!column && header.empty() && style_.csv && format_.header_lines > 0) column = all_keys - 1;
    if (!column) {
      column.error().hint += "; for a file --output FILE";
      return std::unexpected(column.error());
    }
    columns_.push_back({*listed.side, *column});
  }
  return {};
}

void FieldWriter::measure_lines() {
  std::map<std::pair<size_t, size_t>, size_t> columns;
  size_t keys = 0;
  for (const Column& column : columns_) {
    size_t& count = column.field == all_keys ? keys : columns[{column.side, column.field}];
    ++count;
  }
  for (const auto& [place, count] : columns) repeats_ = std::max(repeats_, count);
  repeats_ += keys;
  size_t fields = columns_.size() + (keys + 1) * options_.keys[0].size();
  if (columns_.empty()) fields = std::accumulate(widths_.begin(), widths_.end(), fields);
  fixed_bytes_ = fields * (1 + empty_.size()) + end_.size();
}

// The keys are those of the first side that has any.
void FieldWriter::add_keys() {
  size_t side = 0;
  while (row_[side] == nullptr) ++side;
  for (const size_t field : keys_[side]) add(row_[side], field);
}

Status FieldWriter::add_others(size_t side) {
  const Line* const line = row_[side];
  // Every row gets as many fields as the first, so that each value stays in its column. A line gets
  // them too where fields of a missing side would be followed by others.
  if (style_.csv && !is_auto_ && line != nullptr &&
      !fits(line->fields, widths_[side], *style_.csv)) {
    to_.long_row = LongRow{side, widths_[side], std::string(line->text)};
    return failure(ErrorCode::corrupt, "join a row that is too long", "join");
  }
  size_t fields = line != nullptr ? line->fields.size() : 0;
  const bool is_between = line == nullptr && row_.size() > 2;
  if (is_auto_ || style_.csv || is_between) fields = widths_[side];
  for (size_t field = 0; field < fields; ++field) {
    if (std::ranges::find(keys_[side], field) == keys_[side].end()) add(line, field);
  }
  return {};
}

Status FieldWriter::make_line() {
  begun_ = false;
  for (const Column& column : columns_) {
    if (column.field == all_keys) {
      add_keys();
    } else {
      add(row_[column.side], column.field);
    }
  }
  if (columns_.empty()) {
    add_keys();
    for (size_t side = 0; side < row_.size(); ++side) {
      if (auto status = add_others(side); !status) return status;
    }
  }
  line_ += end_;
  return {};
}

// Has another thread make the lines of a batch of rows, while the next rows are found. The thread has
// copies of the rows. Thread safety: one thread, beside its own.
class ThreadedWriter final : public JoinWriter {
 public:
  ThreadedWriter(const JoinLinesOptions& options, const LineOutput& to) : lines_(options, to) {}

  Status begin(const std::vector<SideHead>& sides) override {
    row_.resize(sides.size());
    return lines_.begin(sides);
  }
  Status write(JoinRow row) override {
    size_t bytes = 0;
    for (const auto& piece : row) bytes += sizeof(uint32_t) + piece.value_or("").size();
    // A long line is written in pieces, and its row is not copied.
    const bool is_long = lines_.line_bytes_max(bytes) > batch_bytes;
    if (is_long || rows_.size() + bytes > batch_bytes) [[unlikely]] {
      if (auto handed = hand_over(); !handed) return handed;
    }
    if (is_long) [[unlikely]] {
      auto made = settle();
      return made ? lines_.write(row) : made;
    }
    for (const auto& piece : row) {
      const uint32_t size = piece ? static_cast<uint32_t>(piece->size()) : none;
      rows_.append(reinterpret_cast<const char*>(&size), sizeof size);
      if (piece) rows_.append(*piece);
    }
    return {};
  }
  // Starts no thread for few rows.
  Status end() override {
    auto made = settle();
    if (!made) return made;
    take_batch();
    return write_lines();
  }

 private:
  static constexpr uint32_t none = ~uint32_t{0};

  // Begins to make the lines of the present batch, after those of the one before.
  Status hand_over() {
    if (auto made = settle(); !made) return made;
    take_batch();
    if (!crew_) {
      charge_ = MemoryCharge(4 * batch_bytes);
      crew_.emplace(2);
    }
    is_making_ = true;
    crew_->begin(1, [this](size_t) { return make_lines(); });
    return {};
  }
  // Waits for the lines of the batch that was handed over, and writes them.
  Status settle() {
    if (!std::exchange(is_making_, false)) return {};
    auto made = crew_->finish();
    if (made) made = write_lines();
    if (!made) rows_.clear();
    return made;
  }
  void take_batch() {
    std::swap(rows_, made_rows_);
    rows_.clear();
    at_ = 0;
  }
  // Writes the lines that are made, and those of the rest of the batch.
  Status write_lines() {
    auto made = lines_.flush();
    while (made && at_ < made_rows_.size()) {
      made = make_lines();
      if (made) made = lines_.flush();
    }
    return made;
  }
  // Makes lines until there are no more rows, or the lines take much memory.
  Status make_lines() {
    lines_.keep_lines(true);
    Status made;
    while (made && at_ < made_rows_.size() && lines_.kept_bytes() < batch_bytes) {
      for (auto& piece : row_) {
        uint32_t size = 0;
        std::memcpy(&size, made_rows_.data() + at_, sizeof size);
        at_ += sizeof size;
        piece.reset();
        if (size == none) continue;
        piece = std::string_view(made_rows_).substr(at_, size);
        at_ += size;
      }
      made = lines_.write(row_);
    }
    lines_.keep_lines(false);
    return made;
  }

  FieldWriter lines_;
  std::string rows_, made_rows_;  // the present batch, and the one before
  size_t at_ = 0;                 // the next row of which a line is made
  bool is_making_ = false;
  std::vector<std::optional<std::string_view>> row_;
  MemoryCharge charge_;
  // Starts with the first batch. (The last member, because its thread uses the others.)
  std::optional<Crew> crew_;
};

// Lines of the first side as they are, under its head, with line ends of one kind.
class FirstWriter final : public JoinWriter {
 public:
  FirstWriter(const JoinLinesOptions& options, const LineOutput& to)
      : format_(options.files.format), to_(to) {}

  Status begin(const std::vector<SideHead>& sides) override {
    const SideHead& side = sides.front();
    std::string_view first = side.header;
    if (first.empty()) first = side.first.value_or("");
    if (format_.has_rules()) {
      first = items::without_line_end(format_, first);
      end_ = first.substr(items::without_return(first).size());
      if (side.header.empty() && to_.first_rows[0]) end_ = to_.first_rows[0]->line_return;
    }
    end_ += format_.line_end;
    return append(side.header);
  }
  Status write(JoinRow row) override {
    ++to_.lines;
    const std::string_view text = items::without_line_end(format_, *row[0]);
    auto status = append(format_.has_rules() ? items::without_return(text) : text);
    return status ? append(end_) : status;
  }

 private:
  Status append(std::string_view text) {
    return to_.output.append(text.data(), text.size()) ? Status{} : to_.output.status();
  }

  const items::Format& format_;
  const LineOutput to_;
  std::string end_;  // line end of the output: the first line's
};

// JSON lines: {"left":OBJECT,"right":OBJECT}, or one of both; of more than two sides, named by their
// numbers: {"1":OBJECT,"2":OBJECT,"3":OBJECT}. Thread safety: one thread.
class ObjectWriter final : public JoinWriter {
 public:
  ObjectWriter(const JoinLinesOptions& options, const LineOutput& to)
      : format_(options.files.format), to_(to), end_({'}', format_.line_end}) {}

  Status begin(const std::vector<SideHead>& sides) override {
    const std::string_view header = sides.front().header;
    const size_t mark_bytes = items::mark_bytes(format_, header);
    const bool written = mark_bytes == 0 || to_.output.append(header.data(), mark_bytes);
    return written ? Status{} : to_.output.status();
  }
  Status write(JoinRow row) override {
    bool fine = true;
    const char* before = "{\"";
    for (size_t side = 0; fine && side < row.size(); ++side) {
      if (!row[side]) continue;
      fine = append(before) && append(row.size() > 2 ? std::to_string(side + 1)
                                      : side == 0    ? "left"
                                                     : "right");
      fine = fine && append("\":") && append(object_of(*row[side]));
      before = ",\"";
    }
    ++to_.lines;
    return fine && append(end_) ? Status{} : to_.output.status();
  }

 private:
  bool append(std::string_view text) { return to_.output.append(text.data(), text.size()); }
  // The object of a line, without the blanks around it; a blank line has no members.
  static std::string_view object_of(std::string_view line) {
    const size_t begin = line.find('{');
    return begin == line.npos ? "{}" : line.substr(begin, line.rfind('}') + 1 - begin);
  }

  const items::Format& format_;
  const LineOutput to_;
  const std::string end_;
};

}  // namespace

std::optional<FirstRow> first_row_of(const SortedCopy& sorted, const items::Format& format) {
  if (sorted.first_row.empty()) return {};
  Line line;
  line.set(sorted.first_row, format, items::style_of(format, {}));
  return first_row_of(line);
}

std::unexpected<Error> refuse_long_row(const LongRow& row, const FilesOptions& files) {
  std::optional<ItemPlace> found;
  if (is_named_file(files, row.side)) {
    found = find_row(files, {row.side}, [&](std::string_view text) {
      return is_too_long(text, files.format, row.fields_max);
    });
  }
  return fault_at(ErrorCode::corrupt,
                  found ? found->place.text(files.format) : "row '" + printable(row.text) + "'",
                  fmt::format("values in more than the {} columns of the {}", row.fields_max,
                              files.format.header_lines > 0 ? "header" : "first row"),
                  input_name(files, row.side), "-o with the columns that are wanted, or -o auto");
}

std::unique_ptr<JoinWriter> line_writer(const JoinLinesOptions& options, const LineOutput& to) {
  if (options.kinds.first_only && options.list.empty())
    return std::make_unique<FirstWriter>(options, to);
  if (options.files.format.framing().has_members)
    return std::make_unique<ObjectWriter>(options, to);
  return std::make_unique<ThreadedWriter>(options, to);
}

}  // namespace penstock::files
