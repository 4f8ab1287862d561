#include "files/group_lines.h"

#include <fmt/format.h>

#include <cstring>
#include <limits>
#include <utility>

#include "base/misuse.h"
#include "record/codec.h"
#include "record/rows.h"
#include "record/text/text_order.h"

namespace penstock::files {
namespace {

using record::Decimal;

constexpr size_t count_bytes = sizeof(uint64_t);
// Without what fills it up.
constexpr size_t decimal_bytes = sizeof(Decimal::digits) + sizeof(Decimal::places);

bool is_blank(std::string_view text) {
  return text.find_first_not_of(" \t") == text.npos;
}

const record::TextOrder* text_order_of(const record::Format& format) {
  return static_cast<const record::TextOrder*>(format.keys.get());
}

}  // namespace

GroupLines::GroupLines(const record::Format& format, const Aggregates& aggregates,
                       const GroupLinesOptions& options)
    : order_(format),
      aggregates_(aggregates),
      options_(options),
      style_(record::style_of(format, options.separator)),
      separator_(style_.separator.value_or('\t')) {
  set_order(format);
  if (!style_.csv) end_ = format.line_end;
  Value value;
  size_t value_bytes = 0;
  for_parts(value, [&](void*, size_t bytes) { value_bytes += bytes; });
  aggregates_bytes_ = (aggregates.count ? count_bytes : 0) + options.values.size() * value_bytes;
}

Result<std::shared_ptr<GroupLines>> GroupLines::make(const record::Format& format,
                                                     const Aggregates& aggregates,
                                                     const GroupLinesOptions& options) {
  const bool sums = aggregates.sum || aggregates.min || aggregates.max;
  if (sums != !options.values.empty())
    return misuse("sum up values", sums ? "--sum" : "--value",
                  sums ? "--value COLUMN, or --count" : "--sum, --min or --max");
  if (aggregates.like_uniq && (sums || format.csv))
    return misuse("write this as uniq -c does", "--format uniq", "--count");
  return std::shared_ptr<GroupLines>(new GroupLines(format, aggregates, options));
}

void GroupLines::set_order(const record::Format& format) {
  order_ = record::ItemOrder(format);
  const record::TextOrder* const order = text_order_of(format);
  shows_key_ =
      order == nullptr || (order->is_text() && (!aggregates_.distinct || order->keys().empty()));
}

std::string_view GroupLines::without_end(std::string_view line) const {
  line = record::without_line_end(order_.format(), line);
  return style_.csv ? record::without_return(line) : line;
}

std::string GroupLines::end_of(std::string_view line) const {
  std::string end(line.substr(without_end(line).size()));
  if (record::lacks_line_end(order_.format(), line)) end += order_.format().line_end;
  return end;
}

Status GroupLines::begin(const record::Format& format, const std::string& head) {
  const std::string_view header = std::string_view(head).substr(record::mark_bytes(format, head));
  // Without a header there are no lines.
  if (format.header_lines > 0 && header.empty()) return {};
  set_order(format);
  if (!header.empty()) end_ = end_of(header);
  std::vector<std::string> names;
  if (style_.csv && !header.empty()) names = record::fields_of_row(without_end(header), separator_);
  for (const std::string& value : options_.values) {
    auto column = record::column_of(value, names, "--value " + value);
    if (!column) return std::unexpected(column.error());
    columns_.push_back(*column);
  }
  head_ = head;
  if (header.empty() || !style_.csv || aggregates_.distinct) return {};
  head_.resize(head.size() - header.size());
  head_ += head_of(header, names);
  return {};
}

// The names of what a result has.
std::string GroupLines::head_of(std::string_view header,
                                const std::vector<std::string>& columns) const {
  std::string line;
  append_keys(without_end(header), line);
  auto add = [&](const std::string& name) {
    (line += separator_) += record::row_field(name, separator_);
  };
  if (aggregates_.count) add("count");
  for (const size_t column : columns_) {
    const std::string name = column < columns.size() ? columns[column] : std::to_string(column + 1);
    if (aggregates_.sum) add("sum_" + name);
    if (aggregates_.min) add("min_" + name);
    if (aggregates_.max) add("max_" + name);
  }
  return line + end_;
}

// ---- Partials.

template <class Copy>
void GroupLines::for_parts(Value& value, Copy copy) const {
  copy(&value.any, sizeof value.any);
  if (aggregates_.sum) copy(&value.sum, sizeof value.sum);
  if (aggregates_.min) copy(&value.min, decimal_bytes);
  if (aggregates_.max) copy(&value.max, decimal_bytes);
}

GroupLines::Value GroupLines::load_value(const char*& from) const {
  Value value;
  for_parts(value, [&](void* part, size_t bytes) {
    std::memcpy(part, from, bytes);
    from += bytes;
  });
  return value;
}

std::unexpected<Error> GroupLines::too_long(size_t i) const {
  return failure(ErrorCode::unsupported, "add up numbers to one of more than 38 digits",
                 "--value " + options_.values[i], "--count, --min or --max");
}

// `at`: of value i. Goes on to the next one.
Status GroupLines::add_value(size_t i, const Value& more, char*& at) const {
  const char* from = at;
  Value value = load_value(from);
  if (!more.any) {
    at += from - at;
    return {};
  }
  if (!value.any) {
    value = more;
  } else {
    if (aggregates_.sum && !value.sum.add(more.sum)) return too_long(i);
    if (aggregates_.min && more.min.compare(value.min) < 0) value.min = more.min;
    if (aggregates_.max && more.max.compare(value.max) > 0) value.max = more.max;
  }
  for_parts(value, [&](const void* part, size_t bytes) {
    std::memcpy(at, part, bytes);
    at += bytes;
  });
  return {};
}

uint64_t GroupLines::count_of_partial(std::string_view partial) const {
  return record::load<uint64_t>(partial.data() + RowHead::bytes +
                                RowHead::at(partial.data()).key_bytes);
}

Status GroupLines::add_item(char* partial, std::string_view item) {
  char* at = aggregates_of(partial);
  if (aggregates_.count) {
    const uint64_t count = record::load<uint64_t>(at) + 1;
    std::memcpy(at, &count, count_bytes);
    at += count_bytes;
  }
  if (columns_.empty()) return {};
  const std::string_view line = without_end(item);
  if (!style_.csv) split_fields(line, style_, fields_);
  for (size_t i = 0; i < columns_.size(); ++i) {
    const std::string_view text =
        style_.csv ? record::field_of_row(line, separator_, columns_[i], room_)
                   : (columns_[i] < fields_.size() ? fields_[columns_[i]] : std::string_view());
    Value value;
    if (!is_blank(text)) {
      const auto number = Decimal::parse(text);
      if (!number) {
        bad_value_ = BadValue{options_.values[i], columns_[i], std::string(text)};
        return failure(ErrorCode::corrupt, "read a number", "group");
      }
      value = {.any = true, .min = *number, .max = *number};
      if (aggregates_.sum) value.sum = record::DecimalSum(*number);
    }
    if (auto status = add_value(i, value, at); !status) return status;
  }
  return {};
}

Status GroupLines::add_partial(char* partial, std::string_view other) {
  char* at = aggregates_of(partial);
  const char* from = other.data() + RowHead::bytes + RowHead::at(other.data()).key_bytes;
  if (aggregates_.count) {
    const uint64_t count = record::load<uint64_t>(at) + record::load<uint64_t>(from);
    std::memcpy(at, &count, count_bytes);
    at += count_bytes;
    from += count_bytes;
  }
  for (size_t i = 0; i < columns_.size(); ++i) {
    if (auto status = add_value(i, load_value(from), at); !status) return status;
  }
  return {};
}

Status GroupLines::make_partial(std::string_view item, std::string_view key, std::string& to) {
  if (end_.empty()) end_ = end_of(item);
  to.assign(RowHead::bytes, '\0');
  to.append(key).append(aggregates_bytes_, '\0');
  if (!shows_key_ && aggregates_.distinct) to.append(without_end(item));
  if (!shows_key_ && !aggregates_.distinct) append_keys(without_end(item), to);
  if (to.size() > std::numeric_limits<uint32_t>::max())
    return failure(ErrorCode::unsupported, "group a line with a key of more than 4 GiB", "group");
  RowHead{static_cast<uint32_t>(to.size()), static_cast<uint32_t>(key.size())}.store(to.data());
  return add_item(to.data(), item);
}

// ---- Results.

void GroupLines::append_keys(std::string_view line, std::string& to) const {
  bool is_first = true;  // a key may be empty
  for (const std::string& key : text_order_of(order_.format())->texts(line)) {
    if (!std::exchange(is_first, false)) to += separator_;
    to += style_.csv ? record::row_field(key, separator_) : key;
  }
}

Status GroupLines::append_result(std::string_view partial, std::string& to) const {
  const std::string_view key = record::key_of_row(partial);
  const char* from = partial.data() + RowHead::bytes + key.size();
  const std::string_view shown(from + aggregates_bytes_, partial.data() + partial.size());
  if (aggregates_.count) from += count_bytes;
  const std::string count = aggregates_.count ? std::to_string(count_of_partial(partial)) : "";
  if (aggregates_.like_uniq) {
    fmt::format_to(std::back_inserter(to), "{:>7} ", count);
  } else if (aggregates_.count && !style_.csv) {
    (to += count) += separator_;
  }
  if (!shows_key_) {
    to += shown;
  } else if (style_.csv) {
    to += record::row_field(key, separator_);
  } else {
    to += key;
  }
  if (aggregates_.count && style_.csv) (to += separator_) += count;
  for (size_t i = 0; i < columns_.size(); ++i) {
    const Value value = load_value(from);
    auto add = [&](const std::optional<Decimal>& number) {
      to += separator_;
      if (value.any) number->append_to(to);
    };
    const auto sum = value.sum.total();
    if (!sum) return too_long(i);
    if (aggregates_.sum) add(sum);
    if (aggregates_.min) add(value.min);
    if (aggregates_.max) add(value.max);
  }
  to += end_;
  return {};
}

}  // namespace penstock::files
