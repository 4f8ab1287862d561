#pragma once

// Fixture of the tests of whole sorts: a folder, files in it, generated inputs, and the least
// budget that this program can sort within.

#include <gtest/gtest.h>
#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/temporary_folder_fixture.h"
#include "files/sort/external_sort.h"
#include "generate/generator.h"
#include "io/emulation.h"
#include "io/engine.h"
#include "io/whole_file_fixture.h"
#include "items/checker.h"
#include "os/memory.h"
#include "penstock/base.h"
#include "test/support/injection.h"

namespace penstock::external {

using generate::Distribution;
using items::Format;
using items::Type;

inline const Format u64 = {Type::u64, 8};
inline const Format records = {Type::record, 100, 0, 10};
inline const Format lines = {Type::lines, 1};

class SortFixture : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(directory_ / "temporaries"); }
  void TearDown() override {
    io::inject({});
    io::emulate({});
    EXPECT_TRUE(std::filesystem::is_empty(directory_ / "temporaries")) << "temporaries were left";
  }

  SortOptions options(const items::Format& format) const {
    SortOptions options;
    options.inputs = {path("in")};
    options.output = path("out");
    options.format = format;
    options.temp_directories = {path("temporaries")};
    return options;
  }
  std::string path(const std::string& name) const { return (directory_ / name).string(); }
  static std::string read(const std::string& file) { return io::read_whole(file); }
  static void write(const std::string& file, std::string_view data) {
    std::ofstream(file, std::ios::binary | std::ios::trunc)
        .write(data.data(), static_cast<std::streamsize>(data.size()));
  }
  // Calls take(data) for one piece after the other.
  template <class Take>
  static void generate(const items::Format& format, generate::Distribution distribution,
                       uint64_t bytes, Take take) {
    const uint64_t count = bytes / (format.fixed() ? format.record_bytes : 40);
    auto generator =
        generate::Generator::open({.format = format, .distribution = distribution, .count = count});
    ASSERT_TRUE(generator) << generator.error().message();
    std::string piece(1000 * generator->item_bytes_max(), '\0');
    for (uint64_t first = 0; first < count; first += 1000) {
      const uint64_t items = std::min<uint64_t>(1000, count - first);
      take(std::string_view(piece).substr(
          0, generator->fill(first, items, reinterpret_cast<std::byte*>(piece.data()))));
    }
  }
  static std::string generate(const items::Format& format, generate::Distribution distribution,
                              uint64_t bytes) {
    std::string data;
    generate(format, distribution, bytes, [&](std::string_view piece) { data += piece; });
    return data;
  }
  void generate(const std::string& name, const items::Format& format, uint64_t bytes,
                generate::Distribution distribution = generate::Distribution::uniform) const {
    std::ofstream file(path(name), std::ios::binary);
    generate(format, distribution, bytes, [&](std::string_view piece) { file << piece; });
  }
  static const SortPhase* find(const std::vector<SortPhase>& phases, const std::string& name) {
    const auto found = std::ranges::find(phases, name, &SortPhase::name);
    return found == phases.end() ? nullptr : &*found;
  }
  static items::CheckResult check(const items::Format& format, const std::string& data,
                                  bool descending = false) {
    items::Checker checker({.format = format, .descending = descending});
    checker.add(std::as_bytes(std::span(data)));
    auto result = checker.finish();
    EXPECT_TRUE(result) << result.error().message();
    return *result;
  }
  // Runs sort() with a full disk, then with a read error, at an ever later request, until sort()
  // makes fewer requests than that. Failing runs have to report the error and leave no output.
  template <class Sort>
  void expect_clean_ends(Sort sort) const {
    for (auto [error, operation] :
         {std::pair{ENOSPC, io::Operation::write}, std::pair{EIO, io::Operation::read}}) {
      int failures = 0;
      for (uint64_t after = 0;; after += 1 + after / 2, ++failures) {
        SCOPED_TRACE(testing::Message() << "number of requests " << after);
        io::inject(
            {.seed = after, .error = error, .error_after = after, .error_operation = operation});
        auto stats = sort();
        io::inject({});
        if (stats) break;
        EXPECT_EQ(stats.error().system_errno, error) << stats.error().message();
        EXPECT_FALSE(std::filesystem::exists(path("out")));
      }
      EXPECT_GE(failures, 6);
      std::filesystem::remove(path("out"));
    }
  }
  static uint64_t budget_bytes() {
    ::malloc_trim(0);
    return std::max<uint64_t>(32 * MiB, os::resident_memory().bytes * 32 / 31 + spare_bytes);
  }

  // Memory that a sort may use beyond that of the test program itself.
  static constexpr uint64_t spare_bytes = 20 * MiB;

  const TemporaryFolder folder_;
  const std::filesystem::path directory_ = folder_.path();
  // Raises the program's memory above the least budget.
  std::vector<char> ballast_ = std::vector<char>(16 * MiB, 1);
};

}  // namespace penstock::external
