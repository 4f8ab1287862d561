#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <ranges>
#include <string_view>

#include "base/amounts.h"
#include "base/did_you_mean.h"
#include "base/shell_word.h"
#include "cli/common/input_notices.h"
#include "io/names.h"
#include "items/json.h"
#include "items/keys/json_order.h"

namespace penstock::cli {
namespace {

// Adds the paths of the values in an object that can be keys.
void add_paths(const nlohmann::json& object, items::JsonPath& path, std::vector<std::string>& to) {
  constexpr size_t depth_max = 8;
  if (!object.is_object() || path.size() == depth_max) return;
  for (const auto& [name, value] : object.items()) {
    path.push_back(name);
    if (value.is_primitive()) to.push_back(items::shown_path(path));
    add_paths(value, path, to);
    path.pop_back();
  }
}

std::string hint_of_members(const std::string& missing, std::string_view line) {
  constexpr size_t names_max = 8;
  std::vector<std::string> names;
  items::JsonPath path;
  add_paths(nlohmann::json::parse(line, nullptr, false), path, names);
  if (names.empty()) return " (try: jq -c keys, for those that there are)";
  const bool has_more = names.size() > names_max;
  return fmt::format(
      "{} (try: one of {}{})", did_you_mean(missing, names),
      fmt::join(names | std::views::take(names_max) | std::views::transform(typed_word), ", "),
      has_more ? ", ..." : "");
}

// The lines at the beginning of an input, and the paths that none of them has.
struct Looked {
  uint64_t lines = 0;
  std::string_view first;
  std::vector<items::JsonPath> missing;
};

Looked look_for(std::vector<items::JsonPath> paths, std::string_view text, char line_end) {
  constexpr std::string_view mark = "\xEF\xBB\xBF";
  if (text.starts_with(mark)) text.remove_prefix(mark.size());
  Looked looked{.missing = std::move(paths)};
  std::vector<items::JsonValue> values;
  while (!looked.missing.empty()) {
    const size_t end = text.find(line_end);
    if (end == text.npos) break;
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end + 1);
    if (line.find_first_not_of(" \t\r") == line.npos) continue;
    if (items::find_members(line, looked.missing, values)) return {};  // the run names the fault
    if (looked.lines++ == 0) looked.first = line;
    for (size_t i = values.size(); i-- > 0;) {
      if (values[i].type != items::JsonType::missing)
        looked.missing.erase(looked.missing.begin() + static_cast<ptrdiff_t>(i));
    }
  }
  return looked;
}

}  // namespace

std::string member_notice(const FilesOptions& files, Beginnings& beginnings,
                          const std::vector<std::string>& inputs, const std::string& option,
                          const std::vector<std::string>& keys) {
  if (files.items.name != "jsonl" || keys.empty()) return {};
  const auto order = items::JsonOrder::make({.keys = keys, .letters = files.items.letters});
  if (!order) return {};
  std::vector<items::JsonPath> missing = (*order)->paths();
  std::string notice;
  for (const std::string& input : inputs | std::views::take(seen_inputs_max)) {
    const Beginning& beginning = beginnings.of(input, files.source);
    if (!beginning.head.is_file) return {};
    const char line_end = files.items.zero_terminated ? '\0' : '\n';
    const std::string text = beginning.rows(line_end);
    const Looked looked = look_for(missing, text, line_end);
    if (looked.lines == 0) continue;
    if (looked.missing.empty()) return {};
    if (notice.empty() || looked.missing.size() < missing.size()) {
      const std::string name = items::shown_path(looked.missing.front());
      const std::string input_name = io::shown_input(input);
      const std::string lack = beginning.is_all ? fmt::format("no line of {} has", input_name)
                               : looked.lines == 1
                                   ? fmt::format("the first line of {} lacks", input_name)
                                   : fmt::format("none of the first {} of {} has",
                                                 counted(looked.lines, "line"), input_name);
      notice = fmt::format("{} {}: {} this member{}", option, typed_word(name), lack,
                           hint_of_members(name, looked.first));
    }
    missing = looked.missing;
  }
  return notice;
}

}  // namespace penstock::cli
