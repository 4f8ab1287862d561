#include "files/ops/group/group_lines.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

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

constexpr size_t count_bytes = sizeof(uint64_t);

void add_count(char* count, uint64_t more) {
  more += items::load<uint64_t>(count);
  std::memcpy(count, &more, sizeof more);
}

const items::TextOrder* text_order_of(const items::Format& format) {
  return dynamic_cast<const items::TextOrder*>(format.keys.get());
}

}  // namespace

GroupLines::GroupLines(const items::Format& format, const Aggregates& aggregates,
                       const GroupLinesOptions& options, GroupColumns columns)
    : order_(format),
      aggregates_(aggregates),
      counts_(aggregates.count || aggregates.kept != GroupsKept::all),
      options_(options),
      style_(items::style_of(format, options.separator)),
      has_members_(format.framing().has_members),
      separator_(has_members_ ? ',' : style_.separator.value_or('\t')),
      columns_(std::move(columns)) {
  set_order(format);
  if (!format.has_rules()) end_ = format.line_end;
  empty_bytes_ = has_values() + options.positions * position_bytes + counts_ * count_bytes +
                 columns_.empty_bytes();
}

Result<std::shared_ptr<GroupLines>> GroupLines::make(const items::Format& format,
                                                     const Aggregates& aggregates,
                                                     const GroupLinesOptions& options) {
  auto columns =
      GroupColumns::make(aggregates, options.values, options.results, options.number_format);
  if (!columns) return std::unexpected(columns.error());
  if (aggregates.like_uniq && (columns->size() > 0 || format.has_rules()))
    return misuse("write this as uniq -c does", "--format uniq", "--count");
  return std::shared_ptr<GroupLines>(
      new GroupLines(format, aggregates, options, std::move(*columns)));
}

void GroupLines::set_order(const items::Format& format) {
  order_ = items::ItemOrder(format);
  const items::TextOrder* const order = text_order_of(format);
  key_members_ = dynamic_cast<const items::JsonOrder*>(format.keys.get());
  shows_key_ = !has_values() && !options_.total &&
               (format.keys == nullptr || (order != nullptr && order->is_text() &&
                                           (!aggregates_.distinct || order->keys().empty())));
  text_key_.reset();
  if (style_.csv || order == nullptr || !order->is_text() || order->keys().empty()) return;
  text_key_ = order->keys().front();
  text_separator_ = order->separator();
}

std::string_view GroupLines::without_end(std::string_view line) const {
  line = items::without_line_end(order_.format(), line);
  return order_.format().has_rules() ? items::without_return(line) : line;
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
  if (style_.csv && !header.empty()) names = items::fields_of_row(without_end(header), *style_.csv);
  if (auto status = has_members_ ? columns_.find_members() : columns_.find(names); !status)
    return status;
  for (const ColumnResult& result : columns_.results())
    result_names_.push_back(columns_.name_of(result, names));
  if (style_.csv) find_columns();
  has_begun_ = true;
  head_ = head;
  if (header.empty() || !style_.csv || aggregates_.distinct) return {};
  head_.resize(head.size() - header.size());
  head_ += head_of(header);
  return {};
}

// Collects the columns of keys and values, each once.
void GroupLines::find_columns() {
  for (size_t i = 0; i < columns_.size(); ++i) indexed_.push_back(columns_.number(i));
  const items::TextOrder* const order = text_order_of(order_.format());
  const bool is_field =
      !options_.total && order != nullptr && order->is_text() && !order->keys().empty();
  if (is_field) indexed_.push_back(order->fields().front());
  std::ranges::sort(indexed_);
  indexed_.erase(std::ranges::unique(indexed_).begin(), indexed_.end());
  auto place_of = [&](size_t column) {
    return static_cast<size_t>(std::ranges::lower_bound(indexed_, column) - indexed_.begin());
  };
  if (is_field) key_column_ = place_of(order->fields().front());
  for (size_t i = 0; i < columns_.size(); ++i)
    value_fields_.push_back(place_of(columns_.number(i)));
}

// The header of the results.
std::string GroupLines::head_of(std::string_view header) const {
  std::string line;
  bool is_first = options_.total;
  if (!options_.total) append_keys(without_end(header), line);
  auto add = [&](const std::string& name) {
    if (!std::exchange(is_first, false)) line += separator_;
    line += items::row_field(name, *style_.csv);
  };
  if (aggregates_.count) add("count");
  for (const std::string& name : result_names_) add(name);
  return line + end_;
}

// ---- Keys.

void GroupLines::find_fields(std::string_view line, LineFields& fields) const {
  if (style_.csv || columns_.size() == 0) return;
  if (!has_members_) return split_fields(line, style_, fields.texts);
  (void)items::find_members(line, columns_.members(), fields.members);
  fields.rooms.resize(fields.members.size());
  fields.texts.clear();
  for (size_t i = 0; i < fields.members.size(); ++i)
    fields.texts.push_back(fields.members[i].decimal(fields.rooms[i]));
}

