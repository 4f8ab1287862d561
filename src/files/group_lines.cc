#include "files/group_lines.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/misuse.h"
#include "base/printable.h"
#include "bowtie/addresses.h"
#include "files/file_run.h"
#include "files/join_sides.h"
#include "files/top_results.h"
#include "files/walk.h"
#include "record/decimal.h"
#include "record/fields.h"
#include "record/rows.h"
#include "record/text/text_order.h"

namespace penstock::files {
namespace {

using bowtie::OutputStream;
using bowtie::Streams;
using record::Decimal;

bool is_blank(std::string_view text) {
  return text.find_first_not_of(" \t") == text.npos;
}

// Of one value: nothing where all fields were empty.
struct Sums {
  std::optional<Decimal> sum, min, max;
};

// A text that is no number.
struct BadValue {
  size_t value = 0;  // of the options' values
  size_t column = 0;
  std::string text;
};

// Thread safety: one thread.
class LineGroups {
 public:
  LineGroups(const GroupLinesOptions& options, OutputStream& output, uint64_t top_bytes,
             GroupFilesStats& stats, std::optional<BadValue>* bad_value, std::string_view first_row)
      : options_(options),
        first_row_(first_row),
        bad_value_(bad_value),
        format_(options.files.format),
        style_(record::style_of(format_, options.separator)),
        separator_(style_.separator.value_or('\t')),
        output_(output),
        stats_(stats) {
    if (options.top)
      top_.emplace(*options.top, top_bytes, [](const Counted& a, const Counted& b) {
        return a.count != b.count ? a.count > b.count : a.number < b.number;
      });
  }

  // Over a side that was started.
  Status go(JoinSide& lines);

 private:
  struct Counted {
    uint64_t count;
    uint64_t number;  // among the groups
    std::string line;
    uint64_t bytes() const { return line.capacity(); }
  };

  Status begin(const JoinSide& lines);
  Status add(std::string_view line);
  Status give_out();
  Status write(std::string_view line) {
    ++stats_.groups;
    return output_.append(line.data(), line.size()) ? Status{} : output_.status();
  }
  std::string field(const std::string& text) const {
    return style_.csv ? record::row_field(text, separator_) : text;
  }
  std::string_view without_end(std::string_view line) const {
    line = record::without_line_end(format_, line);
    return style_.csv ? record::without_return(line) : line;
  }

