#include "files/ops/group/group_lines.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "base/misuse.h"
#include "items/keys/codec.h"
#include "items/keys/text/text_order.h"
#include "items/rows.h"

namespace penstock::files {
namespace {

using items::Decimal;
using items::DecimalSum;
using items::NarrowDecimal;

constexpr size_t count_bytes = sizeof(uint64_t);
// Flags in front of a value.
constexpr char any_bit = 1;
constexpr char wide_bit = 2;

bool is_blank(std::string_view text) {
  return text.find_first_not_of(" \t") == text.npos;
}

const items::TextOrder* text_order_of(const items::Format& format) {
  return static_cast<const items::TextOrder*>(format.keys.get());
}

}  // namespace

GroupLines::GroupLines(const items::Format& format, const Aggregates& aggregates,
                       const GroupLinesOptions& options)
    : order_(format),
      aggregates_(aggregates),
      options_(options),
      style_(items::style_of(format, options.separator)),
      separator_(style_.separator.value_or('\t')) {
  set_order(format);
  if (!style_.csv) end_ = format.line_end;
  more_.resize(options.values.size());
  narrow_.resize(options.values.size());
  narrow_bytes_ = (aggregates.count ? count_bytes : 0) + more_.size() * value_bytes(false);
}

Result<std::shared_ptr<GroupLines>> GroupLines::make(const items::Format& format,
                                                     const Aggregates& aggregates,
                                                     const GroupLinesOptions& options) {
  const bool sums = aggregates.sum || aggregates.min || aggregates.max;
  if (sums != !options.values.empty())
    return misuse("sum up values", sums ? "--sum" : "--value",
                  sums ? "--value COLUMN, or --count" : "--sum, --min or --max");
  if (aggregates.like_uniq && (sums || format.framing().quote))
    return misuse("write this as uniq -c does", "--format uniq", "--count");
  return std::shared_ptr<GroupLines>(new GroupLines(format, aggregates, options));
}

void GroupLines::set_order(const items::Format& format) {
  order_ = items::ItemOrder(format);
  const items::TextOrder* const order = text_order_of(format);
  shows_key_ =
      order == nullptr || (order->is_text() && (!aggregates_.distinct || order->keys().empty()));
  text_key_.reset();
  if (style_.csv || order == nullptr || !order->is_text() || order->keys().empty()) return;
  text_key_ = order->keys().front();
  text_separator_ = order->separator();
}

std::string_view GroupLines::without_end(std::string_view line) const {
  line = items::without_line_end(order_.format(), line);
  return style_.csv ? items::without_return(line) : line;
}

std::string GroupLines::end_of(std::string_view line) const {
  std::string end(line.substr(without_end(line).size()));
  if (items::lacks_line_end(order_.format(), line)) end += order_.format().line_end;
  return end;
}

Status GroupLines::begin(const items::Format& format, const std::string& head) {
  const std::string_view header = std::string_view(head).substr(items::mark_bytes(format, head));
  // An input without its header is empty.
  if (format.header_lines > 0 && header.empty()) return {};
  set_order(format);
  if (!header.empty()) end_ = end_of(header);
  std::vector<std::string> names;
  if (style_.csv && !header.empty()) names = items::fields_of_row(without_end(header), separator_);
  for (const std::string& value : options_.values) {
    auto column = items::column_of(value, names, "--value " + value);
    if (!column) return std::unexpected(column.error());
    value_columns_.push_back(*column);
  }
  if (style_.csv) find_columns();
  head_ = head;
  if (header.empty() || !style_.csv || aggregates_.distinct) return {};
  head_.resize(head.size() - header.size());
  head_ += head_of(header, names);
  return {};
}

// Collects the columns of keys and values, each once.
void GroupLines::find_columns() {
  columns_ = value_columns_;
  const items::TextOrder* const order = text_order_of(order_.format());
  const bool is_field = order != nullptr && order->is_text() && !order->keys().empty();
  if (is_field) columns_.push_back(order->fields().front());
  std::ranges::sort(columns_);
  columns_.erase(std::ranges::unique(columns_).begin(), columns_.end());
  auto place_of = [&](size_t column) {
    return static_cast<size_t>(std::ranges::lower_bound(columns_, column) - columns_.begin());
  };
  if (is_field) key_column_ = place_of(order->fields().front());
  for (const size_t column : value_columns_) value_fields_.push_back(place_of(column));
}

// The header of the results.
std::string GroupLines::head_of(std::string_view header,
                                const std::vector<std::string>& columns) const {
  std::string line;
  append_keys(without_end(header), line);
  auto add = [&](const std::string& name) {
    (line += separator_) += items::row_field(name, separator_);
  };
  if (aggregates_.count) add("count");
  for (const size_t column : value_columns_) {
    const std::string name = column < columns.size() ? columns[column] : std::to_string(column + 1);
    if (aggregates_.sum) add("sum_" + name);
    if (aggregates_.min) add("min_" + name);
    if (aggregates_.max) add("max_" + name);
  }
  return line + end_;
}

// ---- Partials.

size_t GroupLines::value_bytes(bool is_wide) const {
  const size_t number_bytes = is_wide ? sizeof(Decimal) : NarrowDecimal::bytes;
  const size_t sum_bytes = is_wide ? sizeof(DecimalSum) : NarrowDecimal::bytes;
  return 1 + aggregates_.sum * sum_bytes + (aggregates_.min + aggregates_.max) * number_bytes;
}

const char* GroupLines::end_of_values(const char* from) const {
  for (size_t i = 0; i < more_.size(); ++i) from += value_bytes((*from & wide_bit) != 0);
  return from;
}

// True if the other value can be added without widening this one.
bool GroupLines::has_room(const char* value, const Value& more) const {
  if ((*value & wide_bit) != 0 || !more.any) return true;
  if (aggregates_.sum) {
    const auto sum = more.sum.narrow();
    if (!sum || ((*value & any_bit) != 0 && !NarrowDecimal::at(value + 1).can_add(*sum)))
      return false;
  }
  return (!aggregates_.min || more.min.narrow()) && (!aggregates_.max || more.max.narrow());
}

// Loads a value and moves `from` to the next one.
void GroupLines::load_value(const char*& from, Value& value) const {
  const char bits = *from++;
  value.any = (bits & any_bit) != 0;
  value.is_wide = (bits & wide_bit) != 0;
  auto load = [&]<class Number>(Number& number) {
    if (value.is_wide) {
      std::memcpy(&number, from, sizeof number);
      from += sizeof number;
    } else {
      number = Number::of(NarrowDecimal::at(from));
      from += NarrowDecimal::bytes;
    }
  };
  if (aggregates_.sum) load(value.sum);
  if (aggregates_.min) load(value.min);
  if (aggregates_.max) load(value.max);
}

// Stores a value and moves `to` behind it. REQUIRES: it is wide, or its numbers are narrow.
void GroupLines::store_value(const Value& value, char*& to) const {
  *to++ = static_cast<char>((value.any ? any_bit : 0) | (value.is_wide ? wide_bit : 0));
  auto store = [&](const auto& number) {
    if (value.is_wide) {
      std::memcpy(to, &number, sizeof number);
      to += sizeof number;
    } else {
      number.narrow()->store(to);
      to += NarrowDecimal::bytes;
    }
  };
  if (aggregates_.sum) store(value.sum);
  if (aggregates_.min) store(value.min);
  if (aggregates_.max) store(value.max);
}

std::unexpected<Error> GroupLines::too_long(size_t i) const {
  return failure(ErrorCode::unsupported, "add up numbers to one of more than 38 digits",
                 "--value " + options_.values[i], "--count, --min or --max");
}

Status GroupLines::add_value(size_t i, const Value& more, Value& value) const {
  if (!more.any) return {};
  if (!value.any) {
    const bool is_wide = value.is_wide;
    value = more;
    value.is_wide = is_wide;
    return {};
  }
  if (aggregates_.sum && !value.sum.add(more.sum)) return too_long(i);
  if (aggregates_.min && more.min.compare(value.min) < 0) value.min = more.min;
  if (aggregates_.max && more.max.compare(value.max) > 0) value.max = more.max;
  return {};
}

// Adds the count and more_.
Result<bool> GroupLines::add(char* partial, uint64_t count) {
  char* at = aggregates_of(partial);
  const char* value = at + (aggregates_.count ? count_bytes : 0);
  for (const Value& more : more_) {
    if (!has_room(value, more)) return false;
    value += value_bytes((*value & wide_bit) != 0);
  }
  if (aggregates_.count) {
    count += items::load<uint64_t>(at);
    std::memcpy(at, &count, count_bytes);
    at += count_bytes;
  }
  for (size_t i = 0; i < more_.size(); ++i) {
    const char* from = at;
    Value sum;
    load_value(from, sum);
    if (auto status = add_value(i, more_[i], sum); !status) return std::unexpected(status.error());
    store_value(sum, at);
  }
  return true;
}

void GroupLines::widen(std::string_view partial, std::string& to) const {
  RowHead head = RowHead::at(partial.data());
  const char* from = partial.data() + RowHead::bytes + head.key_bytes;
  if (aggregates_.count) from += count_bytes;
  to.assign(partial.data(), from);
  for (size_t i = 0; i < more_.size(); ++i) {
    Value value;
    load_value(from, value);
    value.is_wide = true;
    const size_t before = to.size();
    to.resize(before + value_bytes(true));
    char* at = to.data() + before;
    store_value(value, at);
  }
  to.append(from, partial.data() + partial.size());
  head.row_bytes = static_cast<uint32_t>(to.size());
  head.store(to.data());
}

uint64_t GroupLines::count_of_partial(std::string_view partial) const {
  return items::load<uint64_t>(partial.data() + RowHead::bytes +
                               RowHead::at(partial.data()).key_bytes);
}

Status GroupLines::read_value(std::string_view text, size_t i, Value& value) {
  const auto number = Decimal::parse(text);
  value.any = number.has_value();
  if (!number) {
    if (is_blank(text)) return {};
    bad_value_ = BadValue{options_.values[i], value_columns_[i], std::string(text)};
    return failure(ErrorCode::corrupt, "read a number", "group");
  }
  if (aggregates_.sum) value.sum = DecimalSum(*number);
  if (aggregates_.min) value.min = *number;
  if (aggregates_.max) value.max = *number;
  return {};
}

// The text of a value. REQUIRES: of lines, fields_ has the fields of the item.
std::string_view GroupLines::text_of(const bowtie::Items& items, size_t i, size_t value) {
  if (style_.csv) return items.field(i, value_fields_[value], room_);
  const size_t column = value_columns_[value];
  return column < fields_.size() ? fields_[column] : std::string_view();
}

// Adds numbers of few digits to narrow values with the same places, the common case. Returns false
// and changes nothing if a number or value is not of that kind.
bool GroupLines::add_narrow(char* partial, const bowtie::Items& items, size_t i) {
  const size_t value_bytes = this->value_bytes(false);
  char* at = aggregates_of(partial);
  const char* value = at + (aggregates_.count ? count_bytes : 0);
  for (NarrowDecimal& number : narrow_) {
    const auto parsed = NarrowDecimal::parse(text_of(items, i, &number - narrow_.data()));
    if (!parsed || *value != any_bit) return false;
    for (size_t part = 1; part < value_bytes; part += NarrowDecimal::bytes) {
      const NarrowDecimal into = NarrowDecimal::at(value + part);
      if (into.places != parsed->places || !into.can_add(*parsed)) return false;
    }
    number = *parsed;
    value += value_bytes;
  }
  if (aggregates_.count) {
    const uint64_t count = items::load<uint64_t>(at) + 1;
    std::memcpy(at, &count, count_bytes);
    at += count_bytes;
  }
  for (const NarrowDecimal& number : narrow_) {
    ++at;
    auto replace_if = [&](bool asked, auto replaces) {
      if (!asked) return;
      if (replaces(NarrowDecimal::at(at))) number.store(at);
      at += NarrowDecimal::bytes;
    };
    if (aggregates_.sum) {
      NarrowDecimal sum = NarrowDecimal::at(at);
      sum.digits += number.digits;
      sum.whole_digits = std::max(sum.whole_digits, number.whole_digits);
      sum.store(at);
      at += NarrowDecimal::bytes;
    }
    replace_if(aggregates_.min, [&](auto min) { return number.digits < min.digits; });
    replace_if(aggregates_.max, [&](auto max) { return number.digits > max.digits; });
  }
  return true;
}

Result<bool> GroupLines::add_item(char* partial, const bowtie::Items& items, size_t i) {
  if (!style_.csv && !more_.empty()) split_fields(without_end(items[i]), style_, fields_);
  if (add_narrow(partial, items, i)) return true;
  for (size_t k = 0; k < more_.size(); ++k) {
    if (auto status = read_value(text_of(items, i, k), k, more_[k]); !status)
      return std::unexpected(status.error());
  }
  return add(partial, 1);
}

Result<bool> GroupLines::add_partial(char* partial, std::string_view other) {
  const char* from = other.data() + RowHead::bytes + RowHead::at(other.data()).key_bytes;
  const uint64_t count = aggregates_.count ? items::load<uint64_t>(from) : 0;
  if (aggregates_.count) from += count_bytes;
  for (Value& value : more_) load_value(from, value);
  return add(partial, count);
}

Status GroupLines::make_partial(const bowtie::Items& items, size_t i, std::string_view key,
                                std::string& to) {
  const std::string_view item = items[i];
  note_first(item);
  to.assign(RowHead::bytes, '\0');
  to.append(key).append(narrow_bytes_, '\0');
  if (!shows_key_ && aggregates_.distinct) to.append(without_end(item));
  if (!shows_key_ && !aggregates_.distinct) append_keys(without_end(item), to);
  if (to.size() > std::numeric_limits<uint32_t>::max())
    return failure(ErrorCode::unsupported, "group a line with a key of more than 4 GiB", "group");
  RowHead{static_cast<uint32_t>(to.size()), static_cast<uint32_t>(key.size())}.store(to.data());
  auto added = add_item(to.data(), items, i);
  if (added && !*added) {
    widen(std::string(to), to);
    added = add(to.data(), 1);
  }
  return added ? Status{} : std::unexpected(added.error());
}

// ---- Results.

void GroupLines::append_keys(std::string_view line, std::string& to) const {
  bool is_first = true;  // a key may be empty
  for (const std::string& key : text_order_of(order_.format())->texts(line)) {
    if (!std::exchange(is_first, false)) to += separator_;
    to += style_.csv ? items::row_field(key, separator_) : key;
  }
}

Status GroupLines::append_result(std::string_view partial, std::string& to) const {
  const std::string_view key =
      partial.substr(RowHead::bytes, RowHead::at(partial.data()).key_bytes);
  const char* from = key.data() + key.size() + (aggregates_.count ? count_bytes : 0);
  const std::string_view shown(end_of_values(from), partial.data() + partial.size());
  const std::string count = aggregates_.count ? std::to_string(count_of_partial(partial)) : "";
  if (aggregates_.like_uniq) {
    fmt::format_to(std::back_inserter(to), "{:>7} ", count);
  } else if (aggregates_.count && !style_.csv) {
    (to += count) += separator_;
  }
  if (!shows_key_) {
    to += shown;
  } else if (style_.csv) {
    to += items::row_field(key, separator_);
  } else {
    to += key;
  }
  if (aggregates_.count && style_.csv) (to += separator_) += count;
  for (size_t i = 0; i < more_.size(); ++i) {
    Value value;
    load_value(from, value);
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