std::string_view GroupLines::text_of(const bowtie::Items& items, size_t i, size_t column,
                                     const LineFields& fields, std::string& room) const {
  if (style_.csv) return items.field(i, value_fields_[column], room);
  const size_t number = columns_.number(column);
  return number < fields.texts.size() ? fields.texts[number] : std::string_view();
}

std::string_view GroupLines::plain_key(const bowtie::Items& items, size_t i, std::string& room,
                                       bool& is_read) const {
  if (options_.total) return {};
  if (key_column_) return items.field(i, *key_column_, room);
  return text_key_ ? items::place_of(*text_key_, without_end(items[i]), text_separator_)
                   : order_.key(items[i], room, is_read);
}

std::optional<std::string_view> GroupLines::key_of_item(const bowtie::Items& items, size_t i,
                                                        size_t entry, KeyScratch& scratch) const {
  if (!has_values()) return plain_key(items, i, scratch.key, scratch.is_read);
  if (entry == 0) {
    scratch.key.clear();
    append_group_key(plain_key(items, i, scratch.value, scratch.is_read), scratch.key);
    scratch.group_bytes = scratch.key.size();
    find_fields(without_end(items[i]), scratch.fields);
  }
  scratch.key.resize(scratch.group_bytes);
  scratch.key += static_cast<char>(entry);
  if (entry == 0) return scratch.key;
  const ValueList& list = columns_.lists()[entry - 1];
  const std::string_view text = text_of(items, i, list.column, scratch.fields, scratch.value);
  const items::JsonValue* const member =
      has_members_ ? &scratch.fields.members[list.column] : nullptr;
  const bool is_there =
      member != nullptr && !list.numbers
          ? append_member(*member, text, scratch.key)
          : append_value(text, list.numbers, scratch.key, columns_.number_format(member));
  return is_there ? std::optional<std::string_view>(scratch.key) : std::nullopt;
}

// ---- Partials.

std::optional<size_t> GroupLines::list_of_partial(std::string_view partial) const {
  if (!has_values()) return {};
  const auto entry = static_cast<uint8_t>(partial[count_offset(partial.data()) - 1]);
  return entry == 0 ? std::nullopt : std::optional<size_t>(entry - 1);
}

void GroupLines::begin_fold(std::string_view group, ValueFold& fold) const {
  fold.begin(group.data() + state_offset(group.data()));
}

void GroupLines::add_to_fold(std::string_view group, std::string_view value,
                             ValueFold& fold) const {
  const RowHead head = RowHead::at(value.data());
  const size_t list = *list_of_partial(value);
  const uint64_t count = columns_.lists()[list].numbers
                             ? items::load<uint64_t>(value.data() + count_offset(value.data()))
                             : 1;
  const size_t group_bytes = RowHead::at(group.data()).key_bytes;
  fold.add(list, value.substr(RowHead::bytes + group_bytes, head.key_bytes - group_bytes), count);
}

// Adds the count and the values of the columns.
Result<bool> GroupLines::add(char* partial, uint64_t count) {
  char* const state = partial + state_offset(partial);
  if (!columns_.has_room(state)) return false;
  if (counts_) add_count(partial + count_offset(partial), count);
  if (auto status = columns_.add(state); !status) return std::unexpected(status.error());
  return true;
}

void GroupLines::widen(std::string_view partial, std::string& to) const {
  RowHead head = RowHead::at(partial.data());
  const char* const state = partial.data() + state_offset(partial.data());
  to.assign(partial.data(), state);
  columns_.grow(state, to);
  to.append(columns_.end_of(state), partial.data() + partial.size());
  head.row_bytes = static_cast<uint32_t>(to.size());
  head.store(to.data());
}

uint64_t GroupLines::count_of_partial(std::string_view partial) const {
  return items::load<uint64_t>(partial.data() + count_offset(partial.data()));
}

Result<bool> GroupLines::add_item(char* partial, const bowtie::Items& items, size_t i) {
  columns_.reset_empty_values();
  if (const auto list = list_of_partial({partial, RowHead::at(partial).row_bytes})) {
    if (columns_.lists()[*list].numbers) add_count(partial + count_offset(partial), 1);
    return true;
  }
  if (!style_.csv) find_fields(without_end(items[i]), fields_);
  auto text = [&](size_t column) { return text_of(items, i, column, fields_, room_); };
  if (columns_.add_narrow(partial + state_offset(partial), text)) {
    if (counts_) add_count(partial + count_offset(partial), 1);
    return true;
  }
  for (size_t column = 0; column < columns_.size(); ++column) {
    const std::string_view number = text(column);
    const items::JsonValue* const member = has_members_ ? &fields_.members[column] : nullptr;
    if (auto status = columns_.set(column, number, member); !status)
      return std::unexpected(status.error());
  }
  return add(partial, 1);
}

