#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace penstock::api {

// JSON for people and programs: objects with a line for each member, lists of plain values in one
// line. Bytes that are no UTF-8 (a path may have some) become U+FFFD.
std::string json_text(const nlohmann::ordered_json& value);

}  // namespace penstock::api
