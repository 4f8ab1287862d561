#include "cli/trace/compare_programs.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

namespace penstock::cli {
namespace {

class ComparedPrograms : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = (std::filesystem::temp_directory_path() /
               ("penstock-compare-" + std::to_string(::getpid())))
                  .string();
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string folder_;
};

TEST_F(ComparedPrograms, PlacesInACommandAreReplacedAndQuoted) {
  const SharedWork work{
      .input = "/it's here/in", .format = "lines", .memory_bytes = 1000, .threads = 3};
  const auto program =
      user_program("mine=a {input} >{output} -m {memory} -j{threads} {other} {tmp}", work, folder_);
  ASSERT_TRUE(program);
  EXPECT_EQ(program->name, "mine");
  ASSERT_EQ(program->words.size(), 3u);
  EXPECT_EQ(program->words[2], "a '/it'\\''s here/in' >'" + folder_ +
                                   "/output' -m 1000 -j3 {other} '" + folder_ + "/tmp'");
  EXPECT_TRUE(std::filesystem::is_directory(folder_ + "/tmp"));
}

TEST_F(ComparedPrograms, CommandsWithoutANameAreRefused) {
  for (const char* text : {"", "=", "=cat", "cat", "cat="}) {
    EXPECT_FALSE(user_program(text, {}, folder_)) << text;
  }
}

TEST_F(ComparedPrograms, UnsuitablePresetsHaveAReason) {
  const SharedWork lines{.input = "/in", .format = "lines", .memory_bytes = 1 << 20, .threads = 1};
  const SharedWork numbers{.input = "/in", .format = "u64", .memory_bytes = 1 << 20, .threads = 1};
  // The message has the request, the reason, and an alternative.
  for (const char* name : {"gnu-sort", "spark"}) {
    const std::string problem = preset(name, numbers, folder_)->problem;
    EXPECT_NE(problem.find("--format u64: it compares lines"), std::string::npos) << problem;
    EXPECT_NE(problem.find("try: --format lines"), std::string::npos) << problem;
  }
  for (const char* name : {"duckdb", "stxxl"}) {
    const std::string problem = preset(name, lines, folder_)->problem;
    EXPECT_NE(problem.find("--format lines: "), std::string::npos) << problem;
    EXPECT_NE(problem.find("try: --format u64"), std::string::npos) << problem;
  }
  EXPECT_FALSE(preset("spark", lines, folder_)->problem.empty());  // too little memory for Spark
  EXPECT_TRUE(preset("penstock", lines, folder_)->problem.empty());
  EXPECT_TRUE(preset("penstock", numbers, folder_)->problem.empty());
  const auto none = preset("nonesuch", lines, folder_);
  ASSERT_FALSE(none);
  EXPECT_NE(none.error().hint.find("gnu-sort, penstock, duckdb, stxxl, spark"), std::string::npos);
}

}  // namespace
}  // namespace penstock::cli
