#pragma once

// Where temporaries go if nobody says.

#include <cstdlib>
#include <string>
#include <vector>

namespace penstock::file {

// $TMPDIR, or /tmp.
inline std::string default_temp_directory() {
  const char* from_environment = std::getenv("TMPDIR");
  return from_environment != nullptr && *from_environment != '\0' ? from_environment : "/tmp";
}

// These, or that one if there are none.
inline std::vector<std::string> temp_directories_or_default(
    const std::vector<std::string>& directories) {
  return directories.empty() ? std::vector{default_temp_directory()} : directories;
}

}  // namespace penstock::file
