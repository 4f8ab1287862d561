#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace penstock::api {

// JSON for people and programs: objects have a line for each member, lists of plain values are on
// one line. Bytes that are not UTF-8 (a path may have some) become U+FFFD.
std::string json_text(const nlohmann::ordered_json& value);

}  // namespace penstock::api
