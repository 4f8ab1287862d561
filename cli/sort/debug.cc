#include "cli/sort/debug.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <optional>
#include <string_view>

#include "cli/common/print.h"
#include "items/keys/text/key_bytes.h"
#include "items/keys/text/key_place.h"

namespace penstock::cli {
namespace {

using items::TextCompare;
using items::TextKey;

bool is_number(const TextKey& key) {
  return key.compare == TextCompare::numeric || key.compare == TextCompare::general ||
         key.compare == TextCompare::human;
}

bool has_no_width(const TextKey& key) {
  return key.end_field != TextKey::line_end && key.end_field < key.start_field;
}

bool spans_fields(const TextKey& key) {
  return key.end_field == TextKey::line_end || key.end_field > key.start_field;
}

// Blanks in front of a field belong to it, which is seldom meant.
bool begins_with_blanks(const TextKey& key) {
  if (key.start_field == 0 && key.end_field == 0 && key.end_characters > 0)
    return false;  // columns of characters
  const bool skips_them = key.skips_blanks_at_start || is_number(key) ||
                          key.compare == TextCompare::month || items::may_be_none(key.compare);
  return !skips_them || (key.start_character > 0 && !key.skips_blanks_at_start) ||
         (key.end_characters > 0 && !key.skips_blanks_at_end);
}

constexpr std::string_view all_letters = "bdfghiMnRrV";

std::string letters_shown(const TextKey& key) {
  std::string letters;
  auto add = [&](bool given, char letter) {
    if (given) letters += letter;
  };
  add(key.only_letters, 'd');
  add(key.ignores_case, 'f');
  add(key.compare == TextCompare::general, 'g');
  add(key.compare == TextCompare::human, 'h');
  add(key.only_printable, 'i');
  add(key.compare == TextCompare::month, 'M');
  add(key.compare == TextCompare::numeric || key.compare == TextCompare::number, 'n');
  add(key.compare == TextCompare::random, 'R');
  add(key.reverse, 'r');
  add(key.compare == TextCompare::version, 'V');
  return letters;
}

// The global ordering letters that no key uses.
std::string unused_letters(const ItemFormat& items, const std::vector<TextKey>& keys) {
  std::string given =
      items.letters.substr(0, items.letters.find(':')) + (items.descending ? "r" : "");
  if (given.contains('d')) std::erase(given, 'i');
  std::string used;
  for (const TextKey& key : keys) used += letters_shown(key);
  if (std::ranges::any_of(keys, &TextKey::skips_blanks_at_start) &&
      std::ranges::any_of(keys, &TextKey::skips_blanks_at_end))
    used += 'b';
  std::string unused;
  for (const char letter : all_letters)
    if (given.contains(letter) && !used.contains(letter)) unused += letter;
  return unused;
}

class Remarks {
 public:
  Remarks(const items::TextOrder* order, const items::Locale* locale, const ItemFormat& items)
      : order_(order), items_(items), locale_(locale) {
    if (order != nullptr && !items.keys.empty()) keys_ = order->keys();
  }

  std::vector<std::string> all(const std::vector<OldKey>& old_keys) {
    const bool simple =
        locale_ == nullptr || locale_->collation() == "C" || locale_->collation() == "POSIX";
    if (!simple) {
      add(fmt::format("text ordering performed using {} sorting rules",
                      quoted(locale_->collation())));
    } else {
      add("text ordering performed using simple byte comparison");
    }
    for (size_t i = 0; i < keys_.size(); ++i) {
      for (const OldKey& old : old_keys)
        if (old.key == i)
          add(fmt::format("obsolescent key {} used; consider {} instead", quoted(old.written),
                          quoted("-k " + old.now)));
      of_key(i, keys_[i]);
    }
    of_numbers();
    of_unused_letters();
    return std::move(remarks_);
  }

 private:
  void add(std::string remark) { remarks_.push_back(std::move(remark)); }

  // Quotes text as the C library's messages do: with curved quotes in UTF-8 locales.
  std::string quoted(std::string_view text) const {
    return locale_ != nullptr && locale_->is_utf8() ? fmt::format("‘{}’", text)
                                                    : fmt::format("'{}'", text);
  }
  std::string quoted(char c) const { return quoted(std::string_view(&c, 1)); }

  void of_key(size_t at, const TextKey& key) {
    const bool none = has_no_width(key);
    if (none) add(fmt::format("key {} has zero width and will be ignored", at + 1));
    if (!none && !items_.separator && begins_with_blanks(key))
      add(fmt::format("leading blanks are significant in key {}; consider also specifying 'b'",
                      at + 1));
    if (is_number(key) && spans_fields(key))
      add(fmt::format("key {} is numeric and spans multiple fields", at + 1));
  }

