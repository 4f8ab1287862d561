#pragma once

// For tests: a new folder that vanishes with all that is in it.

#include <stdlib.h>

#include <filesystem>
#include <iterator>
#include <string>

#include "base/check.h"

namespace penstock {

// Thread safety: as a std::string.
class TemporaryFolder {
 public:
  // In the system's folder of temporaries (TMPDIR), or in `parent`.
  explicit TemporaryFolder(
      const std::filesystem::path& parent = std::filesystem::temp_directory_path()) {
    std::string name = (parent / "penstock-test-XXXXXX").string();
    PENSTOCK_CHECK(::mkdtemp(name.data()) != nullptr, "a test can make a folder");
    path_ = name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  std::string path() const { return path_.string(); }
  // The path of a file in it, which need not be there.
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }
  // Counts the entries, but not those of folders in it.
  size_t entries() const {
    return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(path_), {}));
  }

 private:
  std::filesystem::path path_;
};

}  // namespace penstock
