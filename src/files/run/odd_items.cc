#include "files/run/odd_items.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/amounts.h"
#include "base/printable.h"
#include "io/names.h"

namespace penstock::files {
namespace {

std::string place_of(const items::Format& format, uint64_t row, const char* behind) {
  return row == 0 ? "" : fmt::format("{} {}{}", format.framing().noun, row, behind);
}

void set_first(FoundItems& found, OddKind kind, const items::Format& format,
               std::string_view item) {
  found.noun = format.framing().noun;
  if (kind == OddKind::value) {
    const auto value = format.keys->find_odd_value(items::without_line_end(format, item), true);
    found.first = describe(*value, format, found.row);
    found.hint = hint_for(*value, format, found.row);
    return;
  }
  items::Format strict = format;
  strict.rows_fit_header = true;
  found.first = place_of(format, found.row, ": ") + items::fault_of(strict, item)->what;
}

std::string counted_items(const FoundItems& found) {
  return counted(found.items, std::string(found.noun)) + (found.items == 1 ? " has" : " have");
}

}  // namespace

std::string describe(const items::OddValue& value, const items::Format& format, uint64_t row) {
  constexpr size_t shown_characters_max = 40;
  return fmt::format("{}{}: '{}' {}", place_of(format, row, ", "), value.place,
                     printable(value.text, shown_characters_max), value.order);
}

std::string hint_for(const items::OddValue& value, const items::Format& format, uint64_t row) {
  const bool may_be_header = format.csv && row == 1 && format.header_lines == 0;
  return may_be_header ? "--header, if the first row is one" : value.hint;
}

bool is_odd(OddKind kind, const items::Format& format, std::string_view item) {
  if (kind == OddKind::value)
    return format.keys != nullptr &&
           format.keys->find_odd_value(items::without_line_end(format, item), false).has_value();
  bool is_even = true;
  items::fault_of(format, item, is_even);
  return !is_even;
}

FoundItems together(const FoundByInput& found, const std::vector<std::string>& names) {
  if (found.empty()) return {};
  auto first = found.begin();
  const auto named =
      std::ranges::find_if(names, [&](const std::string& name) { return found.contains(name); });
  if (named != names.end()) first = found.find(*named);
  FoundItems all = first->second;
  all.items = 0;
  for (const auto& [name, items] : found) all.items += items.items;
  if (!first->first.empty()) all.first = io::shown_input(first->first) + ": " + all.first;
  return all;
}

std::string notice_of_lengths(const FoundItems& found) {
  return fmt::format("{}; {} more or fewer", found.first, counted_items(found));
}

void OddItems::add(OddKind kind, const std::string& input, uint64_t row,
                   const items::Format& format, std::string_view item, uint64_t count) {
  if (kind == OddKind::length && !counts_lengths_) return;
  const MutexLock lock(mutex_);
  FoundItems& found = of(kind)[input];
  found.items += count;
  if (found.items > count && found.row <= row) return;
  found.row = row;
  set_first(found, kind, format, item);
}

void OddItems::note(const std::string& input, uint64_t row, const items::Format& format,
                    std::string_view item) {
  for (const OddKind kind : {OddKind::value, OddKind::length}) {
    if (is_odd(kind, format, item)) add(kind, input, row, format, item);
  }
}

void OddItems::forget(const std::string& input) {
  const MutexLock lock(mutex_);
  values_.erase(input);
  lengths_.erase(input);
}

std::vector<std::string> OddItems::notices(const std::vector<std::string>& inputs) {
  const MutexLock lock(mutex_);
  std::vector<std::string> notices;
  if (const FoundItems found = together(values_, inputs); found.items > 0)
    notices.push_back(fmt::format("{}; {} such a value (try: {})", found.first,
                                  counted_items(found), found.hint));
  if (const FoundItems found = together(lengths_, inputs); found.items > 0)
    notices.push_back(notice_of_lengths(found));
  return notices;
}

}  // namespace penstock::files
