#include "files/run/columns.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <unordered_map>
#include <utility>

#include "base/misuse.h"
#include "base/printable.h"
#include "base/run_scope.h"
#include "files/run/input.h"
#include "files/run/item_cutter.h"
#include "files/source/checked_read.h"
#include "items/keys/text/text_order.h"
#include "items/rows.h"

namespace penstock::files {

using items::Format;

RowMap::RowMap(const Format& format, std::vector<std::optional<size_t>> from, size_t fields)
    : format_(format),
      style_(items::style_of(format, {})),
      from_(std::move(from)),
      fields_(fields) {
  format_.row_fields = fields;
}

std::optional<items::ItemFault> RowMap::append(std::string_view row, std::string& to) {
  if (auto fault = items::fault_of(format_, row)) return fault;
  const std::string_view line = items::without_line_end(format_, row);
  const std::string_view text = items::without_return(line);
  items::split_fields(text, style_, row_);
  const auto more = std::span(row_).subspan(std::min(fields_, row_.size()));
  const auto is_empty = [&](std::string_view field) { return is_empty_field(field, *style_.csv); };
  if (!std::ranges::all_of(more, is_empty)) return items::fault_of_count(row_.size(), fields_);
  const size_t begin = to.size();
  for (size_t i = 0; i < from_.size(); ++i) {
    if (i > 0) to += *style_.separator;
    if (from_[i] && *from_[i] < row_.size()) to += row_[*from_[i]];
  }
  // A blank line would be no row.
  if (to.size() == begin && style_.csv->quote) to.append(2, *style_.csv->quote);
  to += line.substr(text.size());
  to += format_.line_end;
  return {};
}

namespace {

constexpr size_t read_bytes = 64 * KiB;

// The longest row of an output. It and its copy are within the reserve of the memory, because plans
// do not know of them.
uint64_t output_row_bytes_max(const penstock::FilesOptions& options) {
  constexpr uint64_t enough = 384 * KiB;
  constexpr uint64_t memory_part = 128;
  return std::max<uint64_t>(enough, options.memory_bytes / memory_part);
}

std::vector<std::string> names_of(const Format& format, std::string_view header) {
  header.remove_prefix(items::mark_bytes(format, header));
  return format.framing().columns(format, items::without_line_end(format, header));
}

// Copies the rows of a table, which comes in pieces, by a RowMap.
class RowFilter {
 public:
  // Returns the map of the rows below a header, and appends the header that replaces it.
  using TakeHeader = std::function<Result<RowMap>(std::string_view header, std::string& to)>;

  RowFilter(const Format& format, std::string name, uint64_t bytes_max, TakeHeader take_header)
      : format_(std::make_unique<Format>(format)),
        take_header_(std::move(take_header)),
        rows_(*format_, bytes_max) {
    rows_.begin(std::move(name));
  }

  // Appends the rows that end in the piece.
  Status add(std::string_view piece, std::string& to) {
    while (!piece.empty()) {
      const auto room = rows_.room();
      if (!room) return std::unexpected(room.error());
      const size_t bytes = piece.copy(reinterpret_cast<char*>(room->data()), room->size());
      rows_.add(bytes);
      piece.remove_prefix(bytes);
      if (Status taken = take_rows(to); !taken) return taken;
    }
    return {};
  }
  // Appends the last row if it has no end.
  Status finish(std::string& to) {
    rows_.finish();
    return take_rows(to);
  }

 private:
  Status take_rows(std::string& to) {
    // A byte order mark has 3 bytes.
    while (rows_.is_due() && rows_.text().size() >= (rows_.has_ended() ? 1 : 3)) {
      const std::string_view text = rows_.text();
      const size_t mark = map_ ? 0 : items::mark_bytes(*format_, text);
      std::optional<items::ItemFault> fault;
      const size_t bytes = items::read_row(text.substr(mark), *format_->csv, format_->line_end,
                                           rows_.has_ended(), fault);
      if (!fault && bytes == 0) {
        rows_.defer();
        break;
      }
      const std::string_view row = text.substr(0, mark + bytes);
      if (!fault && map_) {
        make_room(to, row.size());
        fault = map_->append(row, to);
      }
      if (fault)
        return items::bad_item(*format_, rows_.place().text(*format_), *fault, {}, rows_.name());
      if (!map_) {
        auto map = take_header_(row, to);
        if (!map) return std::unexpected(map.error());
        map_ = std::move(*map);
      }
      rows_.take(row.size());
      rows_.drop(row.size());
    }
    return {};
  }