  const GroupLinesOptions& options_;
  const std::string_view first_row_;          // of the inputs, without a header
  std::optional<BadValue>* const bad_value_;  // that ended the run
  const record::Format& format_;
  const record::FieldStyle style_;
  const char separator_;
  OutputStream& output_;
  GroupFilesStats& stats_;
  std::optional<TopResults<Counted>> top_;
  const record::TextOrder* order_ = nullptr;
  std::string end_;  // of lines that are written
  std::vector<size_t> values_;
  std::vector<std::string> names_;  // of these
  // The present group.
  std::string first_;  // line, with its end
  std::string key_;
  uint64_t count_ = 0;
  uint64_t number_ = 0;
  std::vector<Sums> sums_;
  std::vector<std::string_view> fields_;
  std::string room_;
};

// What needs the header: columns, and the header of the output.
Status LineGroups::begin(const JoinSide& lines) {
  const size_t mark_bytes = record::mark_bytes(format_, lines.header());
  const std::string_view written = std::string_view(lines.header()).substr(mark_bytes);
  const std::string_view header = without_end(written);
  const std::string_view first = written.empty() ? first_row_ : written;
  end_ = std::string(without_end(first).data() + without_end(first).size(),
                     first.data() + first.size());
  if (record::lacks_line_end(format_, first)) end_ += format_.line_end;
  std::vector<std::string> columns;
  if (style_.csv && !written.empty()) columns = record::fields_of_row(header, separator_);
  for (const std::string& value : options_.values) {
    auto column = record::column_of(value, columns, "--value " + value);
    if (!column) return std::unexpected(column.error());
    values_.push_back(*column);
  }
  sums_.resize(values_.size());
  if (lines.format().keys != nullptr)
    order_ = static_cast<const record::TextOrder*>(lines.format().keys.get());
  if (lines.header().empty()) return {};
  if (options_.aggregates.distinct || !style_.csv)
    return output_.append(lines.header().data(), lines.header().size()) ? Status{}
                                                                        : output_.status();
  std::string line = lines.header().substr(0, mark_bytes);
  bool is_first = true;  // a name may be empty
  auto add = [&](const std::string& name) {
    if (!std::exchange(is_first, false)) line += separator_;
    line += field(name);
  };
  if (written.empty())
    return output_.append(line.data(), line.size()) ? Status{} : output_.status();
  for (const std::string& key : order_->texts(header)) add(key);
  if (options_.aggregates.count) add("count");
  for (const size_t column : values_) {
    const std::string name = column < columns.size() ? columns[column] : std::to_string(column + 1);
    if (options_.aggregates.sum) add("sum_" + name);
    if (options_.aggregates.min) add("min_" + name);
    if (options_.aggregates.max) add("max_" + name);
  }
  line += end_;
  return output_.append(line.data(), line.size()) ? Status{} : output_.status();
}

Status LineGroups::add(std::string_view line) {
  ++count_;
  ++stats_.items;
  if (values_.empty()) return {};
  line = without_end(line);
  if (!style_.csv) split_fields(line, style_, fields_);
  for (size_t i = 0; i < values_.size(); ++i) {
    const std::string_view text =
        style_.csv ? record::field_of_row(line, separator_, values_[i], room_)
                   : (values_[i] < fields_.size() ? fields_[values_[i]] : std::string_view());
    if (is_blank(text)) continue;
    const auto number = Decimal::parse(text);
    if (!number) {
      *bad_value_ = BadValue{i, values_[i], std::string(text)};
      return failure(ErrorCode::corrupt, "read a number", "group");
    }
    Sums& sums = sums_[i];
    if (!sums.sum) {
      sums = {*number, *number, *number};
      continue;
    }
    if (options_.aggregates.sum && !sums.sum->add(*number)) {
      return failure(ErrorCode::unsupported, "add up numbers to one of more than 38 digits",
                     "--value " + options_.values[i], "--count, --min or --max");
    }
    if (number->compare(*sums.min) < 0) sums.min = number;
    if (number->compare(*sums.max) > 0) sums.max = number;
  }
  return {};
}

Status LineGroups::give_out() {
  std::string line;
  if (options_.aggregates.distinct) {
    line = first_;
    if (style_.csv) line = std::string(without_end(first_)) + end_;
  } else {
    std::vector<std::string> texts;
    const std::string_view first = without_end(first_);
    const std::vector<std::string> keys = order_->texts(first);
    const std::string count = fmt::format("{}", count_);
    if (options_.aggregates.count && !style_.csv && !options_.aggregates.like_uniq)
      texts.push_back(count);
    for (const std::string& key : keys) texts.push_back(field(key));
    if (options_.aggregates.count && style_.csv) texts.push_back(count);
    auto add = [&](const std::optional<Decimal>& number) {
      texts.push_back(number ? number->text() : "");
    };
    for (const Sums& sums : sums_) {
      if (options_.aggregates.sum) add(sums.sum);
      if (options_.aggregates.min) add(sums.min);
      if (options_.aggregates.max) add(sums.max);
    }
    if (options_.aggregates.like_uniq) line = fmt::format("{:7} ", count_);
    for (size_t i = 0; i < texts.size(); ++i) {
      if (i > 0) line += separator_;
      line += texts[i];
    }
    line += end_;
  }
  if (lacks_line_end(format_, line)) line += format_.line_end;
  const uint64_t count = count_;
  count_ = 0;
  std::ranges::fill(sums_, Sums());
  return top_ ? top_->offer({count, number_++, std::move(line)}) : write(line);
}

Status LineGroups::go(JoinSide& lines) {
  if (auto status = begin(lines); !status) return status;
  while (!lines.done()) {
    if (count_ > 0 && lines.key() != key_) {
      if (auto status = give_out(); !status) return status;
    }
    if (count_ == 0) {
      key_.assign(lines.key());
      first_.assign(lines.item());
    }
    if (auto status = add(lines.item()); !status) return status;
    if (auto status = lines.next(); !status) return status;
  }
  if (count_ > 0) {
    if (auto status = give_out(); !status) return status;
  }
  if (!top_) return {};
  return top_->for_each([&](const Counted& one) { return write(one.line); });
}

// The error of a text that is no number, with its place where that file can be read again: rows were sorted before
// they were added up.
std::unexpected<Error> refuse(const BadValue& bad, const GroupLinesOptions& options) {
  const record::Format& format = options.files.format;
  const record::FieldStyle style = record::style_of(format, options.separator);
  std::string room;
  std::vector<std::string_view> fields;
  const auto found =
      find_row(options.files, named_files(options.files), [&](std::string_view line) {
        if (style.csv)
          return record::field_of_row(line, *style.separator, bad.column, room) == bad.text;
        split_fields(line, style, fields);
        return bad.column < fields.size() && fields[bad.column] == bad.text;
      });
  const std::string option = "--value " + options.values[bad.value];
  return failure(ErrorCode::corrupt,
                 fmt::format("read '{}' as a number of up to 38 digits{}", printable(bad.text, 64),
                             found ? ": " + found->place.text(format) + ", " + option : ""),
                 found ? found->path : option, "a column of decimal numbers, as in -1.25");
}

Status check(const GroupLinesOptions& options) {
  const bool sums = options.aggregates.sum || options.aggregates.min || options.aggregates.max;
  if (!options.aggregates.count && !sums && !options.aggregates.distinct)
    return misuse("group without an aggregate", "group",
                  "--count, --distinct, or --sum, --min, --max with --value COLUMN");
  if (options.aggregates.distinct && (options.aggregates.count || sums))
    return misuse("keep lines whole and aggregate them", "--distinct", "--distinct alone");
  if (sums != !options.values.empty())
    return misuse("sum up values", sums ? "--sum" : "--value",
                  sums ? "--value COLUMN" : "--sum, --min or --max");
  if (options.top && !options.aggregates.count)
    return misuse("find the highest counts", "--top", "--count");
  if (options.aggregates.like_uniq && (sums || options.files.format.csv))
    return misuse("write this as uniq -c does", "--format uniq", "--count");
  return {};
}

}  // namespace

Result<GroupFilesStats> group_lines(const GroupLinesOptions& options) {
  if (auto status = check(options); !status) return std::unexpected(status.error());
  const FilesOptions& files = options.files;
  FileRun run(files, "group");
  GroupFilesStats stats;
  auto sorted = options.sort(files);
  if (!sorted) return std::unexpected(sorted.error());
  if (auto size = sorted->file.size(); size) run.count_temporary_bytes(*size);
  std::vector<std::optional<const file::File*>> instead(input_count(files), nullptr);
  instead.front() = &sorted->file;
  auto status = run.start({.instead = instead, .own_headers = true});
  if (!status) return std::unexpected(status.error());
  auto output = run.open_output();
  if (!output) return std::unexpected(output.error());
  std::optional<BadValue> bad_value;
  if (!run.inputs().empty()) {
    status =
        run.pass(run.inputs(), {{.file = &*output, .bytes_max = bowtie::outputs_address_bytes()}},
                 [&](Streams& streams) -> Status {
                   JoinSide lines(streams, 0, files.format, false, run.headers()[0]);
                   if (auto started = lines.start(); !started) return started;
                   return LineGroups(options, streams.output(0), run.usable_bytes() / 8, stats,
                                     &bad_value, sorted->first_row)
                       .go(lines);
                 },
                 {.format = files.format,
                  .memory_bytes = run.usable_bytes() / 2,
                  .phase = "group",
                  .total_bytes = run.input_bytes()});
    if (bad_value) return refuse(*bad_value, options);
    if (!status) return std::unexpected(status.error());
  }
  if (status = run.finish(*output, stats); !status) return std::unexpected(status.error());
  return stats;
}

}  // namespace penstock::files
