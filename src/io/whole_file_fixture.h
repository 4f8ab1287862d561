#pragma once

// Reading whole files, for tests.

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <system_error>

namespace penstock::io {

// Reads a file at once (reading sixteen megabytes byte by byte takes seconds under a sanitizer), or
// a pipe to its end.
inline std::string read_whole(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::error_code no_size;
  const auto bytes = std::filesystem::file_size(path, no_size);
  if (no_size) return {std::istreambuf_iterator<char>(in), {}};
  std::string data(bytes, '\0');
  in.read(data.data(), static_cast<std::streamsize>(data.size()));
  data.resize(static_cast<size_t>(in.gcount()));
  return data;
}

}  // namespace penstock::io
