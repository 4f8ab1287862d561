#include "items/keys/text/text_order.h"

#include "base/misuse.h"
#include "base/thread_object.h"
#include "items/keys/text/key_bytes.h"
#include "items/keys/text/key_place.h"
#include "items/keys/text/key_words.h"
#include "items/rows.h"

namespace penstock::items {
namespace {

// Reads one of TextOptions::keys.
Result<std::vector<Written>> written_keys(const std::string& spec, const TextOptions& options) {
  if (options.csv) return read_columns(spec, options.header);
  auto key = read_key(spec);
  if (!key) return std::unexpected(key.error());
  return std::vector{*key};
}

}  // namespace

std::string name_of(const TextOptions& options) {
  std::string name = "letters " + options.letters;
  for (const std::string& key : options.keys) name += " key " + key;
  if (options.separator) name += " separator " + std::to_string(*options.separator);
  if (options.stable) name += " stable";
  if (options.unique) name += " unique";
  if (options.csv) name += " csv " + name_of(*options.csv);
  if (options.locale != nullptr) name += " locale " + options.locale->name();
  if (!options.time_format.empty()) name += " times " + options.time_format;
  if (!options.number_format.empty()) name += " numbers " + options.number_format;
  if (options.random_seed != 0) name += " seed " + std::to_string(options.random_seed);
  return name;
}

TextOrder::TextOrder(const TextOptions& options, ValueFormats formats, bool reverse)
    : KeyOrder(name_of(options), !options.stable && !options.unique &&
                                     (options.locale == nullptr || !options.locale->collates())),
      header_(options.header),
      separator_(options.separator),
      csv_(options.csv),
      has_last_resort_(!options.stable && !options.unique),
      reverse_(reverse),
      random_seed_(options.random_seed),
      locale_(options.locale),
      formats_(std::move(formats)) {}

std::string_view TextOrder::text_of(const TextKey& key, std::string_view line,
                                    std::string& room) const {
  if (csv_) return field_of_row(line, *csv_, key.start_field, room);
  return place_of(key, line, separator_);
}

bool TextOrder::append(std::string_view line, std::string& to) const {
  bool is_read = true;
  const bool whole_line = keys_.empty() || has_last_resort_;
  static constinit thread_local ThreadObject<std::string> unquoted_of_thread;
  std::string& unquoted = unquoted_of_thread.get();
  for (const TextKey& key : keys_) {
    const bool last = !whole_line && &key == &keys_.back();
    const bool all = append_key(
        key, text_of(key, line, unquoted),
        {.last = last, .random_seed = random_seed_, .locale = locale_.get(), .formats = &formats_},
        to);
    is_read &= all || !is_asked(key, !csv_);
  }
  if (!whole_line) return is_read;
  const size_t from = to.size();
  append_text(line, locale_.get(), !reverse_, to);
  if (reverse_) complement(to, from);
  return is_read;
}

std::optional<OddValue> TextOrder::find_odd_value(std::string_view line, bool described) const {
  std::string unquoted;
  for (const TextKey& key : keys_) {
    if (!is_asked(key, !csv_)) continue;
    auto odd = odd_value_of(key, text_of(key, line, unquoted), locale_.get(), formats_);
    if (!odd) continue;
    const size_t column = key.start_field;
    const std::string name =
        csv_ && column < header_.size() ? header_[column] : std::to_string(column + 1);
    if (described) describe(*odd, key, csv_ ? "column" : "field", name, locale_.get(), formats_);
    return odd;
  }
  return {};
}

std::vector<std::string> TextOrder::texts(std::string_view line) const {
  std::vector<std::string> texts;
  std::string unquoted;
  for (const TextKey& key : keys_) {
    texts.emplace_back(text_of(key, line, unquoted));
  }
  if (texts.empty()) texts.emplace_back(line);
  return texts;
}

bool TextOrder::is_text() const {
  if (has_last_resort_ || (locale_ != nullptr && locale_->collates())) return false;
  if (keys_.empty()) return !reverse_;
  const TextKey& key = keys_.front();
  return keys_.size() == 1 && key.compare == TextCompare::bytes && !key.reverse &&
         !key.only_letters && !key.only_printable && !key.ignores_case;
}

std::vector<size_t> TextOrder::fields() const {
  std::vector<size_t> fields;
  for (const TextKey& key : keys_) fields.push_back(key.start_field);
  return fields;
}

Result<std::shared_ptr<const TextOrder>> TextOrder::make(const TextOptions& options) {
  auto whole = read_whole(options.letters);
  if (!whole) return std::unexpected(whole.error());
  auto formats = ValueFormats::parse(options.time_format, options.number_format);
  if (!formats) return std::unexpected(formats.error());
  std::shared_ptr<TextOrder> order(new TextOrder(options, *formats, whole->key.reverse));
  for (const std::string& spec : options.keys) {
    auto keys = written_keys(spec, options);
    if (!keys) return std::unexpected(keys.error());
    for (Written& written : *keys) {
      options.csv ? written.inherit_as_column(*whole) : written.inherit_as_field(*whole);
      if (!settle(written))
        return misuse("sort by two orders that exclude each other",
                      (options.csv ? "--key " : "-k ") + spec, "one of them");
      order->keys_.push_back(formats->applied(written.key));
    }
  }
  if (!order->keys_.empty() || whole->orders_nothing()) return order;
  if (!settle(*whole)) {
    return misuse("sort by two orders that exclude each other", shown_letters(options.letters),
                  "one of them, or a -k for each");
  }
  order->keys_.push_back(formats->applied(whole->key));
  return order;
}

}  // namespace penstock::items
