#include "items/keys/json_order.h"

#include <algorithm>
#include <utility>

#include "base/misuse.h"
#include "base/thread_object.h"
#include "items/keys/text/key_words.h"
#include "items/rows.h"

namespace penstock::items {
namespace {

bool is_plain(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '-' || c == '$' || c == '@' || static_cast<unsigned char>(c) >= 0x80;
}

std::unexpected<Error> no_path(const std::string& attempted, std::string_view rest,
                               const std::string& option) {
  if (rest.starts_with('['))
    return misuse("find an element of an array", option, "a member that is in no array");
  return misuse(attempted, option,
                ".NAME or .NAME.NAME, as in .user.id; other names in quotes, as in '.\"a b\"'");
}

// Consumes a name, plain or in quotes.
Result<std::string> read_name(std::string_view& text, const std::string& option) {
  if (text.starts_with(quote)) {
    size_t end = 1;
    while (end < text.size() && text[end] != quote) end += text[end] == '\\' ? 2 : 1;
    const std::string_view written = text.substr(0, std::min(end + 1, text.size()));
    // Names in quotes have the rules of JSON, so that a small object checks them.
    std::vector<JsonValue> values;
    std::string room;
    if (find_members("{\"\":" + std::string(written) + "}", {}, values))
      return misuse("read a name in quotes", option, "a string of JSON, as in --key '.\"a.b\"'");
    text.remove_prefix(written.size());
    return std::string(JsonValue{JsonType::string, written}.text(room));
  }
  const auto end = std::ranges::find_if_not(text, is_plain);
  const std::string name(text.begin(), end);
  text.remove_prefix(name.size());
  if (!name.empty()) return name;
  return no_path("find a member without a name", text, option);
}

// Consumes a path.
Result<JsonPath> read_path(std::string_view& text, const std::string& option) {
  JsonPath path;
  if (text.starts_with('.')) text.remove_prefix(1);
  for (;;) {
    auto name = read_name(text, option);
    if (!name) return std::unexpected(name.error());
    path.push_back(std::move(*name));
    if (!text.starts_with('.')) return path;
    text.remove_prefix(1);
  }
}

}  // namespace

Result<JsonPath> json_path_of(std::string_view text, const std::string& option) {
  auto path = read_path(text, option);
  if (path && !text.empty())
    return no_path("read '" + std::string(text) + "' behind the name of a member", text, option);
  return path;
}

std::string shown_path(const JsonPath& path) {
  std::string text;
  for (const std::string& name : path) {
    const bool plain = !name.empty() && std::ranges::all_of(name, is_plain);
    text += "." + (plain ? name : json_string(name));
  }
  return text;
}

JsonOrder::JsonOrder(const TextOptions& options, ValueFormats formats, bool reverse)
    : KeyOrder("members " + name_of(options),
               !options.stable && !options.unique &&
                   (options.locale == nullptr || !options.locale->collates())),
      has_last_resort_(!options.stable && !options.unique),
      reverse_(reverse),
      random_seed_(options.random_seed),
      locale_(options.locale),
      formats_(std::move(formats)) {}

Result<std::shared_ptr<const JsonOrder>> JsonOrder::make(const TextOptions& options) {
  auto whole = read_whole(options.letters);
  if (!whole) return std::unexpected(whole.error());
  auto formats = ValueFormats::parse(options.time_format, options.number_format);
  if (!formats) return std::unexpected(formats.error());
  std::shared_ptr<JsonOrder> order(new JsonOrder(options, *formats, whole->key.reverse));
  for (const std::string& spec : options.keys) {
    const std::string option = "--key " + spec;
    for (std::string_view rest = spec;; rest.remove_prefix(1)) {
      auto path = read_path(rest, option);
      if (!path) return std::unexpected(path.error());
      Written written;
      while (rest.starts_with(':')) {
        const size_t end = std::min(rest.find_first_of(":,", 1), rest.size());
        if (Status status = read_order(rest.substr(1, end - 1), spec, written); !status)
          return std::unexpected(status.error());
        rest.remove_prefix(end);
      }
      if (!rest.empty() && !rest.starts_with(','))
        return no_path("read '" + std::string(rest) + "' behind the name of a member", rest,
                       option);
      written.inherit_as_column(*whole);
      if (!settle(written))
        return misuse("sort by two orders that exclude each other", option, "one of them");
      order->keys_.push_back(formats->applied(written.key));
      order->paths_.push_back(std::move(*path));
      if (rest.empty()) break;
    }
  }
  if (order->paths_.empty())
    return misuse("order JSON lines without a key", shown_letters(options.letters), "--key .NAME");
  return order;
}

bool JsonOrder::append_value(size_t number, const JsonValue& value, bool is_last,
                             std::string& to) const {
  static constinit thread_local ThreadObject<std::string> room_of_thread;
  TextKey key = keys_[number];
  const bool reverse = std::exchange(key.reverse, false);
  const size_t from = to.size();
  const bool by_type = key.compare == TextCompare::bytes;
  if (by_type) to.push_back(static_cast<char>(value.type));
  bool is_read = true;
  const bool may_be_text = key.compare == TextCompare::number;
  if (value.type == JsonType::number &&
      (by_type || key.compare == TextCompare::numeric || may_be_text)) {
    // A text that is no number of the format has a 0 in this place.
    if (may_be_text) to.push_back(1);
    append_number(value.number().value_or(Number()), to);
  } else if (value.type == JsonType::string || !by_type) {
    is_read = append_key(key, value.text(room_of_thread.get()),
                         {.last = is_last && !reverse,
                          .random_seed = random_seed_,
                          .locale = locale_.get(),
                          .formats = &formats_},
                         to);
  }
  if (reverse) complement(to, from);
  return is_read;
}

// The room for the values of a line.
std::vector<JsonValue>& JsonOrder::room() {
  static constinit thread_local ThreadObject<std::vector<JsonValue>> values_of_thread;
  return values_of_thread.get();
}

bool JsonOrder::append(std::string_view line, std::string& to) const {
  (void)find_members(line, paths_, room());
  return append_values(line, room(), to);
}

bool JsonOrder::append_checked(std::string_view line, std::string& to, bool& is_read,
                               std::optional<ItemFault>& fault) const {
  fault = read(line, room());
  if (!fault) is_read = append_values(line, room(), to);
  return true;
}

bool JsonOrder::append_values(std::string_view line, const std::vector<JsonValue>& values,
                              std::string& to) const {
  bool is_read = true;
  for (size_t i = 0; i < values.size(); ++i)
    is_read &= append_value(i, values[i], !has_last_resort_ && i + 1 == values.size(), to);
  if (!has_last_resort_) return is_read;
  const size_t from = to.size();
  append_text(line, locale_.get(), !reverse_, to);
  if (reverse_) complement(to, from);
  return is_read;
}

std::optional<OddValue> JsonOrder::find_odd_value(std::string_view line, bool described) const {
  std::vector<JsonValue> values;
  std::string room;
  (void)find_members(line, paths_, values);
  for (size_t i = 0; i < values.size(); ++i) {
    const TextKey& key = keys_[i];
    const bool is_read_by_value =
        values[i].type == JsonType::number &&
        (key.compare == TextCompare::numeric || key.compare == TextCompare::number);
    if (is_read_by_value || !is_asked(key, false)) continue;
    auto odd = odd_value_of(key, values[i].text(room), locale_.get(), formats_);
    if (!odd) continue;
    if (described) describe(*odd, key, "member", shown_path(paths_[i]), locale_.get(), formats_);
    return odd;
  }
  return {};
}

std::optional<ItemFault> JsonOrder::fault_of(std::string_view line) const {
  return read(line, room());
}

// Finds the values of the keys, or the first fault.
std::optional<ItemFault> JsonOrder::read(std::string_view line,
                                         std::vector<JsonValue>& values) const {
  if (auto fault = find_members(line, paths_, values)) return fault;
  for (const JsonValue& value : values) {
    const bool has_no_order = value.type >= JsonType::array;
    if (!has_no_order && (value.type != JsonType::number || value.number())) continue;
    return ItemFault{.at = static_cast<size_t>(value.written.data() - line.data()),
                     .what = value.type == JsonType::array    ? "a key that is an array"
                             : value.type == JsonType::object ? "a key that is an object"
                                                              : "a key with a huge exponent",
                     .hint = has_no_order ? "another member, which is a string or a number"
                                          : "another member, or the letter g, which rounds"};
  }
  return {};
}

}  // namespace penstock::items
