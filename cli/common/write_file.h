#pragma once

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <system_error>

#include "io/engine.h"
#include "io/file.h"
#include "penstock/base.h"

namespace penstock::cli {

// Writes all of `text` to a new output, and publishes it.
inline Status write_file(io::File& file, const std::string& text) {
  const auto* bytes = reinterpret_cast<const std::byte*>(text.data());
  if (auto written = io::write_exactly(file, 0, bytes, text.size()); !written) return written;
  return file.publish();
}

// Writes the whole file or none: it gets its name only when it is complete. "-" is stdout.
inline Status write_file(const std::string& path, const std::string& text,
                         const OutputRules& rules = {}) {
  auto file = io::File::create_output(path, {.caching = io::Caching::buffered, .rules = rules});
  if (!file) return std::unexpected(file.error());
  return write_file(*file, text);
}

// Returns whether a file is there that has bytes, but does not begin so.
inline bool holds_something_else(const std::string& path, std::string_view beginning) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return false;
  std::string first(beginning.size(), '\0');
  std::ifstream file(path, std::ios::binary);
  file.read(first.data(), static_cast<std::streamsize>(first.size()));
  return file.gcount() > 0 && first != beginning;
}

}  // namespace penstock::cli
