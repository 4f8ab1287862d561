#include "cli/sort/tables.h"

#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "base/misuse.h"
#include "base/shell_word.h"
#include "cli/common/command.h"
#include "cli/common/modes.h"
#include "interfaces/api/option_table.h"

namespace penstock::cli {
namespace {

// The Python in the program's folder, where both may have been installed, or the first one in PATH.
std::string find_python() {
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::string beside = self.parent_path() / "python3";
  return !error && ::access(beside.c_str(), X_OK) == 0 ? beside : "python3";
}

// Pointers to the words, as exec and spawn take them. REQUIRES: the words outlive them.
std::vector<char*> pointers_to(std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  return pointers;
}

// Checks that Python finds the package. Errors: there is no such Python, or it does not find it.
// (Python's own message would not say how to install it.)
Status find_package(const std::string& python) {
  std::vector<std::string> words = {
      python, "-c",
      "import importlib.util as util; found = util.find_spec('penstock'); "
      "raise SystemExit(found is None or found.origin is None)"};
  pid_t child = 0;
  int status = 0;
  const int failed =
      ::posix_spawnp(&child, python.c_str(), nullptr, nullptr, pointers_to(words).data(), environ);
  if (failed == 0) {
    while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
  }
  if (failed == 0 && status == 0) return {};
  return std::unexpected(Error{
      ErrorCode::not_found, "start Python with its package penstock, which sorts tables", python,
      failed, "python3, pip install . in the sources of penstock, and pip install pyarrow"});
}

// Adds the options of the table that `mode` obeys and that were given or differ from the default.
// The package's command reads the same table, in which an option without words goes by its name.
template <class Options>
void add_words(const Parser& parser, const Mode& mode, const Options& options,
               std::vector<std::string>& words) {
  const Options defaults;
  api::for_each_option<Options>([&](const api::OptionText& text, auto field) {
    const std::string_view names = text.words;
    const std::string name =
        names.empty() ? std::string("--") + text.name : std::string(api::long_name(names));
    if ((text.scope & mode.bit) == 0 || !name.starts_with("--")) return;
    auto add = [&]<class Value>(const Value& value) {
      if constexpr (fmt::is_formattable<Value>::value)
        words.push_back(fmt::format("{}={}", name, value));
    };
    const auto& value = field(options);
    using Value = std::remove_cvref_t<decltype(value)>;
    if (value == field(defaults) && (names.empty() || !parser.given(name.c_str()))) return;
    if constexpr (std::is_same_v<Value, bool>) {
      words.push_back(name);
    } else if constexpr (std::is_same_v<Value, std::vector<std::string>>) {
      std::ranges::for_each(value, add);
    } else if constexpr (requires { value.has_value(); }) {
      if (value) add(*value);
    } else {
      add(value);
    }
  });
}

// Refuses --by together with the options of rows of text, which people who mean columns combine with it.
Status check_columns_given_once(const Parser& parser, const PackageWords& package) {
  if (package.by.empty()) return {};
  for (const char* const option : {"--csv", "--tsv", "--header", "--field-separator"}) {
    if (!parser.given(option)) continue;
    return misuse(fmt::format("take this option with {}", option), "--by",
                  fmt::format("--key {} in place of --by, or --by alone, which sorts tables",
                              package.by.front()));
  }
  if (parser.given("--key"))
    return misuse("take this option with --by", "--key",
                  "--by alone for tables, or --csv --header --key for rows of text");
  return {};
}

}  // namespace

int sort_by_package(const Parser& parser, const SortWords& words, const PackageWords& package) {
  const bool cluster = package.engine == "ray";
  if (!cluster && package.engine != "local")
    return report(
        "sort", misuse("sort by this engine", "--engine " + package.engine, "local, ray").error());
  const Mode& mode = !cluster             ? modes::sorts_tables
                     : package.by.empty() ? modes::sorts_on_cluster
                                          : modes::sorts_tables_on_cluster;
  if (Status columns = check_columns_given_once(parser, package); !columns)
    return report("sort", columns.error());
  if (Status obeyed = parser.refuse_outside(mode); !obeyed) return report("sort", obeyed.error());
  if (words.inputs.empty() || words.output == "-") {
    return report("sort",
                  cluster ? misuse("sort from or to a pipe on a cluster", "--engine ray",
                                   "penstock sort --engine ray FILE... -o FOLDER")
                                .error()
                          : misuse("sort tables from or to a pipe", "--by",
                                   "penstock sort --by COLUMN TABLE -o TABLE" +
                                       (package.by.empty()
                                            ? ""
                                            : "; for CSV --key " + typed_word(package.by.front())))
                                .error());
  }
  const auto memory = memory_bytes_of(words);
  if (!memory) return report("sort", memory.error());
  const auto items = words.format.items(words.descending);
  if (!items) return report("sort", items.error());
  FilesOptions files{.output = words.output, .temp_directories = words.temp_directories};
  SortFilesOptions sort = words.sort;
  // The defaults for this machine's memory and processors do not fit a cluster.
  if (!cluster || parser.given("--buffer-size")) files.memory_bytes = *memory;
  if (cluster && !parser.given("--parallel")) sort.threads = SortFilesOptions().threads;

  std::vector<std::string> command = {find_python(), "-m", "penstock", "sort",
                                      "--engine=" + package.engine};
  for (const std::string& keys : package.by) command.push_back("--by=" + keys);
  add_words(parser, mode, *items, command);
  add_words(parser, mode, files, command);
  add_words(parser, mode, sort, command);
  command.emplace_back("--");
  command.insert(command.end(), words.inputs.begin(), words.inputs.end());
  if (Status found = find_package(command.front()); !found) return report("sort", found.error());
  ::execvp(command.front().c_str(), pointers_to(command).data());
  return report("sort", {ErrorCode::io, "start Python", command.front(), errno});
}

}  // namespace penstock::cli
