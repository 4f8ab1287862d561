#pragma once

// What the tests of whole sorts have in common: a folder, files in it, generated inputs, and the
// least budget that is one for this program.

#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "os/memory.h"
#include "penstock/units.h"
#include "record/generator.h"

namespace penstock::external {

// A file at once: sixteen megabytes byte by byte are seconds under a sanitizer. A pipe to its end.
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

class SortFixture : public testing::Test {
 protected:
  std::string path(const std::string& name) const { return (directory_ / name).string(); }
  static std::string read(const std::string& file) { return read_whole(file); }
  static void write(const std::string& file, std::string_view data) {
    std::ofstream(file, std::ios::binary | std::ios::trunc)
        .write(data.data(), static_cast<std::streamsize>(data.size()));
  }
  static std::string generate(const record::Format& format, record::Distribution distribution,
                              uint64_t bytes) {
    uint64_t count = bytes / (format.fixed() ? format.record_bytes : 40);
    auto generator =
        record::Generator::open({.format = format, .distribution = distribution, .count = count});
    EXPECT_TRUE(generator) << generator.error().message();
    std::string data;
    std::string piece(1000 * generator->item_bytes_max(), '\0');
    for (uint64_t first = 0; first < count; first += 1000) {
      uint64_t items = std::min<uint64_t>(1000, count - first);
      data.append(piece, 0,
                  generator->fill(first, items, reinterpret_cast<std::byte*>(piece.data())));
    }
    return data;
  }
  static uint64_t budget_bytes() {
    ::malloc_trim(0);
    return std::max<uint64_t>(32 * MiB, os::resident_memory().bytes * 32 / 31 + spare_bytes);
  }

  // What a sort may use beyond what the test program itself takes.
  static constexpr uint64_t spare_bytes = 20 * MiB;

  std::filesystem::path directory_;
  // So that the least budget is below what the program has.
  std::vector<char> ballast_ = std::vector<char>(16 * MiB, 1);
};

}  // namespace penstock::external