  // Makes room for a row. A string that grows by itself takes more than twice the longest row.
  static void make_room(std::string& to, size_t bytes) {
    if (to.capacity() - to.size() >= bytes) return;
    std::string larger;
    larger.reserve(to.size() + bytes);
    to = std::move(larger += to);
  }

  std::unique_ptr<const Format> format_;  // at one address
  TakeHeader take_header_;
  std::optional<RowMap> map_;
  ItemCutter rows_;
};

// The text of an input whose rows pass a filter. `begin`: its first bytes, which were read already.
class FilteredSource final : public Source {
 public:
  FilteredSource(std::unique_ptr<Source> text, std::string begin, RowFilter filter)
      : text_(std::move(text)), begin_(std::move(begin)), filter_(std::move(filter)) {}

  Result<size_t> read(std::span<std::byte> into) override {
    while (passed_ == rows_.size() && !is_all_) {
      if (auto more = filter_more(); !more) return std::unexpected(more.error());
    }
    const size_t bytes = std::min(into.size(), rows_.size() - passed_);
    std::memcpy(into.data(), rows_.data() + passed_, bytes);
    passed_ += bytes;
    return bytes;
  }
  void cancel() override { text_->cancel(); }

 private:
  Status filter_more() {
    rows_.clear();
    passed_ = 0;
    if (!begin_.empty()) return filter_.add(std::exchange(begin_, {}), rows_);
    std::array<char, read_bytes> room;
    const auto bytes = source::checked_read(*text_, std::as_writable_bytes(std::span(room)));
    if (!bytes) return std::unexpected(bytes.error());
    is_all_ = *bytes == 0;
    const Status added =
        is_all_ ? filter_.finish(rows_) : filter_.add({room.data(), *bytes}, rows_);
    charge_.set(rows_.capacity());
    return added;
  }

  const std::unique_ptr<Source> text_;
  std::string begin_;
  RowFilter filter_;
  std::string rows_;  // filtered rows
  MemoryCharge charge_{0};
  size_t passed_ = 0;
  bool is_all_ = false;
};

// An output whose rows pass a filter.
class FilteredSink final : public Sink {
 public:
  FilteredSink(std::shared_ptr<Sink> to, RowFilter filter)
      : to_(std::move(to)), filter_(std::move(filter)) {}

  Status write(std::span<const std::byte> from) override {
    return pass(filter_.add(items::text_at(from.data(), from.size()), rows_));
  }
  Status close() override {
    if (Status last = pass(filter_.finish(rows_)); !last) return last;
    return to_->close();
  }
  void cancel() override { to_->cancel(); }

 private:
  Status pass(const Status& added) {
    if (!added) return added;
    const Status written = rows_.empty() ? Status() : to_->write(std::as_bytes(std::span(rows_)));
    rows_.clear();
    return written;
  }

