#pragma once

// The destination of an output, before it is opened.

#include <sys/stat.h>

#include <optional>
#include <string>

#include "io/file.h"
#include "penstock/base.h"

namespace penstock::io {

Kind kind_of(const struct stat& status);

// The end of an output's links, and the file that is there now.
struct OutputTarget {
  std::string name;
  std::optional<int> descriptor = {};
  bool exists = false;
  struct stat status = {};

  unsigned mode() const { return exists ? status.st_mode & 0777 : 0666; }
  bool is_file() const { return !descriptor && (!exists || kind_of(status) == Kind::regular); }
  // Returns whether an output replaces an input. REQUIRES: a regular file, or none.
  Result<bool> replaces_input(const OutputOptions& options, const std::string& path) const;
};

// Resolves an output's name. Fails if no file can be written there.
Result<OutputTarget> resolve_output(const std::string& path);

}  // namespace penstock::io
