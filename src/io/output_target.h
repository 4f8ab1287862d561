#pragma once

// Where an output goes, before it is opened.

#include <sys/stat.h>

#include <optional>
#include <string>

#include "io/file.h"
#include "penstock/base.h"

namespace penstock::io {

Kind kind_of(const struct stat& status);

// A link followed, and what stands there now.
struct OutputTarget {
  std::string name;
  std::optional<int> descriptor = {};
  bool exists = false;
  struct stat status = {};

  unsigned mode() const { return exists ? status.st_mode & 0777 : 0666; }
  bool is_file() const { return !descriptor && (!exists || kind_of(status) == Kind::regular); }
  // REQUIRES: a regular file, or none.
  Result<bool> replaces_input(const OutputOptions& options, const std::string& path) const;
};

// Fails where no file can be written, whatever is there.
Result<OutputTarget> resolve_output(const std::string& path);

}  // namespace penstock::io
