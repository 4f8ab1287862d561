#include "items/keys/text/text_order.h"

#include "base/misuse.h"
#include "base/thread_object.h"
#include "items/keys/text/key_bytes.h"
#include "items/keys/text/key_place.h"
#include "items/keys/text/key_words.h"
#include "items/rows.h"

namespace penstock::items {
namespace {

std::string name_of(const TextOptions& options) {
  std::string name = "letters " + options.letters;
  for (const std::string& key : options.keys) name += " key " + key;
  if (options.separator) name += " separator " + std::to_string(*options.separator);
  if (options.stable) name += " stable";
  if (options.unique) name += " unique";
  if (options.csv) name += " csv";
  if (options.locale != nullptr) name += " locale " + options.locale->name();
  if (options.random_seed != 0) name += " seed " + std::to_string(options.random_seed);
  return name;
}

}  // namespace

TextOrder::TextOrder(const TextOptions& options, bool reverse)
    : KeyOrder(name_of(options), !options.stable && !options.unique &&
                                     (options.locale == nullptr || !options.locale->collates())),
      separator_(options.separator),
      csv_(options.csv),
      has_last_resort_(!options.stable && !options.unique),
      reverse_(reverse),
      random_seed_(options.random_seed),
      locale_(options.locale) {}

std::string_view TextOrder::text_of(const TextKey& key, std::string_view line,
                                    std::string& room) const {
  if (csv_) return field_of_row(line, separator_.value_or(','), key.start_field, room);
  return place_of(key, line, separator_);
}

void TextOrder::append(std::string_view line, std::string& to) const {
  const bool whole_line = keys_.empty() || has_last_resort_;
  static constinit thread_local ThreadObject<std::string> unquoted_of_thread;
  std::string& unquoted = unquoted_of_thread.get();
  for (const TextKey& key : keys_) {
    const bool last = !whole_line && &key == &keys_.back();
    append_key(key, text_of(key, line, unquoted),
               {.last = last, .random_seed = random_seed_, .locale = locale_.get()}, to);
  }
  if (!whole_line) return;
  const size_t from = to.size();
  append_text(line, locale_.get(), !reverse_, to);
  if (reverse_) complement(to, from);
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
  Written whole;
  std::string_view letters = options.letters;
  read_letters(letters, whole, true, true);
  if (!letters.empty()) {
    return misuse("sort by the order \"" + std::string(letters.substr(0, 1)) + "\"",
                  "letters " + options.letters, "some of bdfghiMnRrV");
  }
  std::shared_ptr<TextOrder> order(new TextOrder(options, whole.key.reverse));
  for (const std::string& spec : options.keys) {
    auto written = options.csv ? read_column(spec, options.header) : read_key(spec);
    if (!written) return std::unexpected(written.error());
    if (written->orders_nothing() && !written->key.reverse) {
      const TextKey place = written->key;
      *written = whole;
      written->key.start_field = place.start_field;
      written->key.start_character = place.start_character;
      written->key.end_field = place.end_field;
      written->key.end_characters = place.end_characters;
    }
    if (!settle(*written)) return bad_key(spec, "has two orders that exclude each other");
    order->keys_.push_back(written->key);
  }
  if (!order->keys_.empty() || whole.orders_nothing()) return order;
  if (!settle(whole)) {
    return misuse("sort by two orders that exclude each other", "-" + options.letters,
                  "one of them, or a -k for each");
  }
  order->keys_.push_back(whole.key);
  return order;
}

}  // namespace penstock::items