Result<bool> GroupLines::add_partial(char* partial, std::string_view other) {
  const char* const count = other.data() + count_offset(other.data());
  if (const auto list = list_of_partial(other)) {
    if (columns_.lists()[*list].numbers)
      add_count(partial + count_offset(partial), items::load<uint64_t>(count));
    return true;
  }
  const uint64_t added = counts_ ? items::load<uint64_t>(count) : 0;
  const char* const state = other.data() + state_offset(other.data());
  if (columns_.add_narrow(partial + state_offset(partial), state)) {
    if (counts_) add_count(partial + count_offset(partial), added);
    return true;
  }
  columns_.set_all(state);
  return add(partial, added);
}

Status GroupLines::make_partial(const bowtie::Items& items, size_t i, size_t entry,
                                std::string_view key, std::string& to) {
  const std::string_view item = items[i];
  note_first(item);
  to.assign(RowHead::bytes, '\0');
  to.append(key);
  if (entry > 0) {
    const bool is_counted = columns_.lists()[entry - 1].numbers;
    to += static_cast<char>(entry);
    to.append(is_counted ? count_bytes : 0, '\0');
  } else {
    const size_t at = to.size();
    to.append(empty_bytes_, '\0');
    const uint64_t position = __builtin_bswap64(position_++);
    if (options_.positions) std::memcpy(to.data() + at, &position, sizeof position);
    if (!shows_key_ && aggregates_.distinct) to.append(without_end(item));
    if (!shows_key_ && !aggregates_.distinct && !options_.total) append_keys(without_end(item), to);
  }
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

std::string GroupLines::empty_partial() const {
  std::string key;
  if (has_values()) append_group_key({}, key);
  if (has_values()) key += '\0';
  std::string partial(RowHead::bytes, '\0');
  partial.append(key).append(empty_bytes_, '\0');
  RowHead{static_cast<uint32_t>(partial.size()), static_cast<uint32_t>(key.size())}.store(
      partial.data());
  return partial;
}

// ---- Results.

void GroupLines::append_keys(std::string_view line, std::string& to) const {
  bool is_first = true;  // a key may be empty
  if (has_members_) return append_members(line, to);
  for (const std::string& key : text_order_of(order_.format())->texts(line)) {
    if (!std::exchange(is_first, false)) to += separator_;
    to += style_.csv ? items::row_field(key, *style_.csv) : key;
  }
}

// Appends the members of the keys without the braces around them; a missing one stays missing.
void GroupLines::append_members(std::string_view line, std::string& to) const {
  std::vector<items::JsonValue> values;
  (void)items::find_members(line, key_members_->paths(), values);
  bool is_first = true;
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i].type == items::JsonType::missing) continue;
    if (!std::exchange(is_first, false)) to += ',';
    to += items::json_string(fmt::format("{}", fmt::join(key_members_->paths()[i], "."))) + ':';
    to += values[i].written;
  }
}

Status GroupLines::append_result(std::string_view partial, std::string& to,
                                 std::span<const std::string> of_values) const {
  const std::string_view key =
      partial.substr(RowHead::bytes, RowHead::at(partial.data()).key_bytes);
  const char* const state = partial.data() + state_offset(partial.data());
  bool is_first = true;
  auto add = [&](std::string_view text) {
    if (!std::exchange(is_first, false)) to += separator_;
    to += text;
  };
  const bool is_object = has_members_ && !aggregates_.distinct;
  const std::string count = aggregates_.count ? std::to_string(count_of_partial(partial)) : "";
  if (is_object) to += '{';
  if (aggregates_.like_uniq) {
    fmt::format_to(std::back_inserter(to), "{:>7} ", count);
  } else if (aggregates_.count && !style_.csv && !is_object) {
    add(count);
  }
  if (!options_.total) {
    const std::string_view shown(columns_.end_of(state), partial.data() + partial.size());
    if (shows_key_) {
      add(style_.csv ? items::row_field(key, *style_.csv) : key);
    } else if (!is_object || !shown.empty()) {  // else all members of the key are missing
      add(shown);
    }
  }
  if (is_object && aggregates_.count) {
    add("\"count\":" + count);
  } else if (aggregates_.count && style_.csv) {
    add(count);
  }
  if (columns_.size() > 0) {
    auto status = columns_.for_results(state, of_values, [&](size_t i, std::string_view text) {
      if (is_object) {
        add(items::json_string(result_names_[i]) + ':');
        to += text.empty() ? "null" : text;
      } else if (style_.csv) {
        add(items::row_field(text, *style_.csv));
      } else {
        add(text);
      }
    });
    if (!status) return status;
  }
  if (is_object) to += '}';
  // Without a first line there is no end to follow.
  to += end_.empty() ? std::string(1, order_.format().line_end) : end_;
  return {};
}

}  // namespace penstock::files
