#include "files/run/odd_values.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/amounts.h"
#include "base/printable.h"
#include "io/names.h"

namespace penstock::files {

std::string describe(const items::OddValue& value, const items::Format& format, uint64_t row) {
  constexpr size_t shown_characters_max = 40;
  return fmt::format("{}{}: '{}' {}",
                     row == 0 ? "" : fmt::format("{} {}, ", format.framing().noun, row),
                     value.place, printable(value.text, shown_characters_max), value.order);
}

std::string hint_for(const items::OddValue& value, const items::Format& format, uint64_t row) {
  const bool may_be_header = format.csv && row == 1 && format.header_lines == 0;
  return may_be_header ? "--header, if the first row is one" : value.hint;
}

void OddValues::add(const std::string& input, uint64_t row, const items::Format& format,
                    std::string_view item, uint64_t count) {
  const MutexLock lock(mutex_);
  Input& found = inputs_[input];
  found.items += count;
  if (found.items > count && found.row <= row) return;
  const auto value = format.keys->find_odd_value(items::without_line_end(format, item), true);
  found.row = row;
  found.first = describe(*value, format, row);
  found.hint = hint_for(*value, format, row);
  found.noun = format.framing().noun;
}

void OddValues::forget(const std::string& input) {
  const MutexLock lock(mutex_);
  inputs_.erase(input);
}

std::string OddValues::notice(const std::vector<std::string>& inputs) {
  const MutexLock lock(mutex_);
  if (inputs_.empty()) return {};
  auto first = inputs_.begin();
  for (const std::string& name : inputs) {
    if (const auto found = inputs_.find(name); found != inputs_.end()) {
      first = found;
      break;
    }
  }
  uint64_t items = 0;
  for (const auto& [name, input] : inputs_) items += input.items;
  const std::string name = first->first.empty() ? "" : io::shown_input(first->first) + ": ";
  return fmt::format("{}{}; {} {} such a value (try: {})", name, first->second.first,
                     counted(items, std::string(first->second.noun)), items == 1 ? "has" : "have",
                     first->second.hint);
}

}  // namespace penstock::files
