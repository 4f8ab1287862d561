#pragma once

// The page's style and script, which embed.cmake puts into the program.

#include <string_view>

namespace penstock::report {

extern const std::string_view page_style;        // page/report.css
extern const std::string_view page_script;       // page/report.js
extern const std::string_view page_script_hash;  // "sha256-...", the hash of page_script

}  // namespace penstock::report
