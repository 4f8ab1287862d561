#include "interfaces/api/option_names.h"

#include <gtest/gtest.h>

#include <fstream>

#include "base/temporary_folder_fixture.h"

namespace penstock::api {
namespace {

TEST(OptionNames, ReplacesTheWordsOfTheCommandLineByMembers) {
  const std::pair<const char*, const char*> texts[] = {
      {"a larger -S", "a larger memory_bytes"},
      {"-S", "memory_bytes"},
      {"--format u63", "format=u63"},
      {"--parallel 2", "threads=2"},
      {", or fewer threads (--parallel)", ", or fewer threads (threads)"},
      {"OFFSET:LENGTH, as in --key 0:10 or --key 4:8:u64:desc",
       "OFFSET:LENGTH, as in keys=0:10 or keys=4:8:u64:desc"},
      {"no --header, if its first line is none; or a larger -S",
       "no header_lines, if its first line is none; or a larger memory_bytes"},
      {"--header=2", "header_lines=2"},
      {"--csv --header --key NAME", "csv=true header_lines keys=NAME"},
      {"--csv or --tsv", "csv=true or separator=\\t"},
      {"-t ';'", "separator=';'"},
      {"-T with a directory", "temp_directories with a directory"},
      {"-m without --pool", "merge_only=true without mechanism"},
      {"--no-decompress, if these bytes are meant as lines",
       "decompress=false, if these bytes are meant as lines"},
      {"--resume -o FILE, and then penstock cat -Z FILE -o FILE.gz",
       "resume=true output=FILE, and then penstock cat -Z FILE -o FILE.gz"},
      {"--sort=time", "letters=:time"},
      {"-nr", "letters=nr"},
      {"a higher limit (ulimit -n), or a larger -S",
       "a higher limit (ulimit -n), or a larger memory_bytes"},
      {"iconv -f UTF-16LE -t UTF-8 FILE", "iconv -f UTF-16LE -t UTF-8 FILE"},
      {"find '--key' in - or -1.25", "find '--key' in - or -1.25"},
      {"an unclosed ' and -S", "an unclosed ' and memory_bytes"}};
  for (const auto& [from, to] : texts)
    EXPECT_EQ(with_members(from, member_of<SortFilesOptions>), to);
}

TEST(OptionNames, AWordMeansTheMemberOfItsOperation) {
  EXPECT_EQ(with_members("--lines 10", member_of<SplitFilesOptions>), "items=10");
  EXPECT_EQ(with_members("-n 10", member_of<DrawFilesOptions>), "count=10");
  EXPECT_EQ(with_members("-o auto", member_of<JoinLinesOptions>), "list=auto");
  EXPECT_EQ(with_members("-1 id, --right (-a 2) or --full", member_of<JoinLinesOptions>),
            "left_keys=id, right_alone=true (right_alone=true) or left_alone=true "
            "right_alone=true");
  EXPECT_EQ(with_members("--mean price, --sum=x or --sum", member_of<GroupFilesOptions>),
            "results=mean=price, results=sum=x or sum=true");
}

TEST(OptionNames, EachWordOfTheTableHasAMember) {
  const auto replaces_all = [](auto find, auto options) {
    for_each_option<decltype(options)>([&](const OptionText& text, auto) {
      const std::string words = std::string(text.words) + ",";
      for (size_t at = 0, end; (end = words.find(',', at)) != words.npos; at = end + 1) {
        const std::string word = words.substr(at, end - at);
        EXPECT_FALSE(with_members(word, find).starts_with('-')) << word;
      }
    });
  };
  replaces_all(member_of<SortFilesOptions>, ItemFormat());
  replaces_all(member_of<SortFilesOptions>, FilesOptions());
  replaces_all(member_of<SortFilesOptions>, SortFilesOptions());
  replaces_all(member_of<GroupFilesOptions>, GroupFilesOptions());
  replaces_all(member_of<JoinLinesOptions>, JoinLinesOptions());
  replaces_all(member_of<SplitFilesOptions>, SplitFilesOptions());
}

TEST(OptionNames, ErrorsNameMembersUnlessTheCallerIsTheCommandLine) {
  const TemporaryFolder folder;
  FilesOptions files{.inputs = {folder / "in"}, .output = folder / "out", .memory_bytes = 1};
  std::ofstream(folder / "in") << "b\na\n";
  const auto sorted = sort_files(files);
  ASSERT_FALSE(sorted.has_value());
  EXPECT_EQ(sorted.error().subject, "memory_bytes");
  EXPECT_EQ(sorted.error().message().find(" -S"), std::string::npos) << sorted.error().message();
  const auto plan = plan_sort_files(files, {.threads = 0});
  ASSERT_FALSE(plan.has_value());
  EXPECT_EQ(plan.error().message(), "threads: cannot work with no thread (try: threads=2)");
  files.option_names = OptionNames::command_line;
  EXPECT_EQ(sort_files(files).error().subject, "-S");
}

// The values of a list stay data.
TEST(OptionNames, ErrorsOfDataStayAsTheyAre) {
  const Error error =
      with_members({ErrorCode::corrupt, "read -S", "-S", 0, "--csv"}, member_of<SortFilesOptions>);
  EXPECT_EQ(error.attempted, "read -S");
  EXPECT_EQ(error.hint, "csv=true");
}

}  // namespace
}  // namespace penstock::api
