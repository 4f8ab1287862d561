#include "cli/sort/tables.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <string_view>

#include "base/misuse.h"
#include "cli/common/command.h"

namespace penstock::cli {
namespace {

// A table's own words, and what both have.
constexpr std::array<std::string_view, 7> taken = {
    "--by", "FILE", "--output", "--buffer-size", "--temporary-directory", "--parallel", "--top"};

// What the package's program does not say of itself.
constexpr const char* program = R"python(
import sys
try:
    from penstock.__main__ import main
except ImportError as error:
    print(f"penstock sort: tables are sorted by the Python package penstock, which {sys.executable} does not have: {error} "
          "(try: pip install . in the sources of penstock, and pip install pyarrow)", file=sys.stderr)
    sys.exit(2)
sys.exit(main())
)python";

// The Python beside the program, with which it may have been installed, or the first one on the path.
std::string python() {
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::string beside = self.parent_path() / "python3";
  return !error && ::access(beside.c_str(), X_OK) == 0 ? beside : "python3";
}

}  // namespace

int sort_tables(const Parser& parser, const SortWords& words, const std::vector<std::string>& by) {
  for (const std::string& option : parser.given_options()) {
    if (std::ranges::find(taken, option) != taken.end()) continue;
    return report("sort", misuse("sort tables with this option", "--by " + option,
                                 "--by with -o, -S, -T, --parallel and --top")
                              .error());
  }
  if (words.inputs.empty() || words.output == "-") {
    return report("sort", misuse("sort tables from or to a pipe", "--by",
                                 "penstock sort --by COLUMN TABLE -o TABLE")
                              .error());
  }
  const auto memory = memory_bytes_of(words);
  if (!memory) return report("sort", memory.error());
  std::vector<std::string> arguments = {python(), "-c", program, "sort"};
  auto add = [&](const char* name, const std::string& value) {
    arguments.insert(arguments.end(), {name, value});
  };
  for (const std::string& keys : by) add("--by", keys);
  add("--output", words.output);
  add("--buffer-size", std::to_string(*memory));
  add("--parallel", std::to_string(words.threads));
  for (const std::string& folder : words.temp_directories) add("--temporary-directory", folder);
  if (words.top) add("--top", std::to_string(*words.top));
  arguments.emplace_back("--");
  arguments.insert(arguments.end(), words.inputs.begin(), words.inputs.end());
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  ::execvp(pointers.front(), pointers.data());
  return report("sort", {ErrorCode::not_found, "start Python, which sorts tables",
                         arguments.front(), errno, "the package python3"});
}

}  // namespace penstock::cli
