#pragma once

// The page's own files, as embed.cmake puts them into the program.

#include <string_view>

namespace penstock::report {

extern const std::string_view page_style;        // page/report.css
extern const std::string_view page_script;       // page/report.js
extern const std::string_view page_script_hash;  // "sha256-...": of exactly page_script

}  // namespace penstock::report
