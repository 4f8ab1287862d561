#include "interfaces/api/json_text.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace penstock::api {
namespace {

using Json = nlohmann::ordered_json;

std::string in_one_line(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

void add(std::string& text, const Json& value, size_t indent) {
  const bool plain =
      std::none_of(value.begin(), value.end(), [](const Json& one) { return one.is_structured(); });
  if (!value.is_structured() || value.empty() || (value.is_array() && plain)) {
    text += in_one_line(value);
    return;
  }
  const std::string line(indent + 2, ' ');
  text += value.is_object() ? "{\n" : "[\n";
  bool first = true;
  for (auto member = value.begin(); member != value.end(); ++member) {
    if (!first) text += ",\n";
    first = false;
    text += line;
    if (value.is_object()) text += in_one_line(member.key()) + ": ";
    add(text, *member, indent + 2);
  }
  text += '\n' + std::string(indent, ' ') + (value.is_object() ? '}' : ']');
}

}  // namespace

std::string json_text(const Json& value) {
  std::string text;
  add(text, value, 0);
  return text;
}

}  // namespace penstock::api