  void of_numbers() {
    const std::vector<TextKey> none;
    const std::vector<TextKey>& all = order_ != nullptr ? order_->keys() : none;
    if (std::ranges::none_of(all, is_number)) return;
    const char point = locale_ != nullptr ? locale_->point() : '.';
    const char group = locale_ != nullptr ? locale_->group() : '\0';
    bool spans = false, general_spans = false, plain_spans = false;
    for (const TextKey& key : keys_) {
      if (!is_number(key) || !spans_fields(key)) continue;
      spans = true;
      (key.compare == TextCompare::general ? general_spans : plain_spans) = true;
    }
    bool told_of_point = false;
    if (const auto separator = items_.separator; separator && spans) {
      if (*separator == point) {
        add(fmt::format("field separator {} is treated as a decimal point in numbers",
                        quoted(point)));
        told_of_point = true;
      } else if (group != '\0' && *separator == group && plain_spans) {
        add(fmt::format("field separator {} is treated as a group separator in numbers",
                        quoted(group)));
        told_of_point = true;
      } else if (*separator == '-') {
        add(fmt::format("field separator {} is treated as a minus sign in numbers", quoted('-')));
      } else if (*separator == '+' && general_spans) {
        add(fmt::format("field separator {} is treated as a plus sign in numbers", quoted('+')));
      }
    }
    if (!told_of_point) {
      add(fmt::format("{}numbers use {} as a decimal point in this locale",
                      items_.separator == point ? "" : "note ", quoted(point)));
    }
    if (locale_ != nullptr && locale_->has_wide_group() &&
        std::ranges::any_of(all, [](const TextKey& key) {
          return is_number(key) && key.compare != TextCompare::general;
        }))
      add("the multi-byte number group separator in this locale is not supported");
  }

  void of_unused_letters() {
    if (keys_.empty()) return;
    std::string unused = unused_letters(items_, keys_);
    const bool last_resort = order_->has_last_resort() && unused.contains('r');
    if (last_resort) std::erase(unused, 'r');
    if (unused.size() == 1) add(fmt::format("option '-{}' is ignored", unused));
    if (unused.size() > 1) add(fmt::format("options '-{}' are ignored", unused));
    if (last_resort) add("option '-r' only applies to last-resort comparison");
  }

  const items::TextOrder* const order_;
  const ItemFormat& items_;
  const items::Locale* const locale_;
  std::vector<TextKey> keys_;  // the given keys; empty if whole lines are compared
  std::vector<std::string> remarks_;
};

size_t columns_of(const items::Locale* locale, std::string_view text) {
  // A tab is shown as one character.
  const auto tabs = static_cast<size_t>(std::ranges::count(text, '\t'));
  if (locale != nullptr) return locale->columns(text) + tabs;
  return tabs + static_cast<size_t>(std::ranges::count_if(text, [](char c) {
           const auto byte = static_cast<unsigned char>(c);
           return byte >= 0x20 && byte != 0x7f;
         }));
}

class UnderliningSink final : public Sink {
 public:
  UnderliningSink(std::shared_ptr<const items::KeyOrder> order,
                  std::shared_ptr<const items::Locale> locale, char line_end)
      : kept_(std::move(order)),
        locale_(std::move(locale)),
        order_(static_cast<const items::TextOrder*>(kept_.get())),
        line_end_(line_end) {}

  Status write(std::span<const std::byte> from) override {
    std::string_view text(reinterpret_cast<const char*>(from.data()), from.size());
    while (!text.empty()) {
      const size_t end = text.find(line_end_);
      begun_.append(text.substr(0, end));
      if (end == text.npos) break;
      show(begun_);
      begun_.clear();
      text.remove_prefix(end + 1);
    }
    if (std::ferror(stdout) == 0) return {};
    return system_error(EPIPE, "write", "standard output");
  }

 private:
  void show(std::string_view line) {
    std::string shown(line);
    std::ranges::replace(shown, '\t', '>');
    print("{}\n", shown);
    if (order_ == nullptr) return underline(line, 0, line.size());
    for (const items::TextKey& key : order_->keys()) {
      std::string_view part = items::place_of(key, line, order_->separator());
      part = items::compared_part(key, part, order_->locale());
      auto at = static_cast<size_t>(part.data() - line.data());
      // A number or a month is looked for after blanks, even beyond the key's end.
      if (has_no_width(key) && key.start_character == 0 &&
          (is_number(key) || key.compare == TextCompare::month))
        at = items::skip_blanks(line, at);
      underline(line, at, part.size());
    }
    if (order_->keys().empty() || order_->has_last_resort()) underline(line, 0, line.size());
  }

  void underline(std::string_view line, size_t at, size_t bytes) {
    const size_t before = columns_of(locale_.get(), line.substr(0, at));
    const size_t under = columns_of(locale_.get(), line.substr(at, bytes));
    const std::string marks = under == 0 ? "^ no match for key" : std::string(under, '_');
    print("{}{}\n", std::string(before, ' '), marks);
  }

  const std::shared_ptr<const items::KeyOrder> kept_;
  const std::shared_ptr<const items::Locale> locale_;
  const items::TextOrder* const order_;
  const char line_end_;
  std::string begun_;
};

}  // namespace

std::vector<std::string> remarks_on(const items::TextOrder* order, const items::Locale* locale,
                                    const ItemFormat& items, const std::vector<OldKey>& old_keys) {
  return Remarks(order, locale, items).all(old_keys);
}

std::shared_ptr<Sink> underlining_sink(std::shared_ptr<const items::KeyOrder> order,
                                       std::shared_ptr<const items::Locale> locale, char line_end) {
  return std::make_shared<UnderliningSink>(std::move(order), std::move(locale), line_end);
}

}  // namespace penstock::cli
