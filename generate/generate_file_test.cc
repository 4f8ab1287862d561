// Tests of generated files, written and checked through the file layer, also when it misbehaves.

#include "generate/generate_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include "base/temporary_folder_fixture.h"
#include "base/trials.h"
#include "io/engine.h"
#include "io/whole_file_fixture.h"
#include "items/check_file.h"
#include "test/support/injection.h"

namespace penstock::generate {

using namespace items;
namespace {

class FileTest : public testing::Test {
 protected:
  ~FileTest() override { io::inject({}); }

  std::string path(const char* name) const { return folder_ / name; }

  const TemporaryFolder folder_{std::filesystem::current_path()};
};

Generator generator_of(const char* format, Distribution distribution, uint64_t count) {
  GeneratorOptions options;
  options.format = *parse_format(format);
  options.distribution = distribution;
  options.count = count;
  return *Generator::open(options);
}

std::vector<std::byte> in_memory(const Generator& generator) {
  std::vector<std::byte> data(generator.options().count * generator.item_bytes_max());
  data.resize(generator.fill(0, generator.options().count, data.data()));
  return data;
}

std::vector<std::byte> contents(const std::string& path) {
  const std::string text = io::read_whole(path);
  const auto* data = reinterpret_cast<const std::byte*>(text.data());
  return {data, data + text.size()};
}

Result<CheckResult> check(const std::string& path, const CheckFileOptions& options) {
  const auto file = io::File::open_read(path);
  if (!file) return std::unexpected(file.error());
  return check_file(*file, options);
}

void expect_equal(const CheckResult& found, const CheckResult& expected) {
  EXPECT_EQ(found.count, expected.count);
  EXPECT_EQ(found.duplicates, expected.duplicates);
  EXPECT_EQ(found.first_unsorted, expected.first_unsorted);
  EXPECT_EQ(found.checksum_hex(), expected.checksum_hex());
}

TEST_F(FileTest, FilesHoldWhatMemoryHoldsAndChecksAgree) {
  for (const char* format : {"u32", "u64", "kv64", "record", "lines"}) {
    for (const uint64_t count : {0, 1, 12'345, 130'001}) {
      for (const auto distribution : {Distribution::uniform, Distribution::sorted}) {
        if (!tried()) continue;
        const Generator generator = generator_of(format, distribution, count);
        const auto bytes = generate_file(generator, path("file"), {.threads = 3});
        ASSERT_TRUE(bytes) << bytes.error().message();
        const auto expected = in_memory(generator);
        ASSERT_EQ(*bytes, expected.size());
        ASSERT_EQ(contents(path("file")), expected) << format << " " << count;
        const CheckOptions options{generator.options().format};
        Checker checker(options);
        checker.add(expected);
        for (const unsigned threads : {1, 2, 5}) {
          const auto checked = check(path("file"), {.check = options, .threads = threads});
          ASSERT_TRUE(checked) << checked.error().message();
          expect_equal(*checked, *checker.finish());
        }
      }
    }
  }
}

TEST_F(FileTest, PipesCarryTheSameBytes) {
  const std::string pipe = path("pipe");
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  for (const char* format : {"u64", "lines"}) {
    const Generator generator = generator_of(format, Distribution::uniform, 700'001);
    std::jthread writer([&] { EXPECT_TRUE(generate_file(generator, pipe)); });
    ASSERT_EQ(contents(pipe), in_memory(generator)) << format;
  }
}

TEST_F(FileTest, ShortTransfersAndDelaysChangeNothing) {
  const uint64_t seed = 77;
  for (const char* format : {"u64", "record", "lines"}) {
    const Generator generator = generator_of(format, Distribution::uniform, 100'003);
    io::inject({.seed = seed, .short_transfer = 0.3, .delay = 0.2, .delay_us_max = 300});
    ASSERT_TRUE(generate_file(generator, path("file")));
    const CheckOptions options{generator.options().format};
    const auto checked = check(path("file"), {.check = options});
    io::inject({});
    const auto expected = in_memory(generator);
    ASSERT_EQ(contents(path("file")), expected) << format << " seed " << seed;
    Checker checker(options);
    checker.add(expected);
    expect_equal(*checked, *checker.finish());
  }
}

TEST_F(FileTest, AFullDiskLeavesNothingBehindAndTheOldFileWhole) {
  const Generator generator = generator_of("u64", Distribution::uniform, 2'000'000);
  std::ofstream(path("file")) << "old";
  for (const uint64_t after : {0, 1, 5}) {
    io::inject({.error = ENOSPC, .error_after = after, .error_operation = io::Operation::write});
    const auto bytes = generate_file(generator, path("file"));
    io::inject({});
    ASSERT_FALSE(bytes);
    EXPECT_EQ(bytes.error().code, ErrorCode::out_of_space);
    EXPECT_EQ(contents(path("file")).size(), 3u);
    EXPECT_EQ(folder_.files(), 1u);
  }
}

TEST_F(FileTest, AFileThatCannotFitIsRefusedBeforeItIsWritten) {
  const auto before = io::traffic().bytes_written;
  const auto bytes =
      generate_file(generator_of("u64", Distribution::sorted, uint64_t{1} << 58), path("file"));
  ASSERT_FALSE(bytes);
  EXPECT_EQ(bytes.error().code, ErrorCode::out_of_space);
  EXPECT_EQ(io::traffic().bytes_written, before);
  EXPECT_EQ(folder_.files(), 0u);
}

TEST_F(FileTest, AReadErrorIsReported) {
  const Generator generator = generator_of("u64", Distribution::uniform, 2'000'000);
  ASSERT_TRUE(generate_file(generator, path("file")));
  io::inject({.error = EIO, .error_after = 3, .error_operation = io::Operation::read});
  const auto checked = check(path("file"), {.check = {generator.options().format}});
  io::inject({});
  ASSERT_FALSE(checked);
  EXPECT_EQ(checked.error().code, ErrorCode::io);
  EXPECT_EQ(checked.error().subject, path("file"));
}

TEST_F(FileTest, StoppingLeavesNothingBehind) {
  const std::atomic<bool> stop = true;
  const Generator generator = generator_of("u64", Distribution::uniform, 2'000'000);
  const auto bytes = generate_file(generator, path("file"), {.threads = 2, .stop = &stop});
  ASSERT_FALSE(bytes);
  EXPECT_EQ(bytes.error().code, ErrorCode::interrupted);
  EXPECT_EQ(folder_.files(), 0u);
}

TEST_F(FileTest, AFileWithAPartOfAnItemIsRefused) {
  std::ofstream(path("file")) << "123456789";
  const auto checked = check(path("file"), {.check = {*parse_format("u64")}});
  ASSERT_FALSE(checked);
  EXPECT_EQ(checked.error().code, ErrorCode::corrupt);
}

}  // namespace
}  // namespace penstock::generate