  const std::shared_ptr<Sink> to_;
  RowFilter filter_;
  std::string rows_;
};

Status check_is_table(const Format& format, const char* option) {
  if (format.csv && format.header_lines == 1) return {};
  return misuse("order columns without their names", option, "--csv --header, or --tsv --header");
}

// An input, and its header.
struct Input {
  std::string name;
  std::string begin;               // bytes that were read of the source; empty for a file
  std::unique_ptr<Source> source;  // the rest; nullptr for a file, which is read again
  std::string header;              // empty if the input is
  std::vector<std::string> names;
};

Result<Input> open_to_see(const penstock::FilesOptions& options, const Format& format,
                          size_t number) {
  Input input{.name = input_name(options, number)};
  if (number < options.inputs.size()) {
    auto opened = open_source(options.inputs[number], options.source);
    if (!opened) return std::unexpected(opened.error());
    input.source = std::move(*opened);
  } else {
    const std::shared_ptr<Source> source = options.sources[number - options.inputs.size()];
    input.source =
        callback_source([source](std::span<std::byte> into) { return source->read(into); },
                        [source] { source->cancel(); });
  }
  auto head = read_header(format, input.name,
                          [&](std::span<std::byte> into) { return input.source->read(into); });
  if (!head) return std::unexpected(head.error());
  input.header = head->text;
  if (!head->is_of_nothing) input.names = names_of(format, head->text);
  // A file is read again from its beginning.
  if (is_named_file(options, number)) {
    input.source = nullptr;
  } else {
    input.begin = head->text + head->rest;
  }
  return input;
}

using Columns = std::unordered_map<std::string_view, size_t>;

Result<Columns> columns_by_name(const Input& input) {
  Columns columns;
  for (size_t i = 0; i < input.names.size(); ++i) {
    if (!columns.emplace(input.names[i], i).second)
      return failure(
          ErrorCode::unsupported,
          fmt::format("match columns by name: two are named '{}'", printable(input.names[i])),
          input.name, "other names in the header");
  }
  return columns;
}

// The header that all inputs get.
struct Target {
  std::string header;
  std::vector<std::string> names;
};

// REQUIRES: all inputs have a header.
Result<Target> target_of(const std::vector<Input>& inputs, const Format& format, bool unites) {
  const Input& first = inputs.front();
  Target target{.header = first.header, .names = first.names};
  std::string more;
  for (const Input& input : inputs) {
    const auto columns = columns_by_name(input);
    if (!columns) return std::unexpected(columns.error());
    for (const std::string& name : input.names) {
      if (std::ranges::find(target.names, name) != target.names.end()) continue;
      if (!unites)
        return failure(
            ErrorCode::unsupported,
            fmt::format("find the column '{}' in {}", printable(name), printable(first.name)),
            input.name, "--columns union");
      target.names.push_back(name);
      more += format.csv->separator + items::row_field(name, *format.csv);
    }
    for (const std::string& name : first.names) {
      if (!unites && !columns->contains(name))
        return failure(ErrorCode::unsupported, fmt::format("find the column '{}'", printable(name)),
                       input.name, "--columns union");
    }
  }
  const std::string_view line =
      items::without_return(items::without_line_end(format, target.header));
  target.header.insert(line.size(), more);
  return target;
}

// The columns of all inputs, by the inputs' names.
class ColumnFilter final : public SourceFilter {
 public:
  ColumnFilter(const Format& format, Target target, const penstock::FilesOptions& options)
      : format_(format),
        target_(std::move(target)),
        first_(options.source.filter),
        bytes_max_(cut_bytes_max(options, input_count(options))) {}

  void add(const Input& input) {
    const Columns columns = *columns_by_name(input);
    Rows& rows = inputs_[input.name] = {.fields = input.names.size()};
    for (const std::string& name : target_.names) {
      const auto found = columns.find(name);
      rows.from.push_back(found == columns.end() ? std::nullopt : std::optional(found->second));
    }
  }

  std::unique_ptr<Source> filtered(std::unique_ptr<Source> text, std::string name) override {
    if (first_ != nullptr) text = first_->filtered(std::move(text), name);
    return filtered(std::move(text), {}, name);
  }
  // A row, and twice its copy.
  uint64_t memory_bytes() const override {
    return ItemCutter::memory_bytes(bytes_max_) + 2 * bytes_max_ + 2 * read_bytes +
           (first_ == nullptr ? 0 : first_->memory_bytes());
  }
  // Returns the rows of a text that begins with `begin` and has passed all other filters.
  std::unique_ptr<Source> filtered(std::unique_ptr<Source> text, std::string begin,
                                   const std::string& name) const {
    const auto found = inputs_.find(name);
    const Rows rows = found == inputs_.end() ? Rows() : found->second;
    return std::make_unique<FilteredSource>(
        std::move(text), std::move(begin),
        RowFilter(format_, name, bytes_max_,
                  [this, rows](std::string_view, std::string& to) -> Result<RowMap> {
                    to += target_.header;
                    return RowMap(format_, rows.from, rows.fields);
                  }));
  }

