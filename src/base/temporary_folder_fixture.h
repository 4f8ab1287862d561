#pragma once

// A new folder for tests, which is removed with all its contents.

#include <stdlib.h>

#include <filesystem>
#include <string>

#include "base/check.h"

namespace penstock {

// Thread safety: as a std::string.
class TemporaryFolder {
 public:
  // Makes it in the system's folder of temporaries (TMPDIR), or in `parent`.
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
  // Returns the path of a file in it, which need not exist.
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }
  // Counts the files in it and in its folders.
  size_t files() const {
    size_t count = 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(path_))
      count += !entry.is_directory();
    return count;
  }

 private:
  std::filesystem::path path_;
};

}  // namespace penstock
