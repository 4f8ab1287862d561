#pragma once

// Where temporaries go if nobody says.

#include <cstdlib>
#include <string>

namespace penstock::file {

// $TMPDIR, or /tmp.
inline std::string default_temp_directory() {
  const char* from_environment = std::getenv("TMPDIR");
  return from_environment != nullptr && *from_environment != '\0' ? from_environment : "/tmp";
}

}  // namespace penstock::file