 private:
  struct Rows {
    std::vector<std::optional<size_t>> from = {};
    size_t fields = 0;
  };

  const Format format_;
  const Target target_;
  const std::shared_ptr<SourceFilter> first_;
  const uint64_t bytes_max_;
  std::unordered_map<std::string, Rows> inputs_;
};

Status write_to_sink(penstock::FilesOptions& options) {
  auto sink = sink_of(options);
  if (!sink) return std::unexpected(sink.error());
  if (options.sink == nullptr) options.compressed = {};
  options.sink = std::move(*sink);
  options.output = "-";
  return {};
}

}  // namespace

Status unite_columns(penstock::FilesOptions& options, const Format& format) {
  if (auto fine = check_is_table(format, "--columns"); !fine) return fine;
  const bool unites = std::exchange(options.columns, ColumnRule::equal) == ColumnRule::all;
  if (options.inputs.empty() && options.sources.empty()) return {};
  std::vector<Input> inputs;
  for (size_t i = 0; i < input_count(options); ++i) {
    auto input = open_to_see(options, format, i);
    if (!input) return std::unexpected(input.error());
    if (!input->header.empty()) inputs.push_back(std::move(*input));
  }
  const bool are_equal = std::ranges::all_of(
      inputs, [&](const Input& input) { return input.names == inputs.front().names; });
  const bool are_files =
      std::ranges::all_of(inputs, [](const Input& input) { return input.source == nullptr; });
  if (inputs.empty() || (are_equal && are_files)) return {};
  auto target = target_of(inputs, format, unites);
  if (!target) return std::unexpected(target.error());
  const auto filter = std::make_shared<ColumnFilter>(format, std::move(*target), options);
  for (const Input& input : inputs) filter->add(input);
  if (are_files) {
    options.source.filter = filter;
    return {};
  }
  // All inputs become sources, because the bytes that were read of a pipe have to be passed on.
  if (auto made = write_to_sink(options); !made) return made;
  options.inputs.clear();
  options.sources.clear();
  for (Input& input : inputs) {
    if (input.source == nullptr) {
      auto opened = open_source(input.name, options.source);
      if (!opened) return std::unexpected(opened.error());
      input.source = std::move(*opened);
    }
    auto rows = filter->filtered(std::move(input.source), std::move(input.begin), input.name);
    // The source keeps the filter.
    options.sources.push_back(
        std::shared_ptr<Source>(rows.release(), [filter](Source* source) { delete source; }));
  }
  return {};
}

Status select_columns(penstock::FilesOptions& options, const Format& format) {
  if (auto fine = check_is_table(format, "--select"); !fine) return fine;
  if (auto made = write_to_sink(options); !made) return made;
  auto take_header = [format, select = std::exchange(options.select, {})](
                         std::string_view header, std::string& to) -> Result<RowMap> {
    const auto names = names_of(format, header);
    std::vector<std::optional<size_t>> from;
    for (const std::string& word : select) {
      auto columns = items::columns_of(word, names, "--select " + word);
      if (!columns) return std::unexpected(columns.error());
      from.insert(from.end(), columns->begin(), columns->end());
    }
    const size_t mark = items::mark_bytes(format, header);
    to += header.substr(0, mark);
    RowMap map(format, std::move(from), names.size());
    if (auto fault = map.append(header.substr(mark), to))
      return items::bad_item(format, "header", *fault, {}, "the output");
    return map;
  };
  options.sink = std::make_shared<FilteredSink>(
      std::move(options.sink),
      RowFilter(format, "the output", output_row_bytes_max(options), std::move(take_header)));
  return {};
}

}  // namespace penstock::files
